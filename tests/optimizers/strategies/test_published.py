"""``Strategy.published()`` takes every setting of the paper's method, with its default."""

from dataclasses import MISSING, fields
from inspect import signature

import pytest

from optimizers import Aeolus, Albic, Locality, Osg


@pytest.mark.parametrize("strategy", [Aeolus, Albic, Locality, Osg])
def test_published_takes_all_settings_of_what_it_returns(strategy):
    settings = {
        field.name: field.default if field.default is not MISSING else field.default_factory()
        for field in fields(strategy.published())
        if field.init
    }
    given = {
        name: parameter.default
        for name, parameter in signature(strategy.published).parameters.items()
    }
    assert given == settings


def test_a_setting_that_is_given_reaches_the_method():
    published = Albic.published(time_limit=2, solver="HiGHS")
    assert (published.time_limit, published.solver) == (2.0, "HiGHS")
