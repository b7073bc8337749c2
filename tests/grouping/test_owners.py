"""Who owns which key, and what changes hands when the owners change."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import DistributionAware, WorstCase
from grouping.hashing import code_parts, hash_parts
from grouping.owners import KeyOwners, handover
from grouping.routing_table import RoutingTable
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
    way = draw(st.sampled_from(("groups", "table", "cells", "worst")))
    return {
        "groups": KeyOwners(groups, parallelism=instances),
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


def test_there_are_as_many_instances_as_any_of_them_names():
    assert 4 == KeyOwners((0, 3, 1)).instances
    assert 6 == KeyOwners((0, 1), RoutingTable([], [], 6)).instances
    assert 9 == KeyOwners((0, 1), parallelism=9).instances


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
        assert change.sends(sender) >= bool(((before == sender) & (after != sender)).any())
    assert bool(change) >= bool((before != after).any())
    assert all(change.received(instance) == {} for instance in (7, 8))


@given(owners())
def test_nothing_changes_hands_where_owners_stay(mine):
    twin = copy.deepcopy(mine)

    change = handover(mine, twin)

    assert not change
    assert not any(change.sends(instance) for instance in range(mine.instances))
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
