"""Variants as people write them on a command line."""

import pytest

from optimizers.cli.tour import Calm
from optimizers.comparing import variants
from optimizers.comparing.variants import DEFAULT, variants_of
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.strategies.fixed import Hash
from optimizers.strategies.locality import Locality


def test_the_default_is_hash_the_published_method_and_ours():
    found = variants_of(DEFAULT)

    assert {"hash": None, "published": Locality.published(), "locality": Locality()} == found
    assert ["hash", "published", "locality"] == list(found)


def test_a_chain_is_written_with_plus():
    found = variants_of(["both=locality+hash"])["both"]

    assert (Locality(), Hash()) == found.steps


def test_strategies_of_other_packages_go_by_their_names(monkeypatch):
    monkeypatch.setattr(variants, "registered", lambda: {"calm": "calm_streams:Calm"})
    monkeypatch.setattr(variants, "create", lambda name: {"calm": Calm()}[name])

    assert {"calm": Calm()} == variants_of(["calm"])
    with pytest.raises(
        UnknownNameError, match="known: 'hash', 'published', 'locality', 'osg', 'calm'"
    ):
        variants_of(["clam"])


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["albic"], UnknownNameError, "unknown strategy 'albic'; known: 'hash', 'published', 'loc"),
        (["x=locality+"], UnknownNameError, "unknown strategy ''"),
        ([""], InvalidValueError, "'' is no variant; write a strategy"),
        (["x="], InvalidValueError, "'x=' is no variant"),
        (["=hash"], InvalidValueError, "'=hash' is no variant"),
        (["hash", "hash=locality"], InvalidValueError, "two variants are called 'hash'"),
    ],
)
def test_what_is_no_variant_is_refused(texts, error, message):
    with pytest.raises(error, match=message):
        variants_of(texts)
