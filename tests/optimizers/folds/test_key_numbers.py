"""The numbers and codes of the keys of a table."""

import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from cut_hash import cut_hash
from hypothesis import given
from hypothesis import strategies as st

from grouping.hashing import key_places
from optimizers.errors import FoldError, InvalidKeyError
from optimizers.folds import codes_of, key_numbers
from optimizers.folds import key_codes as keys_module
from optimizers.folds.key_codes import take_rows
from sketches.keys import Pairs, as_keys, pair_codes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=2)
KINDS = [
    (pa.int64(), st.integers(-2, 2) | st.sampled_from((-(2**63), 2**63 - 1))),
    (pa.uint8(), st.integers(0, 3)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.binary(), st.binary(max_size=2)),
    (pa.dictionary(pa.int8(), pa.string()), TEXT),
    (pa.dictionary(pa.uint16(), pa.int64()), st.integers(-2, 2)),
]


@st.composite
def tables(draw, width):
    rows = draw(st.integers(0, 12))
    columns = []
    for _ in range(width):
        kind, cells = draw(st.sampled_from(KINDS))
        columns.append(pa.array(draw(st.lists(cells, min_size=rows, max_size=rows)), kind))
    table = pa.table(columns, names=[f"k{number}" for number in range(width)])
    if draw(st.booleans()):
        cut = draw(st.integers(0, rows))
        first = draw(st.integers(0, cut))
        table = pa.concat_tables([table.slice(first, cut - first), table.slice(cut)])
    return table


ANY_TABLES = st.integers(1, 4).flatmap(tables)


@given(ANY_TABLES)
def test_equal_keys_have_equal_numbers_and_others_have_others(table):
    keys, firsts, codes = key_numbers(table, table.column_names)
    rows = [tuple(row.values()) for row in table.to_pylist()]

    assert keys.dtype == firsts.dtype == np.int64
    assert codes.dtype == np.uint64
    assert len(set(rows)) == len(codes) == len(firsts)
    assert set(range(len(codes))) == set(keys.tolist())
    assert [rows.index(row) for row in rows] == firsts[keys].tolist()


@pytest.mark.parametrize("bits", [64, 3])
@given(table=tables(1) | tables(2))
def test_texts_that_are_hashed_to_number_them_are_still_told_apart(bits, table):
    few = patch.multiple(keys_module, _WORTH_HASHING=1, _SAMPLE=2, _MOSTLY=0.5)
    with cut_hash(bits), few:
        keys, firsts, codes = key_numbers(table, table.column_names)
        rows = [tuple(row.values()) for row in table.to_pylist()]

        assert len(set(rows)) == len(codes) == len(firsts)
        assert [rows.index(row) for row in rows] == firsts[keys].tolist()
        assert codes_of(table, table.column_names).tolist() == codes[keys].tolist()
        places = key_places(codes).tolist()
        assert sorted(places) == places


@given(ANY_TABLES)
def test_numbers_are_in_the_order_of_places(table):
    keys, _, codes = key_numbers(table, table.column_names)
    places = key_places(codes).tolist()

    assert sorted(set(places)) == places
    assert codes_of(table, table.column_names).tolist() == codes[keys].tolist()


@given(tables(1))
def test_codes_of_one_column_are_those_of_its_keys(table):
    assert as_keys(table["k0"]).codes.tolist() == codes_of(table, "k0").tolist()


@given(tables(2))
def test_codes_of_two_columns_are_those_of_pairs(table):
    expected = as_keys(Pairs(table["k0"], table["k1"])).codes

    assert expected.tolist() == codes_of(table, ("k0", "k1")).tolist()


@given(tables(3))
def test_each_further_column_makes_a_pair_with_those_before(table):
    expected = pair_codes(codes_of(table, ("k0", "k1")), codes_of(table, "k2"))

    assert expected.tolist() == codes_of(table, ("k0", "k1", "k2")).tolist()


@given(tables(2), st.data())
def test_rows_in_another_order_have_the_same_codes(table, data):
    order = data.draw(st.permutations(range(len(table))))
    moved = take_rows(table, np.array(order, dtype=np.int64))

    assert key_numbers(table, ("k0", "k1")).codes.tolist() == (
        key_numbers(moved, ("k0", "k1")).codes.tolist()
    )
    assert key_numbers(table, ("k0", "k1")).keys[order].tolist() == (
        key_numbers(moved, ("k0", "k1")).keys.tolist()
    )


@given(ANY_TABLES, st.data())
def test_taken_rows_are_those_rows(table, data):
    rows = data.draw(st.lists(st.integers(0, len(table) - 1)) if len(table) else st.just([]))

    taken = take_rows(table, np.array(rows, dtype=np.int64))

    assert table.schema == taken.schema
    assert [table.to_pylist()[row] for row in rows] == taken.to_pylist()


@pytest.mark.parametrize("words", [["a", "b", "c", "a"], ["y", "x", "z", "y"]])
def test_words_that_no_row_uses_have_no_number_and_equal_ones_have_one(words):
    indices = pa.array([3, 1, 3, 0])
    table = pa.table({"k": pa.DictionaryArray.from_arrays(indices, words)})

    keys, firsts, codes = key_numbers(table, "k")

    assert codes_of(table, "k")[firsts].tolist() == codes.tolist()
    assert len(codes) == 2
    assert keys[0] == keys[2] == keys[3] != keys[1]
    assert [0, 1] == sorted(firsts.tolist())


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("z", FoldError, "the tuples have no column 'z'; their columns: 'a', 'b', 'c', 'd', 'd'"),
        (("a", "z"), FoldError, "no column 'z'"),
        ("d", FoldError, "2 columns are called 'd'; rename all but one"),
        ((), FoldError, "names no column"),
        ((1,), FoldError, "names no column"),
        ("b", InvalidKeyError, "key column 'b': key at 1 is null .1 of 2 are.; filter"),
        (("a", "b"), InvalidKeyError, "key column 'b': key at 1 is null"),
        (("a", "a", "b"), InvalidKeyError, "key column 'b': key at 1 is null"),
        ("c", InvalidKeyError, "key column 'c': Arrow keys of type double"),
    ],
)
def test_columns_that_are_no_keys_are_refused_by_name(columns, error, message):
    table = pa.table(
        [[1, 2], ["x", None], [1.5, 2.5], [1, 2], [1, 2]], names=["a", "b", "c", "d", "d"]
    )

    for number in (codes_of, key_numbers):
        with pytest.raises(error, match=message):
            number(table, columns)


def test_numbers_are_the_same_in_every_process():
    code = (
        "import pyarrow as pa; from optimizers.folds import key_numbers\n"
        "table = pa.table({'k': [f'{n % 7}' for n in range(50)], 'n': list(range(50))})\n"
        "print([part.tolist() for part in key_numbers(table, ('k', 'n'))])"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(answers) == 1
