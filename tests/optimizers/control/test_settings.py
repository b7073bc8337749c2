"""When an optimizer is asked: settings that mean something, and nothing else."""

from dataclasses import dataclass

import pytest

from optimizers.control.settings import Asking
from optimizers.errors import InvalidValueError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("every", 0),
        ("every", 2.5),
        ("remember", 0),
        ("drift", -0.1),
        ("drift", 1.5),
        ("meanwhile", "no"),
        ("meanwhile", None),
    ],
)
def test_a_setting_without_a_meaning_is_refused_by_its_name(name, value):
    with pytest.raises(InvalidValueError, match=name):
        Asking(**{name: value})


def test_of_a_value_with_more_settings_only_these_are_taken():
    @dataclass(frozen=True, kw_only=True)
    class Engine(Asking):
        folder: str = "here"

    asking = Asking.of(Engine(every=3, drift=None, remember=5, folder="there"))

    assert type(asking) is Asking
    assert Asking(every=3, drift=None, remember=5) == asking
