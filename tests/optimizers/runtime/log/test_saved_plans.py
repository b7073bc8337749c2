"""Plans in a checkpoint: from which batch on, replaced before it, and never after."""

from dataclasses import replace

import pytest
from word_counts import PLAN, files_of

from optimizers import Note, Plan
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.checkpoint import Checkpoint, SavedPlan
from optimizers.runtime.log.records import Commit
from optimizers.runtime.storage.location import Location


def test_a_plan_is_in_force_from_its_batch_on(checkpoint):
    other = Plan(parallelism={"count": 4})
    checkpoint.save_plan(0, PLAN)
    for batch in range(3):
        checkpoint.commit(Commit(batch, plan=0))
    checkpoint.save_plan(3, other)

    assert [SavedPlan(0, PLAN)] * 3 == [checkpoint.plan_of(batch) for batch in range(3)]
    assert SavedPlan(3, other) == checkpoint.plan_of(3) == checkpoint.plan_of(100)


def test_a_plan_may_be_saved_twice_but_not_changed(checkpoint, here):
    checkpoint.save_plan(4, PLAN)
    before = files_of(here)

    checkpoint.save_plan(4, replace(PLAN, notes=(Note("me", "count", "wider"),)))

    with pytest.raises(CheckpointError, match=r"another plan is saved for batch 4 .* plan_of"):
        checkpoint.save_plan(4, Plan())
    assert before == files_of(here)
    assert SavedPlan(4, PLAN) == checkpoint.plan_of(4)


def test_a_plan_is_kept_with_what_the_job_declares(checkpoint):
    saved = checkpoint.save_plan(4, PLAN, declared={"words": 1, "count": 2})

    assert saved == checkpoint.plan_of(4) == SavedPlan(4, PLAN, {"words": 1, "count": 2})
    with pytest.raises(CheckpointError, match="another plan is saved for batch 4"):
        checkpoint.save_plan(4, PLAN, declared={"words": 1, "count": 9})


def test_a_plan_can_be_replaced_before_its_batch_is_done(checkpoint, here):
    first = checkpoint.save_plan(0, PLAN)
    other, third = Plan(parallelism={"count": 8}), Plan(parallelism={"count": 9})

    second = checkpoint.save_plan(0, other, instead_of=first)

    assert (0, 1) == second.number
    assert second == checkpoint.plan_of(0) == checkpoint.plan_of(7)
    assert second == checkpoint.save_plan(0, other, instead_of=first)
    with pytest.raises(CheckpointError, match="another plan is saved for batch 0"):
        checkpoint.save_plan(0, third, instead_of=first)
    # A driver that has done the batch under the first cannot commit it any more.
    with pytest.raises(CheckpointError, match="of batch 0, but that of batch 0, revision 1 is in"):
        checkpoint.commit(Commit(0, plan=0))
    checkpoint.commit(Commit(0, plan=0, plan_revision=1))
    checkpoint.commit(Commit(1, plan=0, plan_revision=1))
    with pytest.raises(CheckpointError, match="batch 0 is done already"):
        checkpoint.save_plan(0, third, instead_of=second)
    assert [second] * 3 == [checkpoint.plan_of(batch) for batch in range(3)]
    checkpoint.clean(keep=1)
    assert ["plans/0000000000-1.json"] == list(here.list("plans"))
    assert second == checkpoint.plan_of(2)


def test_a_plan_that_is_replaced_while_its_batch_is_committed_stays_in_force(
    checkpoint, monkeypatch
):
    first = checkpoint.save_plan(0, PLAN)
    write = Location.write_new

    def write_after(self, name, content):
        monkeypatch.setattr(Location, "write_new", write)
        checkpoint.commit(Commit(0, plan=0))
        write(self, name, content)

    monkeypatch.setattr(Location, "write_new", write_after)
    checkpoint.save_plan(0, Plan(parallelism={"count": 8}), instead_of=first)

    assert [first] * 2 == [checkpoint.plan_of(batch) for batch in range(2)]
    checkpoint.commit(Commit(1, plan=0))


def test_of_two_drivers_that_look_before_either_saves_a_plan_one_saves_it(checkpoint, monkeypatch):
    checkpoint.save_plan(4, PLAN)
    with monkeypatch.context() as early:
        early.setattr(Checkpoint, "plan_of", lambda self, batch: None)

        with pytest.raises(CheckpointError, match="is already there"):
            checkpoint.save_plan(4, Plan())
    assert SavedPlan(4, PLAN) == checkpoint.plan_of(4)


def saved_too_late(checkpoint, monkeypatch, batch, late, commit):
    """Save a plan while another driver, between two looks at the disk, commits its batch."""
    write = Location.write_new

    def write_after(self, name, content):
        monkeypatch.setattr(Location, "write_new", write)
        checkpoint.commit(commit)
        write(self, name, content)

    monkeypatch.setattr(Location, "write_new", write_after)
    checkpoint.save_plan(batch, late)


def test_a_plan_that_is_saved_while_its_batch_is_committed_never_comes_into_force(
    checkpoint, here, monkeypatch
):
    checkpoint.save_plan(0, PLAN)
    checkpoint.commit(Commit(0, plan=0))

    saved_too_late(checkpoint, monkeypatch, 1, Plan(), Commit(1, plan=0))

    assert "plans/0000000001.json" in files_of(here)
    assert [SavedPlan(0, PLAN)] * 3 == [checkpoint.plan_of(batch) for batch in range(3)]
    checkpoint.commit(Commit(2, plan=0))
    checkpoint.clean(keep=1)
    assert {"plans/0000000000.json"} == {n for n in files_of(here) if n.startswith("plans/")}
    assert SavedPlan(0, PLAN) == checkpoint.plan_of(3)
    checkpoint.commit(Commit(3, plan=0))


def test_a_plan_for_a_batch_that_is_done_is_refused_but_the_one_it_had(checkpoint):
    checkpoint.save_plan(0, PLAN)
    checkpoint.commit(Commit(0, plan=0))
    checkpoint.commit(Commit(1, plan=0))

    checkpoint.save_plan(0, PLAN)
    with pytest.raises(CheckpointError, match=r"batch 1 is done already, .* save .* for batch 2"):
        checkpoint.save_plan(1, Plan())
    assert SavedPlan(0, PLAN) == checkpoint.plan_of(1)


def test_a_commit_under_another_plan_than_the_one_in_force_is_refused(checkpoint):
    with pytest.raises(CheckpointError, match="plan of batch 0, but that of batch None"):
        checkpoint.commit(Commit(0, plan=0))
    checkpoint.commit(Commit(0))
    checkpoint.save_plan(1, PLAN)
    with pytest.raises(CheckpointError, match="plan of batch None, but that of batch 1"):
        checkpoint.commit(Commit(1))
    checkpoint.commit(Commit(1, plan=1))


@pytest.mark.parametrize("batch", [-1, 10**10, 1.0])
def test_a_plan_of_no_batch_is_refused(checkpoint, batch):
    with pytest.raises(InvalidValueError, match="batch="):
        checkpoint.save_plan(batch, PLAN)
