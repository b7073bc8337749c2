"""Opening a checkpoint: another job, other files, damage, other formats, its seed."""

from pathlib import Path

import pytest
from word_counts import JOB, files_of

from optimizers import Plan, Topology
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log import mark
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.mark import check_shared
from optimizers.runtime.log.records import sealed
from optimizers.runtime.storage.location import Location


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
