"""Who owns which key, and what changes hands when the owners change."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from grouping.groupings import DistributionAware, WorstCase
from grouping.hashing import code_parts, hash_parts
from grouping.owners import KeyOwners, handover
from grouping.routing_table import GroupTable, RoutingTable
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.keys import as_keys

KEYS = np.arange(200)
CODES = as_keys(KEYS).codes
GROUPS = 16


@st.composite
def owners(draw):
    """Any owners of integer keys: by group, with a table, or by a rule."""
    instances = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    groups = tuple(random.integers(0, instances, GROUPS).tolist())
    named = random.choice(KEYS, int(random.integers(0, 40)), replace=False)
    table = RoutingTable(named, random.integers(0, instances, len(named)), instances)
    rule = DistributionAware(table, random.integers(0, instances, 5))
    grouped = GroupTable(named, random.integers(0, GROUPS, len(named)), GROUPS)
    way = draw(st.sampled_from(("groups", "grouped", "table", "cells", "worst")))
    return {
        "groups": KeyOwners(groups, parallelism=instances),
        "grouped": KeyOwners(groups, grouped, parallelism=instances),
        "table": KeyOwners(groups, table, parallelism=instances),
        "cells": KeyOwners(groups, rule=rule, parallelism=instances),
        "worst": KeyOwners(groups, rule=WorstCase(table), parallelism=instances),
    }[way]


def test_a_key_is_owned_by_who_the_table_says_and_others_by_their_group():
    table = RoutingTable([3, 5], [2, 0], 4)
    groups = (0, 1, 1, 3)

    found = KeyOwners(groups, table).assign(KEYS)

    expected = np.array(groups)[hash_parts(KEYS, 4)]
    expected[[3, 5]] = 2, 0
    assert expected.tolist() == found.tolist()


@given(owners(), st.integers(0, 3))
def test_a_key_is_owned_by_the_instance_of_its_group_where_groups_are_named(mine, seed):
    mine = replace(mine, seed=seed)
    table = mine.table if isinstance(mine.table, GroupTable) else None
    named = {} if table is None else dict(zip(table.keys, table.groups, strict=True))
    hashed = hash_parts(KEYS, GROUPS, seed=seed)

    groups = mine.group_of(KEYS)

    assert [named.get(key, other) for key, other in zip(KEYS, hashed, strict=True)] == [*groups]
    if mine.rule is None and not isinstance(mine.table, RoutingTable):
        assert np.array(mine.groups)[groups].tolist() == mine.assign(KEYS).tolist()


@given(owners(), st.lists(st.integers(0, 5), min_size=GROUPS, max_size=GROUPS))
def test_a_group_that_moves_takes_its_named_keys_along_and_nothing_else_moves(old, groups):
    assume(old.rule is None and not isinstance(old.table, RoutingTable))
    new = replace(old, groups=tuple(groups))
    moved = np.flatnonzero(np.array(old.groups) != groups)

    change = handover(old, new)

    moves = old.assign(KEYS) != new.assign(KEYS)
    assert np.isin(old.group_of(KEYS), moved).tolist() == moves.tolist()
    assert moved.tolist() == change.groups.tolist()
    named = np.array([], int) if old.table is None else old.table.keys
    assert CODES[named[moves[named]]].tolist() == change.codes.tolist()


def test_a_table_of_other_key_groups_is_refused():
    with pytest.raises(InvalidValueError, match=r"of 8 key groups .* that has 2; make it"):
        KeyOwners((0, 1), GroupTable([1], [0], 8))


def test_the_group_of_keys_of_another_kind_than_the_tables_is_refused():
    mine = KeyOwners((0, 1), GroupTable(["a"], [0], 2))

    for ask in (mine.group_of, mine.assign):
        with pytest.raises(InvalidKeyError, match="of kind int"):
            ask([1])


def test_there_are_as_many_instances_as_any_of_them_names():
    assert 4 == KeyOwners((0, 3, 1)).instances
    assert 6 == KeyOwners((0, 1), RoutingTable([], [], 6)).instances
    assert 9 == KeyOwners((0, 1), parallelism=9).instances
    assert 2 == KeyOwners((0, 1), GroupTable([], [], 2)).instances


@given(owners())
def test_owners_and_groups_that_are_asked_for_at_once_are_those_asked_for_singly(mine):
    found, groups = mine.assign_by_group(KEYS)

    assert mine.assign(KEYS).tolist() == found.tolist()
    assert mine.group_of(KEYS).tolist() == groups.tolist()


def test_a_rule_says_itself_who_owns_a_key():
    rule = WorstCase(RoutingTable([3], [1], 3))

    found = KeyOwners((0, 0), rule=rule, parallelism=3).assign(KEYS)

    assert rule.assign(KEYS).tolist() == found.tolist()


@given(owners(), owners())
def test_each_instance_is_told_of_just_the_keys_it_can_get_and_from_whom(old, new):
    change = handover(old, new)
    before, after = old.assign(KEYS), new.assign(KEYS)
    by_group = code_parts(CODES, GROUPS)

    for instance in range(new.instances):
        received = change.received(instance)
        assert sorted(received) == list(received)
        for sender in range(old.instances):
            codes, groups = received.get(sender, (CODES[:0], np.empty(0, np.int32)))
            told = np.isin(CODES, codes) | np.isin(by_group, groups)
            moves = (before == sender) & (after == instance) & (sender != instance)
            assert not (moves & ~told).any()
    for sender in range(old.instances):
        codes, groups = change.given(sender)
        told = np.isin(CODES, codes) | np.isin(by_group, groups)
        assert not ((before == sender) & (after != sender) & ~told).any()
    assert bool(change) >= bool((before != after).any())
    assert all(change.received(instance) == {} for instance in (7, 8))


@given(owners())
def test_nothing_changes_hands_where_owners_stay(mine):
    twin = copy.deepcopy(mine)

    change = handover(mine, twin)

    assert not change
    given = [part for instance in range(mine.instances) for part in change.given(instance)]
    assert not any(map(len, given))
    assert change == copy.deepcopy(change)


def test_only_named_keys_and_moved_groups_are_told_of():
    old = KeyOwners((0, 0, 1, 1), RoutingTable([3, 5, 7], [1, 1, 0], 2))
    new = KeyOwners((0, 1, 1, 1), RoutingTable([3, 5, 9], [1, 0, 1], 2))

    change = handover(old, new)

    assert ([1], [0], [1]) == (
        change.groups.tolist(),
        change.from_instances.tolist(),
        change.to_instances.tolist(),
    )
    told = set(change.codes.tolist())
    moved = {key for key in (3, 5, 7, 9) if old.assign([key]) != new.assign([key])}
    assert moved == told
    assert 5 in told
    assert 3 not in told


def test_what_changes_hands_cannot_be_altered():
    change = handover(KeyOwners((0, 1)), KeyOwners((1, 1)))

    with pytest.raises(ValueError, match="read-only"):
        change.groups[0] = 5
