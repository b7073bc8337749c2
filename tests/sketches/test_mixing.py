"""Mixing by a seed: bijections that differ, and a hash that a test may cut down."""

import numpy as np
import pytest
from cut_hash import cut_hash
from hypothesis import given
from hypothesis import strategies as st

from sketches.errors import InvalidValueError
from sketches.keys import Pairs, as_keys, mix, pair_codes
from sketches.mixing import SEED_LIMIT, constants

ALL = (1 << 64) - 1
SEEDS = st.integers(0, SEED_LIMIT - 1)


def u64(*numbers):
    return np.array(numbers, dtype=np.uint64)


def unmix(code, seed):
    """Undo `mix`, with Python's integers."""
    first, second = (pow(int(factor), -1, 1 << 64) for factor in constants(seed).multipliers)
    code = code ^ (code >> 31) ^ (code >> 62)
    code = code * second & ALL
    code = code ^ (code >> 27) ^ (code >> 54)
    code = code * first & ALL
    return code ^ (code >> 30) ^ (code >> 60)


@given(st.integers(0, ALL), SEEDS)
def test_mix_is_a_bijection_by_every_seed(code, seed):
    assert code == unmix(int(mix(u64(code), seed)[0]), seed)


def test_mix_leaves_what_it_is_given_as_it_is():
    given_ = np.arange(100_000, dtype=np.uint64)
    mixed = mix(given_)

    assert np.array_equal(np.arange(100_000), given_)
    assert len(np.unique(mixed)) == 100_000
    assert np.array_equal(mixed[70_000:], mix(given_[70_000:]))


@pytest.mark.parametrize(
    "keys", [["a", "b" * 300], [b"a"], Pairs([1, 2], ["x", "y"])], ids=["text", "bytes", "pairs"]
)
def test_another_seed_gives_other_codes_of_the_same_keys(keys):
    public, other = as_keys(keys), as_keys(keys, seed=7)

    assert not (public.codes == other.codes).any()
    assert (0, 7) == (public.seed, other.seed)
    assert public.objects().tolist() == other.objects().tolist()
    assert np.array_equal(other.codes, public.seeded(7).codes)
    assert np.array_equal(public.codes, as_keys(other, seed=0).codes)
    assert as_keys(other) is other
    assert np.array_equal(other.codes, other.take(slice(None)).joined().codes)


def test_columns_of_two_seeds_join_by_that_of_the_first():
    joined = as_keys(["a"], seed=3).joined(as_keys(["b"]), as_keys(["c"], seed=5))

    assert np.array_equal(as_keys(["a", "b", "c"], seed=3).codes, joined.codes)


def test_integers_are_their_own_codes_by_every_seed():
    assert [5, 6] == as_keys([5, 6], seed=9).codes.tolist()


@given(st.lists(SEEDS, min_size=2, max_size=2, unique=True))
def test_twins_by_one_seed_are_none_by_another(seeds):
    first, second = seeds
    left, right, other = u64(1), u64(2), u64(3)
    # The right side that gives (3, x) the code of (1, 2): the steps of a pair, undone.
    chosen = constants(first)
    inner = mix(left + chosen.pair_start, first) + right * chosen.pair_factor
    rest = inner - mix(other + chosen.pair_start, first)
    twin = u64(int(rest[0]) * pow(int(chosen.pair_factor), -1, 1 << 64) & ALL)

    assert pair_codes(left, right, first) == pair_codes(other, twin, first)
    assert pair_codes(left, right, second) != pair_codes(other, twin, second)


@pytest.mark.parametrize("seed", [-1, SEED_LIMIT, 1.0, True, "1"])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(InvalidValueError, match=r"seed="):
        as_keys([1], seed=seed)


@pytest.mark.parametrize("bits", [1, 8, 16])
@pytest.mark.parametrize("keys", [[f"key {n}" for n in range(500)], [(n, n) for n in range(500)]])
def test_a_cut_hash_has_so_many_values_and_is_whole_afterwards(bits, keys):
    whole = as_keys(keys).codes
    with cut_hash(bits):
        codes = as_keys(keys).codes

    assert not (codes << np.uint64(bits)).any()
    assert np.array_equal(whole, as_keys(keys).codes)
