"""Calibration: constants that are found again, and documents that travel."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from batching.stages import StageJob, Stages
from optimizers.calibration import Calibration
from optimizers.cli import main
from optimizers.cli.calibration_jobs import (
    GRID,
    LocalBench,
    Setting,
    calibrated,
    chain,
    features,
    rows_of,
    worked,
)
from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.errors import CorruptDataError, InvalidValueError
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.parts.aeolus_stages import beyond_measured, with_rows

CONSTANTS = {"base": 0.1, "stage": 0.02, "task": 0.05, "work": 1.5, "row": 2e-6}


def test_features_count_stages_tasks_and_the_busiest_instance_of_each():
    job = chain(2, 4)
    found = features(Setting(2, 4, 1000), Exact(job).measure(rows_of(1000)), 2)

    each = 1000 * (1e-6 / 4 + 1e-6)  # of one instance; four of them share two cores
    assert found == pytest.approx([1.0, 3, 3 * 4 / 2, 3 * 2 * each, 3 * 2 * 1000])


def test_three_tasks_on_two_cores_take_two_turns():
    job = chain(1, 3)
    found = features(Setting(1, 3, 3000), Exact(job).measure(rows_of(3000)), 2)

    each = 3000 * (1e-6 / 3 + 1e-6)
    assert found == pytest.approx([1.0, 2, 2 * 3 / 2, 2 * 2 * each, 2 * 2 * 3000])


class Exact:
    """A job whose batches take what the model says, with noise if asked for."""

    def __init__(self, topology, noise=0.0):
        self.topology = topology
        self.random = np.random.default_rng(len(topology.operators))
        self.noise = noise

    def measure(self, rows):
        work = (1 + rows.column("micros")[0].as_py()) * 1e-6
        instances = tuple(
            InstanceSummary(
                *(operator.name, number, "node-0", len(rows), len(rows)),
                *(len(rows) * work / operator.parallelism, len(rows) * 1e-6, 0),
            )
            for operator in self.topology.operators
            for number in range(operator.parallelism)
        )
        found = BatchSummary(0, 0, 1.0, instances, {})
        setting = Setting(
            len(self.topology.operators) - 1, self.topology.operators[0].parallelism, len(rows)
        )
        seconds = float(np.dot(features(setting, found, 2), list(CONSTANTS.values())))
        return replace(found, seconds=seconds * (1 + self.random.uniform(-1, 1) * self.noise))


def test_constants_are_found_again():
    found = calibrated("none", "here", 2, Exact, rounds=2)

    assert CONSTANTS == pytest.approx(dict(zip(found.fit.names, found.fit.constants, strict=True)))
    assert found.fit.worst < 1e-6
    assert found.spread < 1e-9
    assert 2 * len(GRID) == found.batches


def test_noise_is_told_as_spread_and_error():
    found = calibrated("none", "here", 2, lambda job: Exact(job, 0.1), rounds=3)

    assert CONSTANTS == pytest.approx(
        dict(zip(found.fit.names, found.fit.constants, strict=True)), rel=0.4
    )
    assert 0.02 < found.spread < 0.2
    assert 0.01 < found.fit.error < 0.12


def test_it_travels_and_is_what_aeolus_plans_with(tmp_path):
    found = calibrated("none", "here", 2, Exact, rounds=1)
    path = tmp_path / "here.json"
    path.write_text(found.to_json())

    assert found.to_json() == Calibration.load(path).to_json()
    assert found.costs == Calibration.load(path).costs
    strategy = Aeolus(costs=str(path))
    assert found.costs == strategy.costs.costs


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"error"', '"eror"', "'error' is missing"),
        ('"names": ["base", ', '"names": [', "do not fit 4 constants"),
        ('"cores": 2', '"cores": 0', "cores=0"),
        ('"constants": [', '"constants": [-', "none negative"),
    ],
)
def test_damaged_documents_are_refused(before, after, words):
    text = calibrated("none", "here", 2, Exact, rounds=1).to_json()

    with pytest.raises(CorruptDataError, match=words):
        Calibration.from_json(text.replace(before, after))


def test_what_rows_cost_counts_beside_the_work_of_operators():
    found = calibrated("none", "here", 2, Exact, rounds=1)
    job = StageJob.of(["s", "parse"], seconds=[0.0, 1e-4])

    whole = with_rows(job, found, 1.5)

    assert found.row == pytest.approx(2e-6)
    assert (1.5 * (whole.seconds - job.seconds)).tolist() == pytest.approx([2e-6, 2e-6])
    assert with_rows(job, found.costs, 1.5) is job
    assert with_rows(job, None, 1.5) is job


def test_rows_work_for_as_long_as_they_say():
    rows = rows_of(1000, 20)

    began = process_time()
    found = worked(rows.to_batches()[0])
    taken = process_time() - began

    assert rows.to_batches()[0] == found
    assert 0.02 <= taken < 0.04  # CPU time


def test_a_plan_beyond_the_rows_that_were_measured_is_named():
    found = calibrated("none", "here", 2, Exact, rounds=1)
    job = StageJob.of(["s", "parse"], seconds=[0.0, 1e-7])
    stages = Stages(np.array([0, 1]), np.array([2, 2]))

    assert not beyond_measured(found, job, stages, 2, 200_000)
    assert "'row' counts 2e+06" in beyond_measured(found, job, stages, 2, 2e6)


def test_a_file_that_is_not_there_says_how_to_make_one():
    with pytest.raises(InvalidValueError, match="penstock calibrate --json FILE"):
        Aeolus(costs="nowhere.json")


def test_a_job_in_this_process_is_measured(tmp_path):
    grid = [Setting(s, i, r) for s in (1, 2) for i in (1, 2) for r in (100, 20_000)]

    bench = partial(LocalBench, str(tmp_path))

    found = calibrated("in-process", "here", 1, bench, grid=grid, rounds=2)

    assert 16 == found.batches
    assert (found.fit.constants >= 0).all()
    assert found.fit.constants.any()
    assert (found.fit.highest > 0).all()


def test_the_command_tells_constants_their_range_and_error(capsys, tmp_path):
    path = tmp_path / "found.json"

    assert 0 == main(["calibrate", "--on", "in-process", "--rounds", "1", "--json", str(path)])

    told = capsys.readouterr().out
    assert re.search(r"base .* seconds for a batch", told)
    assert "Settings that were left out are off by" in told
    assert "in-process" == Calibration.load(path).transport
    unsure = max(Calibration.load(path).fit.error, Calibration.load(path).spread) > 0.25
    assert unsure == ("measure again while this machine does nothing else" in told)
    assert Path(path).exists()


def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path, capsys):
    path = tmp_path / "missing" / "found.json"

    assert main(["calibrate", "--on", "in-process", "--json", str(path)])
    assert "cannot be written: No such file" in capsys.readouterr().err
