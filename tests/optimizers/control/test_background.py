"""Thinking: while an optimizer looks for an answer, the job goes on as it was."""

import re
import time
from threading import Event, get_ident

import pyarrow as pa
import pytest
from any_job import Driver

from grouping.routing_table import RoutingTable
from optimizers import Fixed, Operator, Optimizer, Plan, Topology
from optimizers.errors import InvalidValueError
from optimizers.folds import Count, Emit

MOST = 60.0  # seconds to wait for a thread that has nothing more to wait for


class Thoughtful(Optimizer):
    """Has nothing to say before the first batch, and later says what it is told once it may."""

    def __init__(self, plan):
        self.told = plan
        self.asked = []
        self.threads = set()
        self.may_answer = Event()

    def plan(self, topology, cluster, statistics, current):
        self.asked.append(statistics)
        if len(self.asked) == 1:
            return Plan()
        self.threads.add(get_ident())
        assert self.may_answer.wait(MOST)
        if isinstance(self.told, BaseException):
            raise self.told
        return self.told


def job():
    first = Operator("a", "k", 3, apply=Count(emit=Emit.TUPLES), key_groups=16)
    return Topology.source("s").then(first).then("b", key="l", parallelism=2)


def rows(*keys):
    return {"s": pa.table({"k": pa.array(keys, pa.int64()), "l": pa.array(keys, pa.int64())})}


def begun(folder, plan, **options):
    """A job whose optimizer thinks since batch 1, and is not done in batch 3."""
    optimizer = Thoughtful(plan)
    driver = Driver(folder, job(), optimizer, every=2, meanwhile=True, **options)
    for batch in range(4):
        driver.batch(rows(*range(20), batch))
    return driver, optimizer


def answered(driver, optimizer):
    """Let it answer, and wait until the answer is there."""
    optimizer.may_answer.set()
    started = time.monotonic()
    while driver.coordinator.is_thinking:
        assert time.monotonic() - started < MOST
        time.sleep(0.001)


def test_batches_go_on_under_the_old_plan(tmp_path):
    driver, optimizer = begun(tmp_path, Plan(parallelism={"a": 2}))

    assert 4 == driver.coordinator.next_batch
    assert 0 == driver.coordinator.assign().planned
    assert 2 == len(optimizer.asked)  # not once more after batch 3
    assert [-1] == [decision.after for decision in driver.coordinator.decisions]
    assert get_ident() not in optimizer.threads
    assert driver.coordinator.is_thinking
    optimizer.may_answer.set()


def test_what_was_decided_comes_into_force_with_the_batch_after_the_answer(tmp_path):
    driver, optimizer = begun(tmp_path, Plan(parallelism={"a": 2}))
    before = driver.coordinator.assign()

    answered(driver, optimizer)

    assert before == driver.coordinator.assign()  # a batch that has begun stays as it is
    driver.batch(rows(4))
    assert (5, 5) == (driver.coordinator.assign().planned, driver.coordinator.next_batch)
    assert 2 == driver.coordinator.layout.topology.operator("a").parallelism
    driver.batch(rows(5))
    expected = dict.fromkeys(range(6), 5) | dict.fromkeys(range(6, 20), 4)
    assert expected == driver.results("a")
    assert expected == driver.results("b")
    decision = driver.coordinator.decisions[-1]
    assert (1, True, "") == (decision.after, decision.applied, decision.refused)


def test_the_statistics_are_those_of_the_batches_before_the_question(tmp_path):
    driver, optimizer = begun(tmp_path, Plan())
    answered(driver, optimizer)
    driver.batch(rows(1))
    driver.batch(rows(1))
    answered(driver, optimizer)

    assert [0, 0, 1] == [statistics.epoch for statistics in optimizer.asked]
    tuples = [statistics.operators["a"].tuples for statistics in optimizer.asked[1:]]
    # Batches 2 to 4 came while it thought, and it was asked again with the next.
    assert [42, 42 + 1 + 1] == tuples


def test_what_cannot_be_carried_out_is_refused(tmp_path):
    driver, optimizer = begun(tmp_path, Plan(parallelism={"nobody": 2}))

    answered(driver, optimizer)
    driver.batch(rows(4))

    assert "nobody" in driver.coordinator.decisions[-1].refused
    assert 0 == driver.coordinator.assign().planned


def test_what_goes_wrong_in_the_optimizer_is_a_refused_decision(tmp_path):
    driver, optimizer = begun(tmp_path, ValueError("out of ideas"))

    answered(driver, optimizer)
    driver.batch(rows(4))

    said = driver.coordinator.decisions[-1]
    where = r", at .*test_background\.py:\d+ in plan"
    assert re.fullmatch("Thoughtful raised ValueError: out of ideas" + where, said.refused)
    assert (Plan(), False, 1) == (said.plan, said.applied, driver.coordinator.totals.refused)
    assert 0 == driver.coordinator.assign().planned
    driver.batch(rows(5))  # and it is asked again, now that the next epoch is over
    answered(driver, optimizer)
    assert 3 == len(optimizer.asked)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_to_end_the_process_ends_it(tmp_path, error):
    driver, optimizer = begun(tmp_path, error("enough"))

    answered(driver, optimizer)

    with pytest.raises(error, match="enough"):
        driver.batch(rows(4))
    assert 4 == driver.coordinator.committed.batch  # the batch itself was done


def test_no_key_gets_an_owner_while_tables_may_change(tmp_path):
    tables = {
        "a": RoutingTable(range(20), [key % 3 for key in range(20)], 3),
        "b": RoutingTable(range(20), [key % 2 for key in range(20)], 2),
    }
    begins = Driver(tmp_path, job(), Fixed(Plan(routing=tables, adopt=("a", "b"))), every=99)
    begins.batch(rows(1))
    optimizer = Thoughtful(Plan(parallelism={"b": 2}))
    optimizer.asked.append(None)
    driver = Driver(tmp_path, job(), optimizer, every=1, meanwhile=True)

    driver.batch(rows(1))  # now it thinks
    driver.batch(rows(*range(30)))
    assert 20 == len(driver.coordinator.assign().plan.routing["a"])
    answered(driver, optimizer)
    driver.batch(rows(*range(30)))

    assert 30 == len(driver.coordinator.assign().plan.routing["a"])


def test_who_takes_over_asks_anew(tmp_path):
    _, optimizer = begun(tmp_path, Plan(parallelism={"a": 2}))
    optimizer.may_answer.set()

    successor = Driver(tmp_path, job(), Fixed(Plan(parallelism={"a": 1})))
    successor.batch(rows(4))
    successor.batch(rows(5))

    assert 1 == successor.coordinator.layout.topology.operator("a").parallelism
    assert [5] * 6 + [4] * 14 == [successor.results("a")[key] for key in range(20)]


def test_meanwhile_is_yes_or_no(tmp_path):
    with pytest.raises(InvalidValueError, match="meanwhile='no' is not a bool"):
        Driver(tmp_path, job(), meanwhile="no")
