"""The facts of epochs as documents: none may be forgotten, and all of them are bounded."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace

import numpy as np
import pytest

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers import BatchTime, Cluster, Node, Note, SourceStatistics
from optimizers.control import epoch_facts
from optimizers.control.epoch_facts import LEFT_OUT, MOST_NUMBERS, EpochFacts, ToldEpochs
from optimizers.documents import Record
from optimizers.errors import CorruptDataError
from optimizers.execution import Execution
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.past import MOST_EPOCHS, Past, PastDecision, PastEpoch
from optimizers.statistics import (
    EdgeStatistics,
    GroupTraffic,
    OperatorStatistics,
    Statistics,
)
from sketches.cost_sketch import CostSketch


def columns(kind, count):
    """Return a different column for each fact of a class that has columns."""
    names = [each.name for each in fields(kind) if each.name not in {"nodes", "hosts"}]
    return {name: np.arange(count) + place + 0.25 for place, name in enumerate(names)}


SOURCE = SourceStatistics(100, 90, 10, 4.5)
SEEN = Statistics(
    epoch=3,
    seconds=4.5,
    operators={
        "a": OperatorStatistics(
            10, 0.5, 64, 0.25, emitted=20, shipping=0.125, wall=0.75, receiving=0.375
        )
    },
    edges={("s", "a"): EdgeStatistics(10, 500, 4, 200, parcels=3)},
    groups={"a": GroupStatistics(**columns(GroupStatistics, 4))},
    instances={
        "a": InstanceStatistics(("n", "m"), ("h", None), **columns(InstanceStatistics, 2)),
    },
    traffic={("a", "b"): GroupTraffic([0, 3], [1, 2], [5.0, 2.5])},
    sources={"s": SOURCE},
    execution=Execution(micro_batches=True, slots=8, sized=("s",), paced=True, cuts=True),
)
DECISION = PastDecision(
    (("placement", "a"),),
    applied=True,
    refused="no",
    notes=(Note("Albic", "a", "to even out", {"before": 2.0, "after": 1.1}, idle=True),),
    expected={"busiest node": 0.5, "local now": 0.75},
    found={"busiest node": 0.625, "local now": 0.5},
    loads={"n": 0.5, "m": 0.25},
)
PAST = PastEpoch(
    3,
    batches=2,
    seconds=4.5,
    tuples={"a": 10.0},
    arrivals={"s": 22.0},
    busy={"a": 0.625},
    nodes={"n": 0.5, "m": 0.125},
    instances={"a": 2},
    local=0.4,
    taken_over=7,
    moved_bytes=128.0,
    pause=0.5,
    decision=DECISION,
    sources={"s": SOURCE},
)
NODE = Node("n", 2.0, "r1", cores=4, memory=1e9, bandwidth=1e8)
FACTS = EpochFacts(7, SEEN, (NODE, Node("m")), 3, PAST)


def read(told):
    return Record(json.loads(json.dumps(told)), "epoch").into(EpochFacts.from_record)


def values_in(value):
    """Return all values with fields that a value is made of."""
    if is_dataclass(value):
        yield value
        for each in fields(value):
            yield from values_in(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from values_in(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from values_in(one)


def default_of(field):
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING


OF_FACTS = {type(value) for value in values_in(FACTS)}


def test_every_kind_of_fact_is_in_the_example():
    assert {
        *(EpochFacts, Statistics, OperatorStatistics, EdgeStatistics, GroupStatistics),
        *(InstanceStatistics, GroupTraffic, SourceStatistics, Execution, Node),
        *(PastEpoch, PastDecision, Note, Past),
    } == OF_FACTS


@pytest.mark.parametrize("kind", sorted(OF_FACTS - {Past}, key=str), ids=lambda kind: kind.__name__)
def test_every_fact_there_is_is_in_the_example_and_comes_back(kind):
    """A field that is new has to be set in the example; and then it has to be in the document."""
    (example, *_), (back, *_) = (
        [one for one in values_in(facts) if type(one) is kind]
        for facts in (FACTS, read(FACTS.to_dict()))
    )

    for field in fields(kind):
        found = getattr(example, field.name)
        if kind is Statistics and field.name in LEFT_OUT:
            assert LEFT_OUT[field.name] == found
            continue
        assert repr(default_of(field)) != repr(found), f"say {field.name} in the example"
        assert repr(found) == repr(getattr(back, field.name)), field.name


def test_a_document_holds_what_was_told():
    told = FACTS.to_dict()

    assert FACTS == read(told)
    assert 2.0 == told["operators"]["a"]["selectivity"]
    assert {"n": 0.5 / 4.5, "m": 0.125 / 4.5} == told["past"]["loads"]
    assert [["before", 2.0], ["after", 1.1]] == told["past"]["decision"]["notes"][0]["figures"]
    assert ["s", "a"] == told["edges"][0]["edge"]


def test_what_is_not_known_is_absent():
    less = Statistics(
        operators={"a": OperatorStatistics(0)},
        instances={"a": InstanceStatistics(("n",), tuples=[1.0])},
        groups={"a": GroupStatistics(tuples=[1.0, 0.0])},
        traffic={("a", "b"): GroupTraffic([], [], [])},
    )
    facts = EpochFacts(0, less)
    told = facts.to_dict()

    assert facts == read(told)
    assert {"tuples": [1, 0]} == told["groups"]["a"]
    assert {"nodes": ["n"], "tuples": [1]} == told["instances"]["a"]
    assert "selectivity" not in told["operators"]["a"]
    assert told["past"] is None


def test_sketches_are_left_out():
    pairs = KeyPairs(np.array([1]), np.array([2]), np.array([3.0]))
    whole = replace(
        SEEN,
        pairs={("a", "b"): pairs},
        held_out={("a", "b"): pairs},
        history={("a", "b"): pairs},
        keys={"a": KeyCounts(np.array([1]), np.array([2.0]))},
        costs={"a": [CostSketch(16, 2, 0)]},
        batch_times=[BatchTime(0, 1, 1, 0, (), 0)],
        past=Past((PAST,)),
    )

    assert SEEN == EpochFacts(7, whole).statistics
    assert {each.name for each in fields(Statistics)} > LEFT_OUT.keys()


def test_a_document_with_another_fact_is_refused():
    with pytest.raises(CorruptDataError, match="unknown field 'more'"):
        read({**FACTS.to_dict(), "more": 1})
    told = FACTS.to_dict()
    told["groups"]["a"]["cpu"] = ["x"]
    with pytest.raises(CorruptDataError, match="cpu"):
        read(told)


def epochs(count, groups=4):
    kept, cluster = ToldEpochs(), Cluster((NODE,))
    for number in range(count):
        known = {"a": GroupStatistics(tuples=np.ones(groups))}
        kept.add(number, Statistics(epoch=number, seconds=1, groups=known), cluster, None)
    return kept


def test_the_last_epochs_are_kept_each_with_what_is_remembered_of_it():
    told = epochs(MOST_EPOCHS + 5).told([replace(PAST, epoch=MOST_EPOCHS)])

    assert list(range(5, MOST_EPOCHS + 5)) == [each.after for each in told]
    assert [MOST_EPOCHS] == [each.past.epoch for each in told if each.past is not None]


def test_fewer_epochs_of_many_groups_are_kept_and_always_the_last(monkeypatch):
    monkeypatch.setattr(epoch_facts, "MOST_NUMBERS", 100)

    assert [2, 3, 4] == [each.after for each in epochs(5, groups=30).told(())]
    assert [4] == [each.after for each in epochs(5, groups=300).told(())]
    assert 4 * 10 + 2 * 14 + 3 * 2 == len(FACTS)  # of groups, of instances, of traffic
    assert MOST_NUMBERS * 8 < 5e6  # bytes
