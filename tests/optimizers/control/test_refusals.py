"""A strategy advises: whatever it does wrong, the job goes on and tells why nothing changed."""

import logging
import sys
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import FullKnowledge, Grouping
from grouping.routers import RoundRobinRouter
from optimizers import (
    Chain,
    Cluster,
    Fixed,
    Locality,
    Note,
    Operator,
    Optimizer,
    Plan,
    Statistics,
    Topology,
)
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.errors import PartitionError, StrategyError
from optimizers.folds import Count, Emit
from optimizers.layout import completed
from optimizers.simulation import SimulationEngine, Stream

TUPLES = pa.table({"k": list(range(20)), "l": list(range(20))})
JOB = (
    Topology.source("s")
    .then(Operator("a", "k", 3, apply=Count(emit=Emit.TUPLES), key_groups=16))
    .then("b", key="l", parallelism=2)
    .then("out", parallelism=2, edge_key="l")
)


class Broken(Optimizer):
    """Raises what it is told to, or returns it if it is no error, at the times it is told to."""

    def __init__(self, result, times=()):
        self.result, self.times, self.asked = result, times, 0

    def plan(self, topology, cluster, statistics, current):
        self.asked += 1
        if self.times and self.asked - 1 not in self.times:
            return Plan()
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


class Nameless(Broken):
    """Does not even say its name."""

    @property
    def name(self):
        raise LookupError("who am I")


class UnspeakableError(ValueError):
    """An error that cannot be shown."""

    def __str__(self):
        raise RuntimeError("no")


IMPOSSIBLE = Fixed(Plan(parallelism={"a": 999}))
TOO_WIDE = "parallelism['a']=999 is more than the operator's 16 key groups can occupy; plan 16"

WRONG = {
    "an error": (Broken(ValueError("METIS ran out\nof memory")), "Broken raised ValueError: METIS"),
    "of ours": (Broken(PartitionError("no parts")), "Broken raised PartitionError: no parts"),
    "out of memory": (Broken(MemoryError()), "Broken raised MemoryError: no message"),
    "no depth left": (Broken(RecursionError("deep")), "Broken raised RecursionError: deep"),
    "an assertion": (Broken(AssertionError()), "Broken raised AssertionError: no message"),
    "long": (Broken(ValueError("x" * 9_999)), "Broken raised ValueError: xxx"),
    "no words": (Broken(UnspeakableError()), "raised UnspeakableError: its message raises"),
    "nameless": (Nameless(ValueError("odd")), "Nameless raised ValueError: odd"),
    "nothing": (Broken(None), "Broken decided None, which is not a Plan; return Plan() for"),
    "a dict": (Broken({"a": 2}), "Broken decided {'a': 2}, which is not a Plan"),
    "the impossible": (IMPOSSIBLE, TOO_WIDE),
    "unknown": (Fixed(Plan(batch={"x": 1})), "batch: unknown operator 'x'; known: 's', 'a', 'b'"),
    "in a chain": (
        Chain(Fixed(Plan(batch={"s": 5})), Broken(ValueError("odd"))),
        "step 2 of the chain, Broken: it raised ValueError: odd",
    ),
    "in a chain within a chain": (
        Chain(Chain(Nameless(ValueError("odd")), IMPOSSIBLE)),
        "step 1 of the chain, Nameless + Fixed: step 1 of the chain, Nameless: it raised",
    ),
    "of ours in a chain": (
        Chain(Broken(PartitionError("no parts"))),
        "step 1 of the chain, Broken: it raised PartitionError: no parts",
    ),
    "nothing in a chain": (Chain(Broken(None)), "step 1 of the chain, Broken: it decided None"),
    "the impossible in a chain": (
        Chain(IMPOSSIBLE, Broken(Plan())),
        f"step 1 of the chain, Fixed: {TOO_WIDE}",
    ),
    "a contradiction": (
        Chain(Fixed(Plan(batch={"s": 5})), Fixed(Plan(batch={"s": 6}))),
        "step 2 of the chain, Fixed: two plans decide the batch of 's': 5 and 6",
    ),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("meanwhile", [False, True])
def test_the_job_goes_on_and_tells_why(tmp_path, caplog, what, meanwhile):
    optimizer, words = WRONG[what]
    with caplog.at_level(logging.DEBUG, "optimizers"):
        driver = Driver(tmp_path, JOB, optimizer, every=2, meanwhile=meanwhile)
        for _ in range(40):
            driver.batch({"s": TUPLES})
            if driver.coordinator.totals.refused >= 3:
                break

    found = driver.coordinator
    assert found.totals.refused >= 3  # before the first batch, and again after each epoch
    assert found.totals.refused == found.totals.decisions
    assert all(words in said.refused for said in found.decisions)
    assert all("\n" not in str(said) and len(str(said)) < 500 for said in found.decisions)
    assert not any(said.applied for said in found.decisions)
    assert {found.next_batch} == set(driver.results("a").values())
    told = [record for record in caplog.records if record.name == "optimizers.control.loop"]
    assert [str(said) for said in found.decisions] == [one.getMessage() for one in told]
    # Each for the same reason, which is news once.
    levels = [one.levelno for one in told]
    assert [logging.WARNING, *[logging.INFO] * (len(told) - 1)] == levels
    traces = [record for record in caplog.records if record.exc_info]
    assert traces
    assert {logging.DEBUG} == {record.levelno for record in traces}


@pytest.mark.parametrize("what", WRONG)
def test_the_simulation_tells_the_same(caplog, what):
    caplog.set_level(logging.INFO, "optimizers")
    optimizer, words = WRONG[what]
    stream = Stream.steady({"k": list(range(90)), "l": list(range(90))}, rate=10.0)

    run = SimulationEngine(batch_tuples=30).run(JOB, stream, optimizer)

    assert 3 == len(run.batches) == len(run.decisions)
    assert all(words in decision.refused for decision in run.decisions)
    stays = completed(Plan(), JOB, Cluster.uniform(max(o.parallelism for o in JOB.operators)))
    assert {stays} == set(run.plans)
    assert 3 == sum(words in record.getMessage() for record in caplog.records)


def test_a_refusal_is_news_again_for_another_reason_and_once_a_plan_was_carried_out(caplog):
    caplog.set_level(logging.INFO, "optimizers")
    wide, wider = (Plan(parallelism={"a": count}) for count in (999, 1_999))
    narrow = Plan(parallelism={"a": 2})
    script = iter([wide, wide, wider, wider, wide, Plan(), wide, narrow, wide, wide])

    class Script(Optimizer):
        def plan(self, topology, cluster, statistics, current):
            return next(script)

    stream = Stream.steady({"k": list(range(99)), "l": list(range(99))}, rate=10.0)
    SimulationEngine(batch_tuples=10).run(JOB, stream, Script())

    levels = [one.levelname for one in caplog.records if "refused, for" in one.getMessage()]
    news = [level == "WARNING" for level in levels]
    assert [True, False, True, False, True, False, True, False] == news


@pytest.mark.parametrize("times", [(0,), (1,), (2, 3)])
def test_who_fails_now_and_then_is_heard_when_it_does_not(tmp_path, times):
    optimizer = Chain(Broken(OSError("no disk"), times), Fixed(Plan(parallelism={"a": 2})))
    driver = Driver(tmp_path, JOB, optimizer)
    for _ in range(5):
        driver.batch({"s": TUPLES})

    said = driver.coordinator.decisions
    assert [number in times for number in range(6)] == [bool(one.refused) for one in said]
    assert 1 == sum(one.applied for one in said)
    assert 2 == driver.coordinator.layout.topology.operator("a").parallelism


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_to_end_the_process_ends_it(tmp_path, error):
    with pytest.raises(error):
        Driver(tmp_path, JOB, Chain(Broken(error())))
    with pytest.raises(error):
        SimulationEngine().run(JOB, Stream([0.0], {"k": [1], "l": [1]}), Broken(error()))


def test_a_chain_that_is_asked_by_hand_raises_what_its_step_raised():
    chain = Chain(Broken(ValueError("METIS\nran out")))

    with pytest.raises(StrategyError, match="it raised ValueError: METIS ran out") as caught:
        chain.plan(JOB, Cluster.uniform(2), Statistics(), Plan())

    assert isinstance(caught.value.__cause__.__cause__, ValueError)


@given(st.text(), st.sampled_from([ValueError, OSError, TypeError, UnicodeError]))
def test_any_message_becomes_one_line(text, kind):
    answer = ask(Broken(kind(text)), Question(JOB, Cluster.uniform(2)))

    assert Plan() == answer.plan
    assert answer.refused.startswith(f"Broken raised {kind.__name__}: ")
    assert 1 == len(answer.refused.splitlines())
    assert len(answer.refused) < 400


@dataclass(frozen=True)
class Foreign(Grouping):
    """A grouping of another package; its flaw names the method that fails."""

    kind: ClassVar[str] = "test_refusals:Foreign"
    flaw: str = ""

    def to_dict(self):
        if self.flaw == "to_dict":
            raise OSError("cannot be written")
        if self.flaw == "unlike":
            return {}
        return {"flaw": object() if self.flaw == "json" else self.flaw}

    def __eq__(self, other):
        if self.flaw == "eq":
            raise ArithmeticError("cannot be compared")
        return type(other) is Foreign and other.flaw == self.flaw

    __hash__ = Grouping.__hash__

    def _router(self, instances, sender, local):
        if self.flaw == "router":
            raise ZeroDivisionError("cannot be routed")
        return RoundRobinRouter(instances, among=range(instances), start=sender)


@pytest.mark.parametrize(
    ("grouping", "words"),
    [
        (Foreign("to_dict"), "OSError: cannot be written"),
        (Foreign("json"), "TypeError: Object of type object is not JSON serializable"),
        (Foreign("unlike"), "when it was written as JSON and read"),
        (Foreign("eq"), "ArithmeticError: cannot be compared"),
        (Foreign("router"), "ZeroDivisionError: cannot be routed"),
        (FullKnowledge(), "truth"),
        (Foreign(), ""),
    ],
)
def test_a_grouping_that_could_not_be_used_later_is_refused_before_it_is_saved(
    tmp_path, monkeypatch, grouping, words
):
    monkeypatch.setitem(sys.modules, "test_refusals", sys.modules[__name__])
    plan = Plan(scheduling={("b", "out"): grouping})
    driver = Driver(tmp_path, JOB, [Plan(), plan])
    driver.batch({"s": TUPLES})
    driver.batch({"s": TUPLES})

    refused = driver.coordinator.decisions[1].refused
    assert words in refused
    assert bool(words) == bool(refused)
    assert driver.checkpoint.plan_of(1).batch == (0 if words else 1)
    assert driver.coordinator.totals.refused == bool(words)


class Idler(Optimizer):
    """Says each time that it can do nothing, and why; in new words as often as it is told to."""

    def __init__(self, words=1):
        self.words, self.asked = words, 0

    def plan(self, topology, cluster, statistics, current):
        self.asked += 1
        text = f"can do nothing for this job: reason {self.asked % self.words}"
        aside = Note("Idler", "a", "this is no warning")
        return Plan(notes=(Note("Idler", "the job", text, idle=True), aside))


class TestWhoCanDoNothing:
    def test_says_so_once(self, tmp_path, caplog):
        driver = Driver(tmp_path, JOB, Chain(Idler(), Locality()))
        assert ["Idler can do nothing for this job: reason 0"] == caplog.messages
        for _ in range(3):
            driver.batch({"s": TUPLES})

        assert 1 == len(caplog.messages)
        said = driver.coordinator.decisions
        assert all(
            "nothing changes" in str(one) and "Idler on the job: can" in str(one) for one in said
        )
        assert 0 == driver.coordinator.totals.refused

    def test_says_so_once_in_the_simulation(self, caplog):
        stream = Stream.steady({"k": [1] * 90, "l": [1] * 90}, rate=10.0)

        SimulationEngine(batch_tuples=30).run(JOB, stream, Idler())

        assert ["Idler can do nothing for this job: reason 0"] == caplog.messages

    def test_does_not_fill_the_memory_with_reasons(self, tmp_path, caplog):
        driver = Driver(tmp_path, JOB, Idler(words=500))
        for _ in range(120):
            driver.batch({"s": TUPLES})

        assert 100 == len(caplog.messages)
