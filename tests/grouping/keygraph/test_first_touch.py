"""Unknown keys: one owner from the first tuple on, with their partners, where there is room."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.keygraph.first_touch import first_touch
from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import RoutingTable
from sketches.errors import InvalidValueError

PLENTY = 1e9


@st.composite
def batches(draw):
    """A batch, tables that know some of its keys, and loads: ints at left, text at right."""
    number = draw(st.integers(1, 4))
    left, right = st.integers(0, 9), st.sampled_from([f"#{tag}" for tag in "abcdefgh"])
    rows = draw(st.lists(st.tuples(left, right, st.integers(0, 5)), max_size=20))
    part = st.integers(0, number - 1)
    known = draw(st.dictionaries(left, part)), draw(st.dictionaries(right, part))
    tables = tuple(RoutingTable(list(k), list(k.values()), number) for k in known)
    loads = [[draw(st.integers(0, 30)) for _ in range(number)] for _ in known]
    return rows, tables, np.array(loads, dtype=float)


def pairs_of(rows):
    return KeyPairs(*([row[side] for row in rows] for side in range(3)))


def amounts(rows, side):
    counted = Counter()
    for row in rows:
        counted[row[side]] += row[2]
    return counted


def knows(table, key):
    return bool(table.find([key])[0][0])


def owner(table, key):
    return int(table.assign([key])[0])


@given(batches())
def test_known_keys_keep_their_owner_and_all_others_of_the_batch_get_one(drawn):
    rows, tables, loads = drawn

    for side, (before, after) in enumerate(
        zip(tables, first_touch(pairs_of(rows), tables, loads), strict=True)
    ):
        assert before.assign(before.keys).tolist() == after.assign(before.keys).tolist()
        known = {*before.keys.tolist(), *(row[side] for row in rows)}
        assert known == set(after.keys.tolist())
        assert before.instances == after.instances


@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_their_splitting_make_no_difference(drawn, random):
    rows, tables, loads = drawn
    single = [(a, b, 1) for a, b, n in rows for _ in range(n)] + [(a, b, 0) for a, b, _ in rows]
    random.shuffle(single)

    assert first_touch(pairs_of(rows), tables, loads) == first_touch(
        pairs_of(single), tables, loads
    )


@given(batches())
def test_with_room_for_all_a_key_goes_where_most_of_its_partners_are(drawn):
    rows, tables, loads = drawn
    number = tables[0].instances

    first, second = first_touch(pairs_of(rows), tables, loads, imbalance=PLENTY)

    def votes(key, side, table, voting):
        found = [0] * number
        for row in rows:
            if row[side] == key and voting(row[1 - side]):
                found[owner(table, row[1 - side])] += row[2]
        return found

    for key in {row[0] for row in rows} - set(tables[0].keys.tolist()):
        cast = votes(key, 0, tables[1], lambda other: knows(tables[1], other))
        expected = cast.index(max(cast)) if any(cast) else owner(tables[0], key)
        # Where the batch counts nothing at all, there is no room to speak of either.
        if sum(n for _, _, n in rows) or loads.sum():
            assert expected == owner(first, key)
    for key in {row[1] for row in rows} - set(tables[1].keys.tolist()):
        cast = votes(key, 1, first, lambda other: True)
        expected = cast.index(max(cast)) if any(cast) else owner(tables[1], key)
        if sum(n for _, _, n in rows) or loads.sum():
            assert expected == owner(second, key)


@given(batches(), st.sampled_from((1.0, 1.2, 2.0)), st.data())
def test_no_part_gets_unknown_keys_above_its_limit_while_another_has_room(drawn, imbalance, data):
    rows, tables, loads = drawn
    number = tables[0].instances
    weight = st.integers(1, 3)
    shares = np.array(data.draw(st.lists(weight, min_size=number, max_size=number)), dtype=float)
    total = loads.sum(axis=1) + sum(row[2] for row in rows)
    limits = imbalance * np.outer(total, shares / shares.sum())

    after = first_touch(pairs_of(rows), tables, loads, imbalance=imbalance, shares=shares)

    for side in (0, 1):
        held, heaviest = loads[side].copy(), [0] * number
        for key, amount in amounts(rows, side).items():
            part = owner(after[side], key)
            held[part] += amount
            if not knows(tables[side], key):
                heaviest[part] = max(heaviest[part], amount)
        for part in range(number):
            if held[part] > limits[side, part] * (1 + 1e-9) and heaviest[part]:
                # It was forced: one of them fitted nowhere.
                room = np.delete(limits[side] - held, part)
                assert heaviest[part] > max(room, default=0) - 1e-9 * total[side]


def test_a_key_whose_best_part_is_full_goes_to_its_second_best():
    tables = RoutingTable(["a", "b"], [0, 1], 3), RoutingTable([], [], 3)
    pairs = KeyPairs(["a", "a", "b"], ["x", "y", "x"], [6, 1, 4])
    loads = np.array([[0, 0, 0], [9.0, 0, 0]])

    _, second = first_touch(pairs, tables, loads, imbalance=1.5)

    assert [1, 0] == second.assign(["x", "y"]).tolist()


def test_what_fits_nowhere_goes_where_most_room_is_left():
    tables = RoutingTable(["a"], [0], 3), RoutingTable([], [], 3)
    pairs = KeyPairs(["a"], ["x"], [100])
    loads = np.array([[0, 0, 0], [5.0, 3, 4]])

    assert 1 == owner(first_touch(pairs, tables, loads)[1], "x")


def test_heavy_keys_choose_first():
    tables = RoutingTable(["a"], [0], 2), RoutingTable([], [], 2)
    pairs = KeyPairs(["a"] * 3, ["x", "y", "z"], [2, 8, 3])
    loads = np.array([[0.0, 0], [0, 7]])

    # Of 20 each part may have 10: y and x go to their partner, z has to go elsewhere.
    _, second = first_touch(pairs, tables, loads, imbalance=1.0)

    assert [0, 0, 1] == second.assign(["x", "y", "z"]).tolist()


def test_a_part_without_a_share_gets_no_unknown_key():
    tables = RoutingTable(["a"], [2], 3), RoutingTable([], [], 3)
    words = [f"w{number}" for number in range(50)]
    pairs = KeyPairs(["a"] * 50, words, np.ones(50))
    loads = np.array([[0, 0, 0], [400.0, 400, 0]])

    # Also if no other part has room: given half of the load, all have too much already.
    for shares in ([1, 1, 0], [[1, 1, 1], [1, 1, 0]]):
        for imbalance in (1.0, 0.5):
            _, second = first_touch(pairs, tables, loads, imbalance=imbalance, shares=shares)
            assert 2 not in second.assign(words)


def test_each_operator_may_have_shares_of_its_own():
    tables = RoutingTable([], [], 2), RoutingTable([], [], 2)
    pairs = KeyPairs(range(50), [f"w{number}" for number in range(50)], np.ones(50))

    first, second = first_touch(pairs, tables, np.zeros((2, 2)), shares=[[1, 0], [0, 1]])

    assert {0} == set(first.parts.tolist())
    assert {1} == set(second.parts.tolist())


def test_a_pair_of_which_neither_is_known_comes_together():
    tables = RoutingTable([], [], 5), RoutingTable([], [], 5)
    pairs = KeyPairs([7], ["new"], [1])

    first, second = first_touch(pairs, tables, np.full((2, 5), 100.0))

    assert owner(tables[0], 7) == owner(first, 7) == owner(second, "new")


def test_tables_that_know_all_keys_are_returned_as_they_are():
    tables = RoutingTable([1], [0], 2), RoutingTable(["x"], [1], 2)

    after = first_touch(KeyPairs([1, 1], ["x", "x"], [3, 4]), tables, np.zeros((2, 2)))

    assert after[0] is tables[0]
    assert after[1] is tables[1]


def test_an_empty_batch_changes_nothing():
    tables = RoutingTable([1], [0], 2), RoutingTable(["x"], [1], 2)

    assert tables == first_touch(KeyPairs([], [], []), tables, np.zeros((2, 2)))


def test_what_goes_in_is_left_as_it_is():
    tables = RoutingTable(["a"], [0], 2), RoutingTable([], [], 2)
    loads, shares = np.array([[1.0, 2], [3, 4]]), np.array([1.0, 3.0])

    first_touch(KeyPairs(["a", "b"], ["x", "y"], [5, 5]), tables, loads, shares=shares)

    assert [[1, 2], [3, 4]] == loads.tolist()
    assert [1, 3] == shares.tolist()
    assert [1, 0] == [len(table) for table in tables]


TABLES = RoutingTable(["a"], [0], 2), RoutingTable(["x"], [0], 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loads": np.zeros(2)}, r"loads of shape \(2,\) do not fit two operators and 2 parts"),
        ({"loads": np.zeros((2, 3))}, r"loads of shape \(2, 3\) do not fit"),
        ({"loads": np.zeros((3, 2))}, r"give an array of shape \(2, 2\)"),
        ({"loads": [[1], [1, 2]]}, "loads"),
        ({"loads": [[1, 2], [3, -1]]}, "cannot be counted"),
        ({"loads": [[1, 2], [3, np.nan]]}, "cannot be counted"),
        ({"shares": [1, 1, 1]}, r"shares of shape \(3,\) do not fit"),
        ({"shares": [0, 0]}, "leave keys without a part"),
        ({"shares": [[1, 1], [0, 0]]}, "leave keys without a part"),
        ({"imbalance": 0}, "imbalance=0 is out of range"),
        ({"imbalance": "1"}, "imbalance='1' is not a number"),
        (
            {"tables": (TABLES[0], RoutingTable(["x"], [0], 3))},
            "tables for 2 and for 3 instances",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(arguments, words):
    given_ = {"pairs": KeyPairs(["a"], ["y"], [1]), "tables": TABLES, "loads": np.zeros((2, 2))}
    with pytest.raises(InvalidValueError, match=words):
        first_touch(**{**given_, **arguments})
