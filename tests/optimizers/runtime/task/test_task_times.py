"""What tasks tell of their time: the wall's clock beside the processor's, state beside work."""

import itertools
import time

import any_job
import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver

from optimizers import Fixed, LocalOrShuffle, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.runtime.driver.time_parts import stages_of
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.state import cache
from optimizers.runtime.task import keyed

ASLEEP = 0.05  # seconds
ROWS = pa.table({"k": np.arange(60) % 7, "v": np.arange(60) % 5})


TOOK = []  # how long each call took


def sleep(batch):
    started = time.perf_counter()
    time.sleep(ASLEEP)
    TOOK.append(time.perf_counter() - started)
    return batch


JOB = (
    Topology.source("in", parallelism=2)
    .then("sleep", apply=sleep, parallelism=3)
    .then("by_k", key="k", parallelism=2, apply=Count(emit=Emit.TUPLES))
    .then("by_v", key="v")
)


def reports_of(job=JOB, partitions=2):
    """Return what the tasks of a batch report, merged, and the job as laid out."""
    TOOK.clear()
    with any_job.temporary() as folder:
        driver = Driver(folder, job, Fixed(Plan()))
        assigned = driver.coordinator.assign()
        cuts = np.linspace(0, len(ROWS), partitions + 1).astype(int)
        parts = [
            ROWS.slice(first, last - first).to_batches() for first, last in itertools.pairwise(cuts)
        ]
        told = run_batch(assigned.work, assigned.ticket, {"in": parts})
        return type(told[0]).merged(told), driver.coordinator.layout


def of(reports, name, fact):
    return reports.numbers(fact)[reports.tasks[name]]


def test_sleep_is_on_the_wall_and_not_of_the_processor():
    reports, _ = reports_of()

    assert 6 == len(TOOK)  # each of three instances gets a parcel of each partition
    assert sum(TOOK) == pytest.approx(of(reports, "sleep", "wall").sum(), rel=0.1)
    assert of(reports, "sleep", "seconds").sum() < 0.2 * sum(TOOK)
    assert of(reports, "in", "wall").tolist() == [0.0, 0.0]  # it does nothing


def test_what_keeps_the_processor_busy_is_both():
    def be_busy(batch):
        started, until = time.perf_counter(), time.process_time() + ASLEEP
        while time.process_time() < until:
            pass
        TOOK.append(time.perf_counter() - started)
        return batch

    reports, _ = reports_of(Topology.source("in").then("busy", apply=be_busy, parallelism=2))

    busy, wall = (of(reports, "busy", fact).sum() for fact in ("seconds", "wall"))
    assert ASLEEP * len(TOOK) == pytest.approx(busy, rel=0.1)
    assert sum(TOOK) == pytest.approx(wall, rel=0.1)


@pytest.mark.parametrize(("module", "name"), [(cache, "state_in"), (keyed, "write_state")])
def test_slow_state_is_neither_work_nor_the_way(monkeypatch, module, name):
    inner = getattr(module, name)

    def slowly(*given, **named):
        time.sleep(ASLEEP)
        return inner(*given, **named)

    monkeypatch.setattr(module, name, slowly)
    reports, _ = reports_of()

    for operator in ("by_k", "by_v"):
        keeping, wall = of(reports, operator, "keeping"), of(reports, operator, "wall")
        assert ((keeping >= ASLEEP) & (wall < keeping)).all()
    assert not of(reports, "sleep", "keeping").any()


def test_a_source_waits_for_its_rows():
    took = []

    def slowly():
        for batch in ROWS.to_batches(max_chunksize=20):
            started = time.perf_counter()
            time.sleep(ASLEEP)
            took.append(time.perf_counter() - started)
            yield batch

    with any_job.temporary() as folder:
        driver = Driver(folder, JOB, Fixed(Plan()))
        assigned = driver.coordinator.assign()
        told = run_batch(assigned.work, assigned.ticket, {"in": [slowly()]})
        reports = type(told[0]).merged(told)

    assert sum(took) == pytest.approx(of(reports, "in", "reading").sum(), rel=0.1)
    assert not of(reports, "sleep", "reading").any()


def test_a_task_began_before_it_ended_and_in_that_time_did_all_it_tells():
    reports, layout = reports_of()

    for name in layout.topology.order:
        inside = of(reports, name, "ended") - of(reports, name, "began")
        parts = sum(of(reports, name, fact) for fact in ("wall", "keeping", "reading"))
        assert (inside >= parts).all()
    assert 1 == len(set(reports.texts("clock")))
    assert {-1} == set(reports.numbers("stage").tolist())


def test_what_is_attached_works_in_the_tasks_that_it_is_attached_to():
    job = (
        Topology.source("in", parallelism=2)
        .then("first", apply=sleep, grouping=LocalOrShuffle(), parallelism=2)
        .then("second", apply=sleep, grouping=LocalOrShuffle(), parallelism=2)
        .then("by_k", key="k", parallelism=3)
    )
    reports, layout = reports_of(job, partitions=3)

    first, second = stages_of(reports, layout)
    assert (("in", "first", "second"), ("by_k",)) == (first.operators, second.operators)
    assert (3, 3) == (len(first.machines), len(second.machines))
    assert 6 == len(TOOK)
    assert sum(TOOK) == pytest.approx(first.work.sum(), rel=0.1)
    assert (first.work >= 2 * ASLEEP).all()  # of both, in each task
    assert (first.ended - first.began >= first.work).all()
    assert not first.state.any()
    assert second.state.any()
