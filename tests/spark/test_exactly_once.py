"""Every tuple counts once: after kills, failures, torn files and full disks, or it is said why."""

import killing
import pytest
from killing import Tally
from victim import Task

pytestmark = pytest.mark.spark


def test_drivers_and_workers_may_be_killed_at_any_moment(tmp_path):
    task = Task(folder=str(tmp_path), job="fork", source="files", master="local[2,4]", batches=20)
    tally = Tally()

    killing.run(task, 6, tally, also=killing.WORKER)

    assert 6 == tally.drivers.total()
    assert tally.drivers["in a batch under a new plan"] > 0
    assert tally.others[killing.WORKER] > 0
    assert tally.plans > 5
