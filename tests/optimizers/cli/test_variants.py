"""Variants as people write them on a command line."""

import pytest

from grouping.groupings import DChoices
from optimizers.cli.variants import DEFAULT, variants_of
from optimizers.errors import InvalidValueError, PluginError, UnknownNameError
from optimizers.strategies.everywhere import Everywhere
from optimizers.strategies.fixed import Hash
from optimizers.strategies.locality import Locality


def test_the_default_is_hash_the_published_method_and_ours():
    found = variants_of(DEFAULT)

    assert {"hash": None, "published": Locality.published(), "locality": Locality()} == found
    assert ["hash", "published", "locality"] == list(found)


def test_a_chain_is_written_with_plus():
    found = variants_of(["both=locality+hash"])["both"]

    assert (Locality(), Hash()) == found.steps


def test_baselines_go_by_their_names_and_in_chains():
    found = variants_of(["d-choices", "both=d-choices+hash"])

    assert Everywhere(DChoices()) == found["d-choices"]
    assert (Everywhere(DChoices()), Hash()) == found["both"].steps


def test_settings_are_written_in_parentheses():
    found = variants_of(
        [
            "locality(worth=0, seed=3)",
            "calm=locality(worth=1e+3)+d-choices(threshold=.25, tolerance=1e-3)",
            "d-choices()",
        ]
    )

    assert Locality(worth=0, seed=3) == found["locality(worth=0, seed=3)"]
    assert (Locality(worth=1e3), Everywhere(DChoices(0.25, 1e-3))) == found["calm"].steps
    assert Everywhere(DChoices()) == found["d-choices()"]


def test_strategies_go_by_their_import_paths_with_settings_and_in_chains():
    module = "optimizers.strategies"
    found = variants_of(
        [
            f"{module}.locality:Locality(worth=0)",
            f"mine={module}.fixed:Hash+{module}.locality:Locality",
        ]
    )

    assert Locality(worth=0) == found[f"{module}.locality:Locality(worth=0)"]
    assert (Hash(), Locality()) == found["mine"].steps


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["locality(wurth=0)"], PluginError, "unexpected keyword argument 'wurth'"),
        (["locality(worth=-1)"], InvalidValueError, "worth=-1.* is out of range"),
        (["locality(0)"], InvalidValueError, "settings that cannot be read; write NAME"),
        (["locality(worth=open('x'))"], InvalidValueError, "settings that cannot be read"),
        (["locality(worth=1)or(1)"], InvalidValueError, "settings that cannot be read"),
        (["locality(**{'worth': 1})"], InvalidValueError, "settings that cannot be read"),
        (["locality(worth=1"], InvalidValueError, "is not a strategy; write NAME, or NAME"),
        (["locality(worth=)"], InvalidValueError, "settings that cannot be read"),
        (["a(b=1)+"], UnknownNameError, "unknown strategy 'a'"),
        (
            ["borealis"],
            UnknownNameError,
            "unknown strategy 'borealis'; known: '",
        ),
        (["x=locality+"], UnknownNameError, "unknown strategy ''"),
        ([""], InvalidValueError, "'' is not a variant; write a strategy"),
        (["x="], InvalidValueError, "'x=' is not a variant"),
        (["=hash"], InvalidValueError, "'=hash' is not a variant"),
        (["hash", "hash=locality"], InvalidValueError, "two variants are called 'hash'"),
    ],
)
def test_what_is_no_variant_is_refused(texts, error, message):
    with pytest.raises(error, match=message):
        variants_of(texts)
