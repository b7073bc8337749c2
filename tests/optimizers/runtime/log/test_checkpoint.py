"""The log of a checkpoint: batches in order, one driver, one job, and nothing lost by cleaning."""

from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Note, Plan, Topology
from optimizers.errors import CheckpointError, InvalidValueError, StateError, UnknownNameError
from optimizers.runtime.log import inspection, mark, tidying
from optimizers.runtime.log.checkpoint import Checkpoint, SavedPlan
from optimizers.runtime.log.cleaning import batch_of
from optimizers.runtime.log.commit_log import Log
from optimizers.runtime.log.mark import check_shared
from optimizers.runtime.log.records import Commit, sealed
from optimizers.runtime.state.file import Attempt, Kind, write_state
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.output_file import OutputFile

JOB = Topology.source("words").then("count", key="word", parallelism=2)
PLAN = Plan(parallelism={"count": 3})


@pytest.fixture
def here(tmp_path):
    return Location(tmp_path / "checkpoint")


@pytest.fixture
def checkpoint(here):
    return Checkpoint.create_or_open(here, JOB)


def rows(counts, gone=None):
    """State of keys whose place is the number in their text."""
    places = sorted(counts)
    columns = {
        "place": pa.array(places, pa.uint64()),
        "key_0": pa.array([f"w{place}" for place in places]),
        "value_count": pa.array([counts[place] for place in places], pa.int64()),
    }
    if gone is not None:
        columns["gone"] = pa.array([place in gone for place in places], pa.bool_())
    return pa.table(columns)


def output_at(path):
    return OutputFile(path, "count", pa.schema([("word", pa.string())]))


def write(here, batch, counts, *, instance=0, name="a", gone=None):
    attempt = Attempt("count", instance, batch, name)
    kind = Kind.BASE if gone is None else Kind.DELTA
    return write_state(here, attempt, rows(counts, gone), kind=kind)


def state_of(checkpoint, batch=None):
    table = checkpoint.read("count", batch)
    assert ["word", "count"] == table.column_names
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))


def files_of(here):
    return list(here.list(""))


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
    # Whoever has done the batch under the first cannot commit it any more.
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


def test_a_checkpoint_of_another_job_is_refused_with_what_differs(checkpoint, here):
    other = Topology.source("words").then("count", key="place")

    with pytest.raises(CheckpointError, match=r"is of another job: operator 'count' has key \('pl"):
        Checkpoint.create_or_open(here, other)
    Checkpoint.create_or_open(here, JOB.under(Plan(parallelism={"count": 100})))


def test_a_folder_without_a_checkpoint_is_not_opened(here):
    with pytest.raises(
        CheckpointError, match=r"there is no checkpoint at .*penstock\.json is miss"
    ):
        Checkpoint.open(here)


@pytest.mark.parametrize("name", ["commits/0000000007.json", "state/a/b", "spark/offsets/0"])
def test_remains_of_a_checkpoint_are_not_taken_for_an_empty_folder(here, name):
    here.write_new(name, b"")

    with pytest.raises(CheckpointError, match=r"has files in (commits|state|spark)/ but no"):
        Checkpoint.create_or_open(here, JOB)
    assert [name] == files_of(here)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["notes.txt"], "holds 'notes.txt'; give the job an empty folder, such as .*/checkpoint"),
        (["b/x.csv", "a", "d", "c", "e"], "holds 'a', 'b', 'c' and 2 more;"),
    ],
)
def test_a_folder_with_files_of_others_is_not_made_a_checkpoint(here, names, told):
    for name in names:
        here.write_new(name, b"")

    with pytest.raises(CheckpointError, match=told):
        Checkpoint.create_or_open(here, JOB)
    assert sorted(names) == files_of(here)


def test_what_systems_and_players_of_streams_leave_does_not_matter(here, tmp_path):
    for name in (".DS_Store", "recorded/posts.arrow", "admitted/posts"):
        here.write_new(name, b"")
    here.make_folder("lost+found")
    here.make_folder("commits")

    assert () == Checkpoint.create_or_open(here, JOB).batches()
    here.write_new("notes.txt", b"")  # once it is one, who adds files knows what it is
    assert () == Checkpoint.create_or_open(here, JOB).batches()


def test_a_path_that_is_a_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")

    with pytest.raises(
        CheckpointError, match=r"notes\.txt.* is a file and no folder; give another"
    ):
        Checkpoint.create_or_open(Location(path), JOB)
    assert "mine" == path.read_text()


def test_a_seed_is_drawn_for_each_checkpoint_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(mark, "drawn_seed", mark.drawn_seed.really)
    drawn = [Checkpoint.create_or_open(Location(tmp_path / name), JOB) for name in "abc"]

    assert 3 == len({checkpoint.seed for checkpoint in drawn})
    assert 3 == len({checkpoint.mark.name for checkpoint in drawn})
    for checkpoint in drawn:
        assert checkpoint.seed == JOB.seeded(checkpoint.seed).seed > 0
        again = Checkpoint.create_or_open(checkpoint.location, JOB)
        assert checkpoint.mark == again.mark == Checkpoint.open(checkpoint.location).mark


def test_every_seed_that_can_be_drawn_is_one_that_a_job_takes(monkeypatch):
    monkeypatch.setattr(mark.secrets, "randbelow", lambda limit: limit - 1)

    largest = mark.drawn_seed.really()

    assert largest == JOB.seeded(largest).seed
    with pytest.raises(InvalidValueError, match="seed="):
        JOB.seeded(largest + 1)
    assert all(JOB.seeded(mark.drawn_seed.really()) for _ in range(50))


def test_a_seed_may_be_given_but_not_changed(here):
    assert 7 == Checkpoint.create_or_open(here, JOB, seed=7).seed
    assert 7 == Checkpoint.create_or_open(here, JOB, seed=7).seed
    assert 7 == Checkpoint.create_or_open(here, JOB).seed
    with pytest.raises(CheckpointError, match=r"seed=8 is given, .* made with seed 7, .* leave"):
        Checkpoint.create_or_open(here, JOB, seed=8)
    with pytest.raises(InvalidValueError, match=r"seed=-1"):
        Checkpoint.create_or_open(Location(here.root + "-other"), JOB, seed=-1)


class TestExecutors:
    def test_that_see_the_folder_are_let_work(self, checkpoint, here):
        check_shared(here, checkpoint.mark.name)

    def test_that_see_an_empty_one_are_refused(self, checkpoint, tmp_path):
        with pytest.raises(CheckpointError, match=r"no checkpoint is at .*executors do not share"):
            check_shared(Location(tmp_path / "elsewhere"), checkpoint.mark.name)

    def test_that_see_another_checkpoint_are_refused(self, checkpoint, tmp_path):
        other = Checkpoint.create_or_open(Location(tmp_path / "other"), JOB, seed=checkpoint.seed)
        with pytest.raises(CheckpointError, match=r"another checkpoint is at .*do not share this"):
            check_shared(other.location, checkpoint.mark.name)


@pytest.fixture
def filled(checkpoint, here):
    checkpoint.save_plan(0, PLAN)
    checkpoint.commit(Commit(0, plan=0, state={"count": ((write(here, 0, {1: 10}),),)}))
    return checkpoint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("penstock.json", r"penstock\.json cannot be used: .*bring it back"),
        ("commits/0000000000.json", r"commits/0000000000\.json cannot be used: .*bring it back"),
    ],
)
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-4], lambda data: data[:40] + b"~" + data[41:]]
)
def test_a_damaged_record_is_named_when_it_is_opened(filled, here, name, message, damage):
    path = Path(here.path_of(name))
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(CheckpointError, match=message):
        Checkpoint.create_or_open(here, JOB)


def test_a_damaged_plan_is_named(filled, here):
    path = Path(here.path_of("plans/0000000000.json"))
    path.write_bytes(path.read_bytes()[:20])

    with pytest.raises(CheckpointError, match=r"plans/0000000000\.json cannot be used: it has no"):
        filled.plan_of(3)


def test_another_format_is_refused(checkpoint, here):
    text = checkpoint.mark.to_json().replace('"format": 2', '"format": 9')
    here.write_atomically("penstock.json", sealed(text))

    with pytest.raises(CheckpointError, match=r"by format 9, .* knows format 2; go on"):
        Checkpoint.create_or_open(here, JOB)


def test_a_checkpoint_of_the_first_format_is_refused_by_its_name(here):
    text = (
        '{\n  "penstock": "checkpoint",\n  "version": 1,\n  "format": 1,\n'
        '  "operators": {"words": {}},\n  "edges": []\n}\n'
    )
    here.write_new("penstock.json", sealed(text))

    with pytest.raises(CheckpointError, match=r"by format 1, .* go on .* or give the job an empty"):
        Checkpoint.create_or_open(here, JOB)


def test_missing_or_torn_state_is_named_when_it_is_opened(filled, here):
    path = Path(here.path_of("state/count/0000000000-0-a.arrow"))
    content = path.read_bytes()

    path.write_bytes(content[:-1])
    with pytest.raises(
        CheckpointError, match=r"a\.arrow has \d+ bytes, where .* \d+ bytes of state"
    ):
        Checkpoint.create_or_open(here, JOB)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"a\.arrow is missing, .* of operator .* at batch 0"):
        Checkpoint.create_or_open(here, JOB)
    path.write_bytes(content)
    Checkpoint.create_or_open(here, JOB)


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
    running.add("output/of somebody else")
    here.write_new("output/of somebody else", b"")
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


def test_compaction_changes_nothing_but_the_files(filled, here):
    base = filled.last_commit().state["count"][0]
    chain = (*base, write(here, 1, {2: 20}, gone=set()), write(here, 1, {1: 0}, name="c", gone={1}))
    single = (write(here, 1, {3: 30}, instance=1),)
    filled.commit(Commit(1, 0, {"count": (chain, single, ())}, (output_at("output/x"),), 9))
    before = state_of(filled)

    compacted = filled.compact()

    assert {"w2": 20, "w3": 30} == before == state_of(filled)
    assert compacted == filled.last_commit() == Checkpoint.open(here).last_commit()
    assert compacted == filled.commit_of(1)
    assert (1, 1, 0, (output_at("output/x"),), 9) == (
        compacted.batch,
        compacted.revision,
        compacted.plan,
        compacted.outputs,
        compacted.tuples,
    )
    assert [1, 1, 0] == [len(files) for files in compacted.state["count"]]
    assert single == compacted.state["count"][1]
    assert compacted == filled.compact()
    assert (0, 1) == filled.batches()
    filled.clean(keep=1)  # a driver may be about to go on from the old files
    assert ["commits/0000000001-1.json", "commits/0000000001.json"] == list(here.list("commits"))
    assert {file.path for file in (*chain, *single)} < set(here.list("state"))
    filled.clean(keep=1, alone=True)
    assert before == state_of(filled)
    assert ["commits/0000000001-1.json"] == list(here.list("commits"))
    assert {file.path for _, _, files in compacted.instances() for file in files} == set(
        here.list("state")
    )
    filled.commit(Commit(2, 0, compacted.state))
    assert before == state_of(filled)


def test_files_that_were_written_anew_stay_until_a_later_batch_is_committed(filled, here):
    chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain,)}))
    held = filled.last_commit()
    filled.compact()
    for _ in range(2):
        filled.clean(keep=1)
        assert held.files <= set(files_of(here))
    filled.commit(Commit(2, 0, filled.last_commit().state))

    filled.clean(keep=2)

    assert {"w1": 10, "w2": 20} == state_of(filled) == state_of(filled, 1)
    assert not held.files & set(files_of(here))


def test_state_that_is_being_written_anew_is_not_taken_for_garbage(filled, here, monkeypatch):
    chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain,)}))
    write_new = Location.write_new

    def cleaned_before(self, name, content):
        if name.startswith("commits/"):
            filled.clean(keep=1)
        write_new(self, name, content)

    monkeypatch.setattr(Location, "write_new", cleaned_before)
    filled.compact()

    assert {"w1": 10, "w2": 20} == state_of(Checkpoint.open(here))


def test_state_is_not_written_anew_for_a_batch_that_is_not_the_last_by_then(
    filled, here, monkeypatch
):
    chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain,)}))
    read = tidying.read_states

    def committed_meanwhile(location, files):
        filled.commit(Commit(2, 0, {"count": (chain,)}))
        return read(location, files)

    monkeypatch.setattr(tidying, "read_states", committed_meanwhile)
    with pytest.raises(
        CheckpointError, match=r"batch 2 was committed .* while the state of batch 1"
    ):
        filled.compact()

    assert (2, 0) == filled.last_commit().number


class TestReadersBesideAJob:
    """The job commits and cleans up between any two things that a reader does."""

    @pytest.fixture
    def busy(self, filled, here, monkeypatch):
        """A checkpoint whose job goes on each time that a file of state is read."""

        def goes_on(times):
            read = inspection.read_states
            left = iter(range(times))

            def after_a_batch(location, files):
                if next(left, None) is not None:
                    batch = filled.last_commit().batch + 1
                    state = {"count": ((write(here, batch, {1: 10 + batch}),),)}
                    filled.commit(Commit(batch, 0, state))
                    filled.clean(keep=1)
                return read(location, files)

            monkeypatch.setattr(inspection, "read_states", after_a_batch)

        return goes_on

    def test_read_the_newest_state_once_what_they_looked_for_is_gone(self, filled, busy):
        busy(1)
        assert {"w1": 11} == state_of(filled)
        busy(3)
        assert {"w1": 14} == state_of(filled)

    def test_are_told_what_to_do_if_they_never_get_there(self, filled, busy):
        busy(99)
        with pytest.raises(CheckpointError, match=r"cleaned up 5 times .* SparkEngine\(keep=...\)"):
            filled.read("count")

    def test_are_told_if_the_batch_they_name_is_gone(self, filled, busy):
        busy(1)
        with pytest.raises(CheckpointError, match="is missing"):
            state_of(filled, 0)
        with pytest.raises(CheckpointError, match="keeps no commit of batch 0; kept: 1"):
            state_of(filled, 0)

    def test_can_open_it(self, filled, here, monkeypatch):
        commit = Log.commit

        def gone_on(self, batch, revision):
            monkeypatch.setattr(Log, "commit", commit)
            filled.commit(Commit(1, 0, {"count": ((write(here, 1, {1: 11}),),)}))
            filled.clean(keep=1)
            return commit(self, batch, revision)

        monkeypatch.setattr(Log, "commit", gone_on)
        assert {"w1": 11} == state_of(Checkpoint.open(here))

    def test_are_told_of_files_that_are_missing_though_nothing_was_cleaned_up(self, filled, here):
        here.delete("state/count/0000000000-0-a.arrow")
        with pytest.raises(CheckpointError, match="is missing"):
            filled.read("count")


def test_a_checkpoint_is_described(filled, here):
    base = filled.last_commit().state["count"][0]
    chain = (*base, write(here, 1, {2: 20, 1: 11}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain, ())}))

    found = filled.describe()

    assert (0, 1) == found.batches
    assert filled.last_commit() == found.commit
    assert [("count", 0, 3, 2), ("count", 1, 0, 0)] == [
        (each.operator, each.instance, each.rows, each.files) for each in found.instances
    ]
    assert sum(file.bytes for file in chain) == found.instances[0].bytes


def test_state_of_two_key_columns_is_read_by_their_names(here):
    job = Topology.source("s").then("pairs", key=("a", "count"))
    checkpoint = Checkpoint.create_or_open(here, job)
    table = pa.table(
        {
            "place": pa.array([4, 9], pa.uint64()),
            "key_0": ["x", "y"],
            "key_1": [1, 2],
            "value_count": [10, 20],
            "value_sum": [0.5, 1.5],
        }
    )
    halves = [
        (write_state(here, Attempt("pairs", 0, 0, "a"), table.slice(1), kind=Kind.BASE),),
        (write_state(here, Attempt("pairs", 1, 0, "a"), table.slice(0, 1), kind=Kind.BASE),),
    ]
    checkpoint.commit(Commit(0, state={"pairs": halves}))

    assert {
        "a": ["x", "y"],
        "count": [1, 2],
        "value_count": [10, 20],
        "sum": [0.5, 1.5],
    } == checkpoint.read("pairs").to_pydict()


def test_a_key_that_two_instances_hold_is_an_error_unless_they_may(tmp_path):
    for partial in (True, False):
        here = Location(tmp_path / str(partial))
        job = Topology.source("s").then("count", key="word", partial=partial)
        checkpoint = Checkpoint.create_or_open(here, job)
        halves = [(write(here, 0, {1: 10, 5: 1}, instance=each),) for each in range(2)]
        checkpoint.commit(Commit(0, state={"count": halves}))
        if partial:
            assert ["w1", "w1", "w5", "w5"] == checkpoint.read("count")["word"].to_pylist()
        else:
            with pytest.raises(StateError, match=r"two instances .* state of key \['w1'\] at pl"):
                checkpoint.read("count")


def test_state_that_cannot_be_read_as_one_table_is_an_error(checkpoint, here):
    other = rows({2: 1}).set_column(2, "value_count", pa.array(["x"]))
    strange = (write_state(here, Attempt("count", 1, 0, "a"), other, kind=Kind.BASE),)
    checkpoint.commit(Commit(0, state={"count": ((write(here, 0, {1: 1}),), strange)}))

    with pytest.raises(StateError, match="keep state of different columns"):
        checkpoint.read("count")


def test_state_of_other_key_columns_than_the_job_has_is_an_error(checkpoint, here):
    more = rows({2: 1}).append_column("key_1", pa.array(["x"]))
    file = write_state(here, Attempt("count", 0, 0, "a"), more, kind=Kind.BASE)
    checkpoint.commit(Commit(0, state={"count": ((file,),)}))

    with pytest.raises(StateError, match=r"key columns \['key_0', 'key_1'\], where .* is word"):
        checkpoint.read("count")


def test_only_operators_with_a_key_have_state(filled):
    with pytest.raises(UnknownNameError, match="operator with a key 'words'; known: 'count'"):
        filled.read("words")
    filled.commit(Commit(1, 0))
    assert {"word": []} == filled.read("count").to_pydict()
