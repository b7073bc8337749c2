"""What Aeolus remembers: since the last plan, and still when the epoch of the plan is forgotten."""

from batching.steadiness import Steadiness
from optimizers.past import Past, PastDecision, PastEpoch
from optimizers.statistics import Statistics
from optimizers.strategies.parts.aeolus_memory import Memory, memory_of, planned_note

BY = "Aeolus"


def past(*notes, refused=""):
    return Statistics(
        past=Past(
            tuple(
                PastEpoch(number, decision=PastDecision(notes=(note,), refused=refused))
                for number, note in enumerate(notes)
            )
        )
    )


def kept(memory, rate):
    return memory.kept(BY, "as it was", {"rate": rate})


def test_nothing_is_planned_at_first():
    memory = memory_of(Statistics(), BY)

    assert {} == dict(memory.planned)
    assert 5.0 == memory.level("rate", 5.0, Steadiness())


def test_what_was_measured_counts_since_the_last_plan():
    first = Memory({"rate": 100.0}, ())
    notes = [
        planned_note(BY, "new", {"rate": 100.0}),
        *(kept(first, rate) for rate in (200.0, 210.0)),
        planned_note(BY, "newer", {"rate": 205.0}),
        kept(Memory({"rate": 205.0}, ()), 400.0),
    ]

    memory = memory_of(past(*notes), BY)

    assert {"rate": 205.0} == dict(memory.planned)
    assert [400.0] == [figures["rate"] for figures in memory.since]
    assert memory.level("rate", 400.0, Steadiness(patience=3)) is None
    assert 400.0 == memory.level("rate", 400.0, Steadiness(patience=2))


def test_a_plan_is_known_when_its_own_epoch_is_forgotten():
    memory = Memory({"rate": 100.0, "each": 0.5}, ())

    found = memory_of(past(*(kept(memory, 100.0 + n) for n in range(5))), BY)

    assert memory.planned == found.planned
    assert 5 == len(found.since)


def test_what_others_said_and_what_was_refused_does_not_count():
    other = planned_note("Ds2", "new", {"rate": 1.0})
    mine = planned_note(BY, "new", {"rate": 2.0})

    assert {} == dict(memory_of(past(other), BY).planned)
    assert {} == dict(memory_of(past(mine, refused="it does not fit"), BY).planned)
