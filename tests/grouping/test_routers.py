"""Routers: each against the slow, obvious thing that it must do tuple by tuple."""

import copy
import json
import os
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from each_grouping import ALL_SPECS, EACH, GROUPS, INSTANCES, KEYED, TABLE, skewed
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import (
    GROUPINGS,
    DChoices,
    DistributionAware,
    Fields,
    FullKnowledge,
    GroupTable,
    LeastWork,
    LocalOrShuffle,
    PartialKey,
    RoutingTable,
    ShortestQueue,
    Shuffle,
    TwoChoices,
    WChoices,
    WorstCase,
    grouping_from_dict,
    grouping_to_dict,
)
from grouping.hashing import hash_parts
from grouping.skew.heavy_keys import choices_needed
from sketches.cost_sketch import CostSketch
from sketches.errors import InvalidValueError

KEYS = st.lists(st.integers(0, 12), max_size=60)


def imbalance(parts, instances):
    """How much more than the average the most loaded has, as a share of the stream."""
    loads = np.bincount(parts, minlength=instances)
    return (loads.max() - loads.mean()) / len(parts)


# What each grouping must do, one tuple after the other.


def offers(key, instances, choices):
    return [hash_parts([key], instances, choice=choice)[0] for choice in range(choices)]


def slow_partial_key(keys, instances, choices):
    loads, parts = [0] * instances, []
    for key in keys:
        best = None
        for part in offers(key, instances, choices):
            if best is None or loads[part] < loads[best]:
                best = part
        loads[best] += 1
        parts.append(best)
    return parts


def slow_choices_needed(shares, n, tolerance):
    rest = max(0.0, 1 - sum(shares))
    for d in range(2, n):
        for h in range(1, len(shares) + 1):
            b = n - n * ((n - 1) / n) ** (h * d)
            load = sum(shares[:h]) + (b / n) ** d * sum(shares[h:]) + (b / n) ** 2 * rest
            if load > b * (1 / n + tolerance) + 1e-12:
                break
        else:
            return d
    return n


def slow_heavy(keys, n, threshold, sender, tolerance=None):
    """W-Choices, or D-Choices where there is a tolerance, with exact counts."""
    loads, parts, seen, head = [0] * n, [], Counter(), {}
    look = 256
    for count, key in enumerate(keys, 1):
        allowed = head[key] if key in head else offers(key, n, 2)
        part = min(allowed, key=lambda part: loads[part])
        loads[part] += 1
        parts.append(part)
        seen[key] += 1
        if count == look:
            look += min(count, 1 << 14)
            heavy = {k: c / count for k, c in seen.items() if c / count >= threshold}
            d = n
            if tolerance is not None and heavy:
                d = slow_choices_needed(sorted(heavy.values(), reverse=True), n, tolerance)
            turn = [(sender + step) % n for step in range(n)]
            head = {k: turn if d == n else offers(k, n, d) for k in heavy}
    return parts


@given(st.lists(st.integers(0, 40), max_size=5), st.integers(1, 7), st.integers(0, 20))
def test_shuffle_deals_out_in_turn_over_all_batches(batches, instances, sender):
    router = Shuffle().router(instances, sender=sender)
    routed = [router.route(rows).tolist() for rows in batches]

    assert batches == [len(parts) for parts in routed]
    turns = [(sender + row) % instances for row in range(sum(batches))]
    assert turns == [part for parts in routed for part in parts]


@given(st.sets(st.integers(0, 6)), st.integers(0, 20), st.integers(0, 40))
def test_local_or_shuffle_deals_out_to_local_instances_if_there_are_any(local, sender, rows):
    router = LocalOrShuffle().router(7, sender=sender, local=sorted(local, reverse=True))
    among = sorted(local) or list(range(7))

    turns = [among[(sender + row) % len(among)] for row in range(rows)]
    assert turns == router.route(rows).tolist()


@given(KEYS, st.integers(1, 9))
def test_fields_sends_a_key_where_its_hash_says(keys, instances):
    router = Fields().router(instances)

    assert [offers(key, instances, 1)[0] for key in keys] == router.route(len(keys), keys).tolist()


@given(KEYS, st.integers(1, 9), st.integers(2, 4))
def test_partial_key_sends_each_tuple_to_the_least_loaded_of_its_choices(keys, n, choices):
    router = PartialKey(choices).router(n)

    assert slow_partial_key(keys, n, choices) == router.route(len(keys), keys).tolist()


@given(KEYS)
def test_the_worst_case_is_one_after_the_table(keys):
    parts = WorstCase(TABLE).router(INSTANCES).route(len(keys), keys)

    assert [(part + 1) % INSTANCES for part in TABLE.assign(keys)] == parts.tolist()
    assert not np.any(parts == TABLE.assign(keys))


@pytest.mark.parametrize("instances", [1, 2, 7, 20])
@pytest.mark.parametrize("threshold", [None, 0.1])
@pytest.mark.parametrize("tolerance", [None, 1e-4, 0.02])
def test_heavy_keys_have_more_choices_and_others_two(instances, threshold, tolerance):
    keys = skewed(2_500, distinct=40, exponent=1.2).tolist()
    grouping = (
        WChoices(threshold) if tolerance is None else DChoices(threshold, tolerance=tolerance)
    )
    least = threshold or 1 / (5 * instances)

    parts = grouping.router(instances, sender=3).route(len(keys), keys).tolist()

    assert slow_heavy(keys, instances, least, 3, tolerance) == parts


def test_a_key_that_turns_heavy_is_spread_once_that_is_seen():
    keys = [*range(1_000, 9_192), *[7] * 8_192, *[7] * 10_000]
    parts = WChoices().router(20).route(len(keys), keys)
    own = set(offers(7, 20, 2))

    # The router takes stock at 8192 and 16384. What it sent before stays a load of the two.
    assert own == set(parts[8_192:16_384].tolist())
    assert set(range(20)) - own == set(parts[16_384:].tolist())


@given(
    st.lists(st.floats(0.001, 0.2), max_size=5),
    st.integers(1, 40),
    st.sampled_from([1e-4, 1e-3, 0.05]),
)
def test_as_few_choices_as_balance_needs(shares, instances, tolerance):
    shares = sorted(shares, reverse=True)
    expected = slow_choices_needed(shares, instances, tolerance) if shares else min(2, instances)

    assert expected == choices_needed(np.array(shares), instances, tolerance=tolerance)


def test_a_key_with_half_of_the_stream_needs_more_than_half_of_the_instances():
    assert 50 < choices_needed(np.array([0.5]), 100, tolerance=1e-4) <= 100
    assert 2 == choices_needed(np.array([0.01]), 100, tolerance=1e-4)


@ALL_SPECS
@given(data=st.data())
def test_how_the_stream_was_cut_changes_nothing(grouping, data):
    keys = skewed(700, distinct=15, seed=1)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(keys)), max_size=4)))
    whole, cut = (grouping.router(INSTANCES, sender=2, local=[1, 3]) for _ in range(2))

    expected = whole.route(len(keys), keys)
    routed = [cut.route(len(batch), batch) for batch in np.split(keys, cuts)]

    assert expected.tolist() == np.concatenate(routed).tolist()
    assert {np.dtype(np.int32)} == {parts.dtype for parts in routed}
    assert whole.instances == INSTANCES


@pytest.mark.parametrize("grouping", [g for g in EACH if g.instances is None], ids=repr)
def test_one_instance_gets_everything(grouping):
    parts = grouping.router(1, sender=4).route(600, skewed(600))

    assert [0] * 600 == parts.tolist()


@ALL_SPECS
def test_senders_agree_on_the_owner_of_a_key_exactly_where_it_has_one(grouping):
    keys = skewed(3_000, distinct=30)
    owners = {}
    for sender in range(3):
        router = grouping.router(INSTANCES, sender=sender, local=[sender])
        for key, part in zip(keys.tolist(), router.route(len(keys), keys).tolist(), strict=True):
            owners.setdefault(key, set()).add(part)

    assert grouping.one_owner == all(len(parts) == 1 for parts in owners.values())


@KEYED
def test_a_key_reaches_the_same_instances_in_every_container(grouping):
    words = [f"key {key}" for key in skewed(700, distinct=9).tolist()]
    if isinstance(grouping, GroupTable):
        grouping = GroupTable(["key 0", "key 1"], [9, 2], 16)
    elif grouping.instances is not None:
        table = RoutingTable(["key 0", "key 1"], [4, 2], INSTANCES)
        swap = {"table": table}
        grouping = {
            RoutingTable: lambda: table,
            WorstCase: lambda: WorstCase(**swap),
            DistributionAware: lambda: DistributionAware(**swap, cells=grouping.cells),
        }[type(grouping)]()
    plain = pa.array(words)
    expected = grouping.router(INSTANCES).route(700, words).tolist()

    for same in (plain, plain.dictionary_encode(), np.array(words)):
        assert expected == grouping.router(INSTANCES).route(700, same).tolist()


@ALL_SPECS
def test_a_router_goes_on_where_its_copy_was_taken(grouping):
    keys = skewed(1_000, distinct=15)
    router = grouping.router(INSTANCES, sender=1)
    router.route(600, keys[:600])
    copies = [copy.deepcopy(router), pickle.loads(pickle.dumps(router))]  # noqa: S301

    expected = router.route(400, keys[600:]).tolist()

    assert [expected] * 2 == [other.route(400, keys[600:]).tolist() for other in copies]


@ALL_SPECS
def test_a_grouping_comes_back_from_json_and_pickle_as_it_was(grouping):
    written = json.dumps(grouping_to_dict(grouping))

    for other in (
        grouping_from_dict(json.loads(written)),
        pickle.loads(pickle.dumps(grouping)),  # noqa: S301
        copy.deepcopy(grouping),
    ):
        assert grouping == other
        assert hash(grouping) == hash(other)
        assert grouping_to_dict(grouping) == grouping_to_dict(other)
    assert written.startswith(f'{{"kind": "{grouping.kind}"')
    assert type(grouping) in GROUPINGS


def test_each_grouping_equals_itself_only():
    assert len(EACH) == len(set(EACH))
    for grouping in EACH:
        assert [grouping] == [other for other in EACH if other == grouping]


OWNERS = {Fields, GroupTable, RoutingTable, DistributionAware, WorstCase}


def test_every_grouping_a_document_may_name_is_tried_here():
    unroutable = {FullKnowledge}  # tests/grouping/scheduling/test_baselines.py has it
    assert set(GROUPINGS) == {type(grouping) for grouping in EACH} | unroutable
    assert OWNERS == {grouping for grouping in GROUPINGS if grouping.one_owner}
    without_key = {Shuffle, LocalOrShuffle, ShortestQueue, TwoChoices, FullKnowledge}
    assert without_key == {g for g in GROUPINGS if not g.needs_key}


ELSEWHERE = """
import json, sys
from grouping.groupings import grouping_from_dict
keys, specs = json.load(sys.stdin)
routed = [grouping_from_dict(spec).router(5, sender=1).route(len(keys), keys) for spec in specs]
json.dump([parts.tolist() for parts in routed], sys.stdout)
"""


def known(grouping):
    """Whether it knows integers: by their costs, or their groups."""
    return grouping is GROUPS or (isinstance(grouping, LeastWork) and grouping.costs is not None)


def test_a_process_with_another_hash_seed_routes_alike():
    keys = [f"key {key}" for key in skewed(700, distinct=40).tolist()]
    table = RoutingTable(["key 0", "key 1"], [4, 2], INSTANCES)
    of_words = CostSketch(width=16, depth=2, exact=4)
    of_words.update(["key 0", "key 1", "key 2"], [1.0, 5.0, 2.0])
    specs = [
        *(grouping for grouping in EACH if grouping.instances is None and not known(grouping)),
        GroupTable(["key 0", "key 1"], [9, 2], 16),
        LeastWork(costs=of_words),
        table,
        DistributionAware(table, [0, 1, 2, 3, 4]),
        WorstCase(table),
    ]
    said = json.dumps([keys, [grouping_to_dict(spec) for spec in specs]])
    tried = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=said,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
    )

    here = [spec.router(5, sender=1).route(len(keys), keys).tolist() for spec in specs]
    assert here == json.loads(tried.stdout)


def test_the_more_choices_the_better_the_balance():
    keys, n = skewed(60_000), 50
    fields, partial_key, d_choices, w_choices = (
        imbalance(grouping.router(n).route(len(keys), keys), n)
        for grouping in (Fields(), PartialKey(), DChoices(), WChoices())
    )
    heaviest = Counter(keys.tolist()).most_common(1)[0][1] / len(keys)

    # Under Fields one instance has the heaviest key, under PartialKey two share it.
    assert fields >= heaviest - 1 / n
    assert heaviest / 2 - 1 / n <= partial_key < 0.6 * fields
    assert d_choices < 0.1 * partial_key
    assert w_choices <= d_choices
    # Nothing heavy is known of the first 256 tuples; all else is even but for rounding.
    assert w_choices < 256 / len(keys)


def test_senders_begin_with_different_instances_where_the_choice_is_free():
    keys, loaded = [7] * 257, set(offers(7, 50, 2))
    turns = [[(sender + step) % 50 for step in range(50)] for sender in range(50)]

    first = [WChoices().router(50, sender=s).route(257, keys)[-1] for s in range(50)]

    assert [next(part for part in turn if part not in loaded) for turn in turns] == first


@ALL_SPECS
def test_an_empty_batch_is_routed_nowhere(grouping):
    parts = grouping.router(INSTANCES).route(0, [])

    assert [] == parts.tolist()
    assert np.int32 == parts.dtype


def test_routers_without_a_key_take_no_notice_of_one():
    assert [0, 1, 2] == Shuffle().router(4).route(3, object()).tolist()


def test_the_worst_case_is_that_of_a_table():
    with pytest.raises(InvalidValueError, match=r"table=Fields\(\) is not a RoutingTable"):
        WorstCase(Fields())
