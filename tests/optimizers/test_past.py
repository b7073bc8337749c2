"""What is remembered of earlier epochs, as a value."""

import copy

import numpy as np
import pytest

from grouping.routing_table import GroupTable
from optimizers import Cluster, Layout, Note, Plan, Statistics, Topology
from optimizers.errors import InvalidValueError, PenstockError, UnknownNameError
from optimizers.past import MOST_EPOCHS, MOST_NOTES, Past, PastDecision, PastEpoch, PastGroups

JOB = Topology.source("s").then("a", key="k", key_groups=4)


def grew(epoch, part="parallelism", *, applied=True):
    return PastEpoch(epoch, decision=PastDecision(((part, "a"),), applied=applied))


def test_only_the_last_epochs_are_remembered():
    past = Past(tuple(PastEpoch(number) for number in range(MOST_EPOCHS + 7)))
    assert [past.epochs[0].epoch, past.epochs[-1].epoch] == [7, MOST_EPOCHS + 6]


def test_only_some_notes_of_a_decision_are_remembered():
    notes = tuple(Note("by", "about", str(number)) for number in range(MOST_NOTES + 1))
    assert PastDecision(notes=notes).notes == notes[:MOST_NOTES]


def test_notes_with_figures_are_remembered_first():
    """What a strategy planned for is in them, and is not lost beside many others."""
    words = tuple(Note("a", "about", str(number)) for number in range(MOST_NOTES + 1))
    planned = Note("z", "the job", "planned", {"rate": 7.0})

    kept = PastDecision(notes=(*words, planned)).notes

    assert kept == (planned, *words[: MOST_NOTES - 1])


@pytest.mark.parametrize(
    ("epochs", "ago"),
    [
        ((), None),
        ((PastEpoch(0),), None),
        ((grew(0),), 1),
        ((grew(0), PastEpoch(1)), 2),
        ((grew(0), grew(1), PastEpoch(2)), 2),
        ((grew(0, applied=False),), None),
        ((grew(0, "placement"),), None),
    ],
)
def test_it_says_how_long_ago_a_part_was_changed(epochs, ago):
    assert Past(epochs).since("parallelism") == ago


def test_rates_and_loads_are_by_the_second_and_unknown_without_time():
    epoch = PastEpoch(3, seconds=4.0, tuples={"s": 10}, nodes={"n": 2})
    assert (epoch.rate("s"), epoch.rate("a"), epoch.loads) == (2.5, None, {"n": 0.5})
    assert (PastEpoch(3, tuples={"s": 10}).rate("s"), PastEpoch(3).loads) == (None, {})


def test_it_travels_and_is_compared_by_content():
    past = Past((grew(0),), {"a": PastGroups(cpu=np.arange(4.0))})
    assert copy.deepcopy(past) == past
    assert past != Past((grew(0),), {"a": PastGroups(cpu=np.ones(4))})
    assert past != Past((grew(1),), {"a": PastGroups(cpu=np.arange(4.0))})
    assert not past.groups["a"].cpu.flags.writeable


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Past((PastEpoch(1), PastEpoch(1))), "epoch 1 comes after epoch 1"),
        (lambda: Past((PastEpoch(1), PastEpoch(0))), "oldest first"),
        (lambda: Past(("x",)), "'x', which is not a PastEpoch"),
        (lambda: Past(groups={"a": [1.0]}), "groups"),
        (lambda: PastGroups(cpu=[1.0], network=[1.0, 2.0]), "1 and 2 key groups"),
        (lambda: PastGroups(memory=[-1.0]), "memory"),
        (lambda: PastEpoch(-1), "epoch"),
        (lambda: PastEpoch(0, local=1.5), "local"),
        (lambda: PastEpoch(0, nodes={"n": float("nan")}), "nodes['n']"),
        (lambda: PastEpoch(0, pause=-1.0), "pause"),
        (lambda: PastDecision(expected={"n": -1.0}), "expected['n']"),
        (lambda: Statistics(past="much"), "past='much' is not a Past"),
    ],
)
def test_what_cannot_have_been_is_refused(make, words):
    with pytest.raises(PenstockError) as caught:
        make()
    assert words in str(caught.value)


def test_loads_of_other_groups_are_not_known_under_another_table():
    cluster = Cluster.uniform(1)
    table = GroupTable([1, 2, 3], [0, 0, 0], 4)
    now, later = (Layout.of(JOB, cluster, plan) for plan in (Plan(), Plan(routing={"a": table})))
    seen = Statistics(past=Past((PastEpoch(0),), {"a": PastGroups(cpu=np.ones(4))}))

    assert seen.under(now, now).past == seen.past
    assert seen.under(now, later).past == Past((PastEpoch(0),))


def test_statistics_refuse_a_past_of_another_job():
    for groups, error in (
        ({"a": PastGroups(cpu=np.ones(3))}, InvalidValueError),
        ({"b": PastGroups(cpu=np.ones(4))}, UnknownNameError),
    ):
        with pytest.raises(error):
            Statistics(past=Past(groups=groups)).check(JOB)
    Statistics(past=Past(groups={"a": PastGroups(cpu=np.ones(4))})).check(JOB)
    Statistics(past=Past(groups={"a": PastGroups()})).check(JOB)  # no load was observed
