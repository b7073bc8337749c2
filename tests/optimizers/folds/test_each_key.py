"""The user's own function over the rows of one key."""

import functools
import pickle
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import FoldError, InvalidValueError
from optimizers.folds import Count, EachKey, Emit, Together, key_numbers
from optimizers.folds.fold import nothing
from optimizers.folds.key_codes import take_rows

STATE = pa.struct([("key", pa.string()), ("seen", pa.list_(pa.int64()))])
ALERTS = pa.schema([("user", pa.string()), ("total", pa.int64())])


def remember(key, rows, state):
    """Keep all values in their order, and the key they came with."""
    seen = [] if state is None else state["seen"]
    return {"key": repr(key), "seen": [*seen, *rows["x"].to_pylist()]}


def alert(key, rows, state):
    """Add up, and send a row on where there is more than ten."""
    total = (state or 0) + sum(rows["x"].to_pylist())
    return total, {"user": key[0], "total": total} if total > 10 else None


def steps(fold, table, cuts, key):
    """Fold the parts of a table as an engine does; return the state by key, and what is sent on."""
    kept, sent = {}, []
    for start, end in zip([0, *cuts], [*cuts, len(table)], strict=True):
        part = table.slice(start, end - start)
        keys, firsts, _ = key_numbers(part, key)
        key_rows = take_rows(part.select(key), firsts)
        names = [tuple(row.values()) for row in key_rows.to_pylist()]
        schema = fold.state(part.schema)
        rows = [kept.get(name, nothing(schema, 1)) for name in names]
        before = pa.concat_tables([schema.empty_table(), *rows])
        state, emitted, _ = fold.step(part, keys, before, key_rows)
        assert state.schema == before.schema
        kept.update({name: state.slice(row, 1) for row, name in enumerate(names)})
        sent.append(emitted)
    return {name: state["state"][0].as_py() for name, state in kept.items()}, sent


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(-99, 99)), max_size=12
)


@given(ROWS, st.data())
def test_each_key_sees_its_own_tuples_in_their_order_and_its_own_state(rows, data):
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    table = pa.table(
        [
            pa.array(cells, kind)
            for cells, kind in zip(columns, (pa.string(), pa.int64(), pa.int64()), strict=True)
        ],
        names=["user", "place", "x"],
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    expected = defaultdict(list)
    for user, place, value in rows:
        expected[user, place].append(value)

    state, _ = steps(EachKey(remember, STATE), table, cuts, ("user", "place"))

    assert {name: {"key": repr(name), "seen": seen} for name, seen in expected.items()} == state


def test_a_function_sends_on_rows_of_its_own():
    table = pa.table({"user": ["a", "b", "a", "a"], "x": [6, 1, 6, 5]})
    fold = EachKey(alert, pa.int64(), ALERTS)

    state, sent = steps(fold, table, [2, 3], ("user",))

    assert Emit.OWN is fold.emit
    assert {("a",): 17, ("b",): 1} == state
    assert [[], [{"user": "a", "total": 12}], [{"user": "a", "total": 17}]] == [
        rows.to_pylist() for rows in sent
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, []),
        ([], []),
        ({"user": "a"}, [{"user": "a", "total": None}]),
        (({"total": n} for n in (1, 2)), [{"user": None, "total": n} for n in (1, 2)]),
        (ALERTS.empty_table(), []),
        (pa.table({"user": ["a"], "total": [1]}, ALERTS), [{"user": "a", "total": 1}]),
        (pa.record_batch({"user": ["a"], "total": [1]}, ALERTS), [{"user": "a", "total": 1}]),
    ],
)
def test_rows_come_in_many_forms(rows, expected):
    fold = EachKey(lambda key, _, state: (None, rows), pa.int64(), ALERTS)

    _, (sent,) = steps(fold, pa.table({"user": ["a"]}), [], ("user",))

    assert expected == sent.to_pylist()
    assert ALERTS == sent.schema


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (7, r"returned for key \('a',\): 7 \(int\) is not a pair; .* \(state, rows\)"),
        ((1, 2, 3), r"\(1, 2, 3\) \(tuple\) is not a pair"),
        ([1, None], r"\[1, None\] \(list\) is not a pair"),
        ((1, "ab"), r"for key \('a',\): rows 'ab' \(str\) cannot be sent on; return a Table"),
        ((1, 5), r"rows 5 \(int\) cannot be sent on"),
        ((1, [{"user": "a"}, 5]), r"rows \[.*\] \(list\) cannot be sent on"),
        ((1, {"usr": "a"}), r"\('a',\), row 0 has a column 'usr', but the columns are 'user', "),
        ((1, [{}, {"total": 1.5}]), r"row 1, column 'total': 1.5 \(float\) is not a value of type"),
        (
            (1, pa.table({"user": ["a"]})),
            r"key \('a',\) returned columns \(user: string\), but they must be \(user: string, t",
        ),
        (("x", None), r"returned for key \('a',\): 'x' \(str\) is not a value of type int64"),
    ],
)
def test_what_a_function_may_not_return_is_refused_with_its_name_and_key(returned, message):
    fold = EachKey(lambda key, rows, state: returned, pa.int64(), ALERTS)

    with pytest.raises(FoldError, match=message) as refused:
        steps(fold, pa.table({"user": ["a"]}), [], ("user",))

    assert "test_what_a_function_may_not_return" in str(refused.value)


@pytest.mark.parametrize("state", [1.0, "1", True, [1], pa.scalar(1), 2**63])
def test_state_of_another_type_is_refused_by_the_key_it_is_for(state):
    def function(key, rows, before):
        return state if key == ("b",) else 1

    with pytest.raises(FoldError, match=r"function returned for key \('b',\): .* type int64"):
        EachKey(function, pa.int64())(pa.table({"user": ["a", "b", "c"]}), "user")


def test_a_state_of_none_is_as_if_the_key_were_new():
    def seen_before(key, rows, state):
        return None if state else 1

    state, sent = steps(EachKey(seen_before, pa.int64()), pa.table({"k": [1] * 3}), [1, 2], ("k",))

    assert {(1,): 1} == state
    assert [1, None, 1] == [rows["state"][0].as_py() for rows in sent]


def test_what_the_function_raises_comes_out_as_it_is():
    def broken(key, rows, state):
        raise ZeroDivisionError(key)

    with pytest.raises(ZeroDivisionError):
        EachKey(broken, pa.int64())(pa.table({"k": [1]}), "k")


def test_without_an_output_it_emits_as_any_fold_does():
    table = pa.table({"user": ["a", "b", "a"], "x": [1, 2, 3]})

    _, (changes,) = steps(EachKey(remember, STATE), table, [], ("user",))
    _, (tuples,) = steps(EachKey(remember, STATE, emit=Emit.TUPLES), table, [], ("user",))
    _, (none,) = steps(EachKey(remember, STATE, emit="nothing"), table, [], ("user",))

    assert {"a", "b"} == set(changes["user"].to_pylist())
    assert ["user", "state"] == changes.column_names
    assert table == tuples
    assert none is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EachKey(5, pa.int64()), "EachKey.5.: that is not a function"),
        (lambda: EachKey(alert, int), "state=<class 'int'> is not an Arrow type"),
        (lambda: EachKey(alert, pa.int64(), {"x": 1}), "output={'x': 1} is not a schema"),
        (lambda: EachKey(alert, pa.int64(), emit="some"), "emit='some' is none of Emit.TUPLES"),
        (lambda: EachKey(alert, pa.int64(), emit=Emit.OWN), "EachKey says no rows of its own"),
        (
            lambda: EachKey(alert, pa.int64(), ALERTS, emit=Emit.CHANGES),
            f"with emit=Emit.CHANGES the rows that {__name__}.alert returns would be lost",
        ),
        (
            lambda: Together(n=Count(), own=EachKey(alert, pa.int64())),
            "own=EachKey.* cannot share keys with other folds",
        ),
    ],
)
def test_one_that_means_nothing_is_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


def test_it_cannot_absorb_without_being_told_its_keys():
    fold = EachKey(remember, STATE)

    with pytest.raises(FoldError, match=r"use step\(\)"):
        fold.absorb(pa.table({"x": [1]}), np.array([0]), nothing(fold.state(pa.schema([])), 1))


def test_it_is_a_value_that_pickles_if_its_function_does():
    fold = EachKey(max, pa.int64(), ALERTS)
    again = pickle.loads(pickle.dumps(fold))  # noqa: S301

    assert fold == again
    assert hash(fold) == hash(again)
    assert "EachKey(builtins.max, int64, output=(user: string, total: int64))" == repr(again)
    assert EachKey(min, pa.int64(), ALERTS) != fold
    assert EachKey(max, pa.int32(), ALERTS) != fold
    assert EachKey(max, pa.int64()) != fold


class Callable:
    def __call__(self, key, rows, state):
        return state


def test_how_it_is_shown_is_the_same_in_every_process():
    shown = [
        repr(EachKey(function, pa.int64(), emit=Emit.NOTHING))
        for function in (alert, functools.partial(max, object()), Callable(), remember.__call__)
    ]

    assert [
        f"EachKey({__name__}.alert, int64, emit=Emit.NOTHING)",
        "EachKey(partial(builtins.max), int64, emit=Emit.NOTHING)",
        f"EachKey({__name__}.Callable, int64, emit=Emit.NOTHING)",
    ] == shown[:3]
    assert " at 0x" not in shown[3]
