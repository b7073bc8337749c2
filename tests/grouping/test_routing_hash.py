"""The hash that routes: pinned for ever, even, and the same for a key in any container."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.hashing import code_parts, hash_parts, key_places, place_parts
from grouping.key_batch import KeyBatch
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.keys import Pairs, as_keys

ALL = (1 << 64) - 1


def mixed(number):
    """The finaliser of splitmix64, one number at a time."""
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & ALL
    return number ^ (number >> 31)


def part_of(code, parts, choice):
    constant = mixed((0x8F3A6D51C2B4E907 + choice * 0x9E3779B97F4A7C15) & ALL)
    return (mixed(code ^ constant) >> 32) * parts >> 32


GOLDEN = {
    "integers": (
        [0, 1, 2, -1, 1 << 40],
        [[192, 129, 146, 931, 370], [803, 488, 723, 302, 857], [262, 653, 483, 953, 879]],
    ),
    "texts": (
        ["", "Asia", "Oceania", "größe", "a" * 300],
        [[993, 530, 59, 979, 928], [122, 378, 612, 792, 617], [530, 173, 976, 88, 984]],
    ),
    "bytes": ([b"", b"Asia", b"\x00"], [[202, 523, 514], [53, 233, 481], [111, 796, 734]]),
    "pairs": ([("Asia", "#java"), ("Oceania", "#java")], [[760, 569], [888, 690], [207, 255]]),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_parts_of_known_keys_never_change(name):
    keys, expected = GOLDEN[name]

    assert expected == [hash_parts(keys, 1_000, choice=choice).tolist() for choice in range(3)]


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20),
    st.integers(1, (1 << 31) - 1),
    st.integers(0, 1_000),
)
def test_a_part_is_a_scaled_mix_of_the_code(keys, parts, choice):
    found = hash_parts(keys, parts, choice=choice)

    assert np.int32 == found.dtype
    assert [part_of(key & ALL, parts, choice) for key in keys] == found.tolist()


@given(st.lists(st.text(max_size=12) | st.binary(max_size=12), max_size=10), st.integers(1, 99))
def test_text_and_bytes_go_by_their_fingerprints(mixture, parts):
    for kind in (str, bytes):
        keys = [key for key in mixture if isinstance(key, kind)]
        codes = as_keys(keys).codes.tolist()

        assert [part_of(code, parts, 0) for code in codes] == hash_parts(keys, parts).tolist()


@given(st.lists(st.sampled_from(["Asia", "Europe", "größe", ""]), min_size=1, max_size=30))
def test_every_container_of_a_text_gives_the_same_part(keys):
    expected = hash_parts(keys, 50).tolist()
    plain = pa.array(keys)
    halves = [
        plain[: len(keys) // 2].dictionary_encode(),
        plain[len(keys) // 2 :].dictionary_encode(),
    ]

    for same in (
        tuple(keys),
        np.array(keys, dtype=object),
        plain,
        plain.dictionary_encode(),
        pa.chunked_array(halves),
        as_keys(keys),
        KeyBatch.read(plain.dictionary_encode()),
    ):
        assert expected == hash_parts(same, 50).tolist()


def test_pairs_have_the_same_part_as_rows_and_as_columns():
    rows = [(1, "a"), (2, "b"), (1, "b")]

    assert (
        hash_parts(rows, 99).tolist() == hash_parts(Pairs([1, 2, 1], ["a", "b", "b"]), 99).tolist()
    )


def test_a_dictionary_is_hashed_by_its_words_only():
    batch = KeyBatch.read(pa.array(["Asia", "Europe", "Asia", "Asia"]).dictionary_encode())

    assert 2 == len(batch.column)
    assert 4 == len(batch)


@pytest.mark.parametrize("words", [["Asia", None], ["Asia", "Europe", "Oceania"]])
def test_a_dictionary_that_does_not_pay_or_has_gaps_is_read_row_by_row(words):
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(words))

    assert hash_parts(["Asia", "Asia"], 9).tolist() == hash_parts(keys, 9).tolist()
    assert KeyBatch.read(keys).places is None


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["Asia", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["Asia", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([0.5])),
        [1, "a"],
        "Asia",
    ],
)
def test_what_is_no_key_is_refused(keys):
    with pytest.raises(InvalidKeyError):
        hash_parts(keys, 9)


def test_an_empty_batch_has_no_parts():
    for nothing in ([], np.empty(0, np.int64), pa.array([], pa.string()).dictionary_encode()):
        assert [] == hash_parts(nothing, 9).tolist()


def test_long_batches_are_hashed_as_short_ones():
    keys = np.arange(200_000)
    whole = hash_parts(keys, 1_000)

    assert np.array_equal(whole, np.concatenate([hash_parts(k, 1_000) for k in np.split(keys, 8)]))


@pytest.mark.parametrize("step", [1, 1 << 16, 1 << 32, 1_000_003])
def test_parts_are_even_for_keys_in_sequence(step):
    count, parts = 100_000, 50
    loads = np.bincount(hash_parts(np.arange(count) * step, parts), minlength=parts)

    # Fifty binomial counts: five standard deviations are met by chance in 3 of 100000 hashes.
    assert abs(loads - count / parts).max() < 5 * math.sqrt(count / parts)


@pytest.mark.parametrize("choices", [(0, 1), (1, 2), (0, 7)])
def test_choices_know_nothing_of_each_other(choices):
    count, parts = 200_000, 20
    first, second = (hash_parts(np.arange(count), parts, choice=choice) for choice in choices)
    together = np.bincount(first * parts + second, minlength=parts * parts)

    # Four hundred binomial counts: by chance 2 of 10000 choices would stray as far.
    assert abs(together - count / parts**2).max() < 5 * math.sqrt(count / parts**2)


@pytest.mark.parametrize(
    ("parts", "choice", "words"),
    [
        (0, 0, "parts=0 is out of range"),
        (-1, 0, "parts=-1"),
        (1 << 31, 0, "parts=2147483648"),
        (2.0, 0, "parts=2.0 is not a whole number"),
        (True, 0, "parts=True"),
        (2, -1, "choice=-1"),
        (2, None, "choice=None"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(parts, choice, words):
    with pytest.raises(InvalidValueError, match=words):
        hash_parts([1], parts, choice=choice)


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=50),
    st.integers(1, (1 << 31) - 1),
)
def test_keys_in_the_order_of_their_places_are_in_the_order_of_their_parts(keys, parts):
    codes = as_keys(np.array(keys, dtype=np.int64)).codes
    places = key_places(codes)

    assert code_parts(codes, parts).tolist() == place_parts(places, parts).tolist()
    assert (np.diff(place_parts(np.sort(places), parts)) >= 0).all()
    assert len(set(keys)) == len(set(places.tolist()))
