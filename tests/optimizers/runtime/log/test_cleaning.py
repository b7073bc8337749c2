"""Cleaning a checkpoint removes nothing that a kept batch needs or that may be at work."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from word_counts import JOB, files_of, output_at, state_of, write

from optimizers import Plan
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.cleaning import batch_of
from optimizers.runtime.log.records import Commit
from optimizers.runtime.storage.location import Location


@given(keep=st.integers(1, 4), batches=st.integers(0, 6), data=st.data())
def test_cleaning_keeps_what_kept_batches_need_and_what_may_be_at_work(
    tmp_path_factory, keep, batches, data
):
    here = Location(tmp_path_factory.mktemp("cleaning"))
    checkpoint = Checkpoint.create_or_open(here, JOB)
    plan, chain, commits, garbage = None, (), [], set()
    for batch in range(batches):
        if data.draw(st.booleans()):
            plan = batch
            checkpoint.save_plan(batch, Plan(parallelism={"count": batch + 1}))
        if data.draw(st.booleans()):
            garbage.add(write(here, batch, {9: 9}, name="lost").path)
        rewrite = not chain or data.draw(st.booleans())
        file = write(here, batch, {batch: 1}, gone=None if rewrite else set())
        chain = (file,) if rewrite else (*chain, file)
        output = f"output/{batch:010}-0-a.parquet"
        here.write_new(output, b"")
        commits.append(Commit(batch, plan, {"count": (chain, ())}, (output_at(output),)))
        checkpoint.commit(commits[-1])
    running = {write(here, batches, {1: 1}, name="running").path, f"output/{batches:010}-0-a.x"}
    here.write_new(f"output/{batches:010}-0-a.x", b"")
    running.add("output/of another job")
    here.write_new("output/of another job", b"")
    checkpoint.save_plan(batches, Plan(parallelism={"count": 50}))
    states = {number: state_of(checkpoint, number) for number in range(batches)}
    plans = [checkpoint.plan_of(number) for number in range(batches)]
    before = set(files_of(here))

    removed = checkpoint.clean(keep=keep)

    after = set(files_of(here))
    kept = commits[-keep:]
    needed = set().union(*(commit.files for commit in kept))
    assert len(before) - len(after) == removed
    assert tuple(commit.batch for commit in kept) == checkpoint.batches()
    assert running <= after
    if batches:
        assert needed | running == {name for name in after if name.startswith(("state", "output"))}
    for commit in kept:
        assert commit == checkpoint.commit_of(commit.batch)
        assert states[commit.batch] == state_of(checkpoint, commit.batch)
        assert plans[commit.batch] == checkpoint.plan_of(commit.batch)
    used = {saved.batch for saved in plans[-keep:] if saved} | {batches}
    names = {name for name in after if name.startswith("plans")}
    assert not batches or {f"plans/{number:010}.json" for number in used} == names
    assert 0 == checkpoint.clean(keep=keep)


def test_records_that_were_cut_off_are_cleaned_up(filled, here):
    left = [".0000000000.json.0123456789abcdef.tmp", ".0000000001.json.0123456789abcdef.tmp"]
    for folder in ("commits", "plans"):
        for name in left:
            here.write_new(f"{folder}/{name}", b"{")
    here.write_new("state/count/.0000000000-0-x.arrow.0123.tmp", b"ARROW1")

    assert 3 == filled.clean()
    assert {f"commits/{left[1]}", f"plans/{left[1]}"} == {
        name for name in files_of(here) if name.endswith(".tmp")
    }
    assert 0 == filled.last_commit().batch


def test_a_damaged_commit_that_is_to_be_kept_stops_the_cleaning(filled, here):
    filled.commit(Commit(1, plan=0))
    path = Path(here.path_of("commits/0000000000.json"))
    path.write_bytes(b"{}")
    before = files_of(here)

    with pytest.raises(CheckpointError, match="cannot be used"):
        filled.clean(keep=2)
    assert before == files_of(here)
    with pytest.raises(InvalidValueError, match="keep=0"):
        filled.clean(keep=0)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("state/count/0000000007-3-a.arrow", 7),
        ("output/.0000000012-3-a.parquet.01.tmp", 12),
        ("plans/0000000003.json", 3),
        ("state/0000000007/readme", None),
        ("output/000000007-3-a", None),
        ("output/part-0000000007-3", None),
    ],
)
def test_the_batch_of_a_file_is_told_by_its_name(name, batch):
    assert batch == batch_of(name)
