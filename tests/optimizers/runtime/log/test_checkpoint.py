"""The log of a checkpoint: batches in order, one driver, and nothing done twice."""

from multiprocessing.pool import ThreadPool

import pytest
from word_counts import JOB, files_of, state_of, write

from optimizers import Plan
from optimizers.errors import CheckpointError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.commit_log import Log
from optimizers.runtime.log.records import Commit


def test_a_new_checkpoint_has_done_nothing(checkpoint, here):
    assert checkpoint.last_commit() is None
    assert () == checkpoint.batches()
    assert checkpoint.plan_of(0) is None
    assert ["penstock.json"] == files_of(here)
    assert 0 == checkpoint.clean()
    assert checkpoint.compact() is None
    with pytest.raises(CheckpointError, match="no batch is done"):
        checkpoint.read("count")


def test_what_was_committed_is_there_when_it_is_opened_again(checkpoint, here):
    first = Commit(0, state={"count": ((write(here, 0, {1: 10, 2: 20}),), ())}, tuples=30)
    chain = (*first.state["count"][0], write(here, 1, {2: 21, 1: 0}, gone={1}))
    second = Commit(1, state={"count": (chain, (write(here, 1, {3: 5}, instance=1),))})
    checkpoint.commit(first)
    checkpoint.commit(second)

    again = Checkpoint.create_or_open(here, JOB)

    assert second == again.last_commit() == again.commit_of(1)
    assert first == again.commit_of(0)
    assert (0, 1) == again.batches()
    assert {"w2": 21, "w3": 5} == state_of(again)
    assert {"w1": 10, "w2": 20} == state_of(again, 0)
    assert again == Checkpoint.open(here)
    with pytest.raises(CheckpointError, match="no commit of batch 2; kept: 0, 1"):
        again.commit_of(2)


def test_the_first_batch_may_have_any_number_and_each_other_is_the_next(checkpoint):
    checkpoint.commit(Commit(7))
    checkpoint.commit(Commit(8))

    with pytest.raises(CheckpointError, match=r"batch 10 cannot be .* after batch 8: .* batch 9"):
        checkpoint.commit(Commit(10))


def test_the_commit_that_a_batch_began_from_is_not_read_again(checkpoint, monkeypatch):
    reads = []
    read = Log.commit
    monkeypatch.setattr(Log, "commit", lambda *given: reads.append(given[1:]) or read(*given))
    checkpoint.save_plan(7, Plan())
    last = None
    for batch in (7, 8, 9):
        commit = Commit(batch, plan=7)
        checkpoint.commit(commit, after=last)
        last = commit
    assert [] == reads

    # One of another plan is refused as before, and one that does not say what it began from.
    with pytest.raises(CheckpointError, match="but that of batch 7 is in force"):
        checkpoint.commit(Commit(10, plan=8), after=last)
    assert [] == reads
    with pytest.raises(CheckpointError, match="but that of batch 7 is in force"):
        checkpoint.commit(Commit(10, plan=8))
    assert [(9, 0)] == reads


@pytest.mark.parametrize("batch", [6, 7, 8])
def test_a_batch_that_is_done_is_not_committed_again(checkpoint, here, batch):
    for done in (7, 8):
        checkpoint.commit(Commit(done, tuples=5))
    before = files_of(here)

    with pytest.raises(CheckpointError, match=rf"batch {batch} is done already .*; another driver"):
        checkpoint.commit(Commit(batch, tuples=6))
    assert before == files_of(here)
    assert 5 == checkpoint.last_commit().tuples


def test_of_two_drivers_one_commits(checkpoint):
    for batch in range(20):

        def try_it(driver, batch=batch):
            try:
                checkpoint.commit(Commit(batch, tuples=driver))
            except CheckpointError:
                return None
            return driver

        with ThreadPool(4) as pool:
            done = [driver for driver in pool.map(try_it, range(4)) if driver is not None]

        assert [checkpoint.last_commit().tuples] == done


class TestADriverThatBeganFromAnotherCommit:
    """It is stopped before it writes anything, and what it has done is lost."""

    def refused(self, checkpoint, after, match, batch=2):
        before = files_of(checkpoint.location)
        for act in (
            lambda: checkpoint.commit(Commit(batch, plan=0), after=after),
            lambda: checkpoint.save_plan(batch, Plan(), after=after),
        ):
            with pytest.raises(CheckpointError, match=match):
                act()
        assert before == files_of(checkpoint.location)

    @pytest.fixture
    def after(self, filled, here):
        chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
        filled.commit(Commit(1, 0, {"count": (chain,)}))
        return filled.last_commit()

    def test_because_state_was_written_anew(self, filled, after):
        filled.compact()

        self.refused(filled, after, r"state of batch 1, .* was rewritten since, by penstock st")
        filled.commit(Commit(2, plan=0), after=filled.last_commit())

    def test_because_another_has_committed(self, filled, after):
        filled.commit(Commit(2, plan=0), after=after)

        self.refused(filled, after, "is not the last: batch 2 is done already, by another driver")
        self.refused(filled, after, "batch 2 is done already, by another driver", batch=3)

    def test_because_another_went_on_while_it_slept_just_before_it_wrote(
        self, filled, after, monkeypatch
    ):
        write_commit = Log.write_commit

        def slept(log, record):
            monkeypatch.setattr(Log, "write_commit", write_commit)
            for batch in range(2, 9):
                filled.commit(Commit(batch, plan=0))
            filled.clean(keep=2)  # so that the name of batch 2 is free again
            write_commit(log, record)

        monkeypatch.setattr(Log, "write_commit", slept)

        with pytest.raises(CheckpointError, match=r"batch 2 is done already in .* batch 8 was the"):
            filled.commit(Commit(2, plan=0), after=after)
        assert 8 == filled.last_commit().batch

    def test_because_the_checkpoint_was_replaced(self, filled, after, here):
        here.delete("commits/0000000001.json")

        self.refused(filled, after, "is not there any more: files .* were removed or replaced")
        here.delete("commits/0000000000.json")
        self.refused(filled, after, "is not there any more")
