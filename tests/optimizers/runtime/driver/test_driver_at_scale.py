"""What a batch costs the driver of a large job, in what does not depend on the machine.

``tests/benchmarks/bench_driver.py`` measures seconds and megabytes of 1,000 instances. Here are the
causes: bytes that reach the driver, and calls of Python functions while it works.
"""

import importlib
import sys
from pathlib import Path

import pytest

from optimizers import Plan
from optimizers.control.settings import Asking
from optimizers.errors import DeliveryError
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.parcels import from_batches
from optimizers.runtime.task.reports import Reports
from optimizers.strategies.fixed import Fixed

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def made():
    """The class of made-up reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("many_reports").ManyReports


def coordinator_of(folder, many):
    checkpoint = Checkpoint.create_or_open(Location(str(folder)), many.job, seed=many.job.seed)
    return Coordinator(many.job, many.cluster, Fixed(Plan()), checkpoint, asking=Asking(every=99))


def calls_in(function):
    """How many functions are called, of Python or of C."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def calls_of_a_batch(folder, many):
    """How many calls the second batch takes, from the parcels to the end of the commit."""
    coordinator = coordinator_of(folder, many)

    def commit(arriving):
        assigned = coordinator.assign()
        reports = [Reports.from_parcel(parcel) for parcel in from_batches(arriving)]
        coordinator.commit(assigned, reports, 1.0, timing=many.clock)

    commit(many.arriving(0))
    arriving = many.arriving(1)
    calls = calls_in(lambda: commit(arriving))
    assert 2 == coordinator.next_batch
    return calls


def bytes_of(many):
    return sum(part.nbytes for part in many.arriving(0))


@pytest.mark.parametrize(("observed", "most"), [(False, 1_250), (True, 1_300)])
def test_calls_grow_with_the_instances_and_not_with_their_square(tmp_path, made, observed, most):
    small, large = (
        calls_of_a_batch(tmp_path / str(number), made(number, observed)) for number in (60, 240)
    )

    assert (large - small) / 180 < most


def test_bytes_of_plain_reports_grow_less_than_the_pairs_of_instances(made):
    assert bytes_of(made(400)) < 6_000 * 400
    assert bytes_of(made(400)) < bytes_of(made(400, merged=False)) / 8


def test_bytes_of_all_statistics_hardly_grow(made):
    """Keys and pairs of all instances together are bounded; traffic is by pairs of groups."""
    small, large = (bytes_of(made(number, observed=True)) for number in (64, 256))
    cells = 256**2 * 5

    assert large - cells < 1.2 * small
    assert large < 25e6


@pytest.mark.parametrize("observed", [False, True])
def test_nothing_is_missed_of_reports_that_were_merged(tmp_path, made, observed):
    coordinator = coordinator_of(tmp_path, made(90, observed))
    arriving = made(90, observed).arriving(0)
    parts = [Reports.from_parcel(parcel) for parcel in from_batches(arriving)]
    merged = max(parts, key=len)
    others = [part for part in parts if part is not merged]
    assert len(parts) < 110
    assert len(merged) > 15
    assigned = coordinator.assign()

    for wrong in (others, [*parts, merged]):
        with pytest.raises(DeliveryError):
            coordinator.commit(assigned, wrong, 1.0)

    done = coordinator.commit(assigned, parts, 1.0, timing=made.clock)
    assert 270 == len(done.instances)
    assert [90, 90, 90] == [stage.size for stage in done.time.stages]
    assert 1 / 90 == pytest.approx(done.locality())
