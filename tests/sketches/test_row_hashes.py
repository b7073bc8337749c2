import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sketches.errors import InvalidValueError
from sketches.row_hashes import RowHashes, splitmix64

SEEDS = st.integers(0, 2**64 - 1)
CODES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 1000), min_size=1, max_size=50)


def columns_of(hashes, codes):
    """All columns as one array of shape (depth, keys)."""
    parts = [columns.copy() for _, columns in hashes.columns(np.array(codes, dtype=np.uint64))]
    return np.concatenate(parts, axis=1)


def columns_by_definition(*, width, depth, seed, codes):
    numbers = splitmix64(seed)
    rows = []
    for _ in range(depth):
        a, b, c = islice(numbers, 3)
        hashed = [((a * (x % 2**32) + b * (x >> 32) + c) % 2**64) >> 32 for x in codes]
        rows.append([(value * width) >> 32 for value in hashed])
    return rows


def test_splitmix64_yields_its_published_numbers():
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert expected == list(islice(splitmix64(1234567), 4))


@given(st.integers(1, 2**20), st.integers(1, 6), SEEDS, CODES)
@example(1000, 3, 1, [2**32 - 1])
@example(1000, 3, 1, [2**32])
def test_columns_follow_the_definition(width, depth, seed, codes):
    expected = columns_by_definition(width=width, depth=depth, seed=seed, codes=codes)
    actual = columns_of(RowHashes(width=width, depth=depth, seed=seed), codes)
    assert expected == actual.tolist()


@given(SEEDS, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20))
def test_small_codes_fall_alike_with_and_without_large_ones_beside_them(seed, codes):
    hashes = RowHashes(width=1000, depth=3, seed=seed)
    alone = columns_of(hashes, codes)
    beside = columns_of(hashes, [*codes, 2**64 - 1])
    assert alone.tolist() == beside[:, :-1].tolist()


@pytest.mark.parametrize("width", [1, 2, 3, 55, 2**28])
def test_every_column_is_in_range(width):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2**64, 10_000, dtype=np.uint64)
    actual = columns_of(RowHashes(width=width, depth=1, seed=3), codes)
    assert actual.min() >= 0
    assert actual.max() < width


@pytest.mark.parametrize("depth", [1, 4, 255])
@pytest.mark.parametrize("largest", [2**20, 2**63])
def test_long_columns_come_in_spans_that_follow_each_other(depth, largest):
    codes = np.random.default_rng(2).integers(0, largest, 300_000 // depth, dtype=np.uint64)
    hashes = RowHashes(width=97, depth=depth, seed=5)
    end = 0
    for span, columns in hashes.columns(codes):
        assert end == span.start
        assert (depth, span.stop - span.start) == columns.shape
        end = span.stop
        last = columns[:, -1].tolist()
        assert last == columns_of(hashes, codes[end - 1 : end])[:, 0].tolist()
    assert len(codes) == end


def test_no_codes_have_no_columns():
    hashes = RowHashes(width=3, depth=2, seed=0)
    assert not list(hashes.columns(np.empty(0, dtype=np.uint64)))


@given(SEEDS)
def test_a_taller_matrix_begins_with_the_rows_of_a_shorter_one(seed):
    codes = [0, 1, 2**40, 2**64 - 1]
    short = columns_of(RowHashes(width=1000, depth=2, seed=seed), codes)
    tall = columns_of(RowHashes(width=1000, depth=5, seed=seed), codes)
    assert short.tolist() == tall[:2].tolist()


@pytest.mark.parametrize(
    "codes",
    [
        (0, 1),
        (1, 2),
        (1, 2**32),
        (2**32 + 1, 1),
        (0, 2**63),
        (2**64 - 1, 2**64 - 2),
        (2**31, 2**63 + 2**31),
    ],
)
def test_any_two_keys_share_a_column_as_rarely_as_chance_has_it(codes):
    # 255 rows times 80 seeds, width 20: 1020 of 20400 collisions expected, standard deviation 31.
    # Five of those either way; seeds are fixed, so this passes always or never.
    collisions = 0
    for seed in range(80):
        first, second = columns_of(RowHashes(width=20, depth=255, seed=seed), codes).T
        collisions += int((first == second).sum())
    assert 1020 - 5 * 31 < collisions < 1020 + 5 * 31


def test_columns_are_filled_evenly():
    # 55 columns, 55000 consecutive keys, 1000 each. Strong universality bounds the variance of a
    # column's count over seeds by 1000; the mean square over 4 rows x 50 seeds x 55 columns stays
    # below twice that.
    codes = np.arange(55_000, dtype=np.uint64)
    squares = [
        ((np.bincount(row, minlength=55) - 1000.0) ** 2).mean()
        for seed in range(50)
        for row in columns_of(RowHashes(width=55, depth=4, seed=seed), codes)
    ]
    assert np.mean(squares) < 2000


def test_least_is_the_least_of_a_keys_cells():
    hashes = RowHashes(width=7, depth=3, seed=1)
    cells = np.random.default_rng(0).random((3, 7))
    codes = np.arange(20, dtype=np.uint64)
    columns = columns_of(hashes, codes)
    expected = [min(cells[row, columns[row, key]] for row in range(3)) for key in range(20)]
    assert expected == hashes.least(cells, codes).tolist()


def test_scatter_gives_each_key_its_own_amount_beyond_one_span():
    codes = np.arange(600_000, dtype=np.uint64) % 50
    amounts = np.arange(600_000, dtype=np.float64)
    cells = np.zeros((1, 10_000))
    hashes = RowHashes(width=10_000, depth=1, seed=1)
    assert len(list(hashes.columns(codes))) > 1
    hashes.scatter(codes, (cells, amounts))
    distinct = columns_of(hashes, codes[:50])[0]
    assert len(set(distinct)) == 50
    assert np.bincount(codes.view(np.int64), amounts).tolist() == cells[0, distinct].tolist()


def test_scatter_adds_to_each_target_by_the_same_columns():
    hashes = RowHashes(width=7, depth=2, seed=1)
    codes = np.array([3, 3, 2**50], dtype=np.uint64)
    ones, amounts = np.zeros((2, 7)), np.zeros((2, 7))
    hashes.scatter(codes, (ones, 1.0), (amounts, np.array([1.0, 2.0, 4.0])))
    expected_ones, expected_amounts = np.zeros((2, 7)), np.zeros((2, 7))
    for row, columns in enumerate(columns_of(hashes, codes).tolist()):
        for column, amount in zip(columns, [1.0, 2.0, 4.0], strict=True):
            expected_ones[row, column] += 1
            expected_amounts[row, column] += amount
    assert expected_ones.tolist() == ones.tolist()
    assert expected_amounts.tolist() == amounts.tolist()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"width": 0}, "width=0"),
        ({"width": 2**28 + 1}, "width=268435457"),
        ({"width": 5.0}, "width=5.0"),
        ({"width": True}, "width=True"),
        ({"depth": 0}, "depth=0"),
        ({"depth": 256}, "depth=256"),
        ({"depth": "4"}, "depth='4'"),
        ({"width": 2**28, "depth": 2}, "cells"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**64}, "seed=18446744073709551616"),
    ],
)
def test_impossible_shapes_are_refused_by_name(changed, named):
    with pytest.raises(InvalidValueError, match=named):
        RowHashes(**{"width": 5, "depth": 2, "seed": 0, **changed})


def test_columns_are_the_same_in_a_process_with_another_hash_seed():
    code = (
        "import numpy as np; from sketches.row_hashes import RowHashes; "
        "h = RowHashes(width=1000, depth=4, seed=9); "
        "print([c.tolist() for _, c in h.columns(np.arange(9, dtype=np.uint64) << 30)])"
    )
    hashes = RowHashes(width=1000, depth=4, seed=9)
    expected = [columns_of(hashes, np.arange(9, dtype=np.uint64) << 30).tolist()]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    run = [sys.executable, "-c", code]
    printed = subprocess.run(run, env=environment, capture_output=True, check=True, text=True)
    assert str(expected) == printed.stdout.strip()
