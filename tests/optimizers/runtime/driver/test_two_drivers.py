"""Two drivers on one checkpoint: each batch is committed once."""

import threading
from dataclasses import replace
from multiprocessing.pool import ThreadPool

import pytest
from any_job import Driver
from two_counts import TWENTY, job, rows

from optimizers.errors import CheckpointError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location


class TestTwoDrivers:
    @pytest.mark.parametrize("done", [0, 1])
    def test_that_commit_at_one_moment_do_not_both(self, tmp_path, monkeypatch, done):
        drivers = [Driver(tmp_path, job()) for _ in range(2)]
        drivers[0].coordinator.assign()
        for _ in range(done):
            drivers[0].batch(TWENTY)
            drivers[1] = Driver(tmp_path, job())
        reports = [driver.run(rows(number)) for number, driver in enumerate(drivers)]
        gate = threading.Barrier(2)
        write = Location.write_new

        def together(self, name, content):
            if name.startswith("commits/"):
                gate.wait(30)  # both have looked, and neither has written
            write(self, name, content)

        monkeypatch.setattr(Location, "write_new", together)

        def commit(number):
            driver = drivers[number]
            try:
                driver.coordinator.commit(driver.assigned, reports[number], 1.0)
            except CheckpointError:
                return None
            return number

        with ThreadPool(2) as pool:
            (winner,) = [number for number in pool.map(commit, range(2)) if number is not None]
        found = drivers[0].results("a")
        assert done + 1 == found[winner]
        assert done == found.get(1 - winner, 0)

    def test_of_which_one_writes_state_anew_do_not_lose_it(self, tmp_path):
        driver = Driver(tmp_path, job())
        for number in range(3):
            driver.batch(rows(*range(100 * number, 100 * number + 9 - number)))
        reports = driver.run(rows(7))
        before = driver.results("a")
        driver.coordinator.check_newest()

        driver.checkpoint.compact()  # as a command does that was not to be kept from it
        with pytest.raises(CheckpointError, match=r"was rewritten since, by penstock state --comp"):
            driver.coordinator.check_newest()
        driver.checkpoint.clean(keep=1)
        with pytest.raises(CheckpointError, match=r"state of batch 2, .* was rewritten since"):
            driver.coordinator.commit(driver.assigned, reports, 1.0)

        cache.forget()
        assert before == driver.results("a")
        again = Driver(tmp_path, job())
        again.batch(rows(7))
        assert before | {7: 2} == again.results("a")

    def test_do_each_batch_once(self, tmp_path):
        one, other = Driver(tmp_path, job()), Driver(tmp_path, job())
        lost = other.run(rows(7))
        one.batch(TWENTY)

        with pytest.raises(CheckpointError, match="another driver works on this checkpoint"):
            other.coordinator.commit(other.assigned, lost, 1.0)

        assert dict.fromkeys(range(20), 1) == one.results("a")
        assert other.coordinator.committed is None

    def test_do_not_act_on_two_plans(self, tmp_path):
        Driver(tmp_path, job()).batch(TWENTY)
        slow = Driver(tmp_path, job())
        reports = slow.run(TWENTY)
        planning = Checkpoint.create_or_open(Location(str(tmp_path)), job())
        planning.save_plan(1, replace(slow.coordinator.plan, parallelism={"a": 2, "b": 2}))
        quick = Driver(tmp_path, job())

        with pytest.raises(CheckpointError, match="that of batch 1 is in force"):
            slow.coordinator.commit(slow.assigned, reports, 1.0)

        quick.batch(TWENTY)
        assert dict.fromkeys(range(20), 2) == quick.results("a")
