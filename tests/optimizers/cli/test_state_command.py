"""`penstock state`: an overview of a checkpoint, the rows of an operator, and files of them."""

import csv
import subprocess
import sys
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optimizers.cli import main
from optimizers.comparing.reference import Reference
from optimizers.errors import CheckpointError
from optimizers.folds import Count, Distinct, Emit
from optimizers.runtime.log import live_drivers, tidying
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.origins import Bounded, OfStream
from optimizers.runtime.log.presence import Presence
from optimizers.runtime.storage.location import Location
from optimizers.topology import Topology

JOB = (
    Topology.source("posts")
    .then("by_place", key="place", apply=Count(emit=Emit.TUPLES))
    .then("by_tag", key=("place", "tag"), apply=Distinct("user"))
)


@pytest.fixture
def folder(tmp_path):
    reference = Reference(JOB, str(tmp_path / "job"))
    for start, stop in ((0, 40), (38, 43), (41, 46)):
        places = [f"p{number}" for number in range(start, stop)]
        users = ["ann"] * len(places)
        reference.execute({"posts": pa.table({"place": places, "tag": places, "user": users})})
    return str(tmp_path / "job")


def shown(capsys, *arguments):
    assert 0 == main(["state", *arguments])
    return capsys.readouterr().out.splitlines()


def test_an_overview_tells_what_each_operator_keeps(folder, capsys):
    lines = shown(capsys, folder)
    rows = {line.split()[0]: line for line in lines if line.startswith("by_")}

    assert lines[0].startswith(f"{folder}: batches 0 to 2, the last with 5 tuples")
    assert ["by_place", "place", "1", "50"] == rows["by_place"].split()[:4]
    assert "place, tag" in rows["by_tag"]
    assert "--compact" in lines[-1]


def test_compacting_leaves_each_key_once_and_changes_no_state(folder, capsys):
    before = Checkpoint.open(Location(folder)).read("by_place")

    lines = shown(capsys, folder, "--compact")

    assert lines[0].startswith("compacted; ")
    (row,) = (line for line in lines if line.startswith("by_place"))
    assert ["by_place", "place", "1", "46"] == row.split()[:4]
    assert before == Checkpoint.open(Location(folder)).read("by_place")
    assert "--compact" not in lines[-1]


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    code = "import sys; from optimizers.cli import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, "state", folder, "by_place", "--rows", "46"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        command.stdout.close()
        told = command.stderr.read()

    assert (0, b"") == (command.returncode, told)


def test_an_overview_tells_what_the_job_was_fed_with_and_who_works_on_it(folder, capsys):
    checkpoint = Checkpoint.open(Location(folder))
    last = checkpoint.last_commit()
    for origin in (Bounded("monday"), OfStream("q-1", 0), OfStream("q-1", 1)):
        progress = last.progress.after(origin)
        last = replace(last, batch=last.batch + 1, origin=origin, progress=progress)
        checkpoint.commit(last)
    driver = checkpoint.announce()

    lines = shown(capsys, folder)

    assert "from 4 bounded batches, the last with a name 'monday'" == lines[1]
    assert "from 2 batches of stream q-1" == lines[2]
    assert f"at work: {driver}" == lines[3]
    checkpoint.withdraw(driver)
    assert "at work" not in "".join(shown(capsys, folder))


class TestCompactingBesideADriver:
    @pytest.fixture
    def checkpoint(self, folder):
        return Checkpoint.open(Location(folder))

    def test_is_refused(self, checkpoint, folder, capsys):
        driver = checkpoint.announce()
        before = checkpoint.location.list("")

        assert 2 == main(["state", folder, "--compact"])

        told = capsys.readouterr().err
        assert f"may be in use by {driver}: its job would be stopped" in told
        assert "--force" in told
        assert before == checkpoint.location.list("")

    def test_keeps_its_files_if_it_is_forced(self, checkpoint, folder, capsys):
        driver = checkpoint.announce()
        held = checkpoint.last_commit()
        before = checkpoint.read("by_place")

        lines = shown(capsys, folder, "--compact", "--force")

        assert "the files that were replaced stay until the next batches are done" in lines[0]
        assert held.files <= set(checkpoint.location.list(""))
        assert before == checkpoint.read("by_place")
        assert [driver] == checkpoint.drivers()
        with pytest.raises(CheckpointError, match="was rewritten since"):
            checkpoint.commit(replace(held, batch=held.batch + 1), after=held)

    def test_that_begins_while_state_is_rewritten_is_refused(
        self, checkpoint, folder, capsys, monkeypatch
    ):
        before, read, drivers = checkpoint.last_commit(), tidying.read_states, []

        def begun_meanwhile(*arguments):
            drivers.append(checkpoint.announce())
            return read(*arguments)

        monkeypatch.setattr(tidying, "read_states", begun_meanwhile)

        assert 2 == main(["state", folder, "--compact"])

        assert f"may be in use by {drivers[0]}" in capsys.readouterr().err
        assert before == checkpoint.last_commit()
        assert before.files <= set(checkpoint.location.list(""))
        # Those of one second are in the order of their names, which are drawn.
        assert set(drivers) == set(checkpoint.drivers())

    def test_that_begins_at_the_moment_of_the_commit_keeps_its_files(
        self, checkpoint, folder, capsys, monkeypatch
    ):
        held, write = checkpoint.last_commit(), Location.write_new

        def begun_before(self, name, content):
            checkpoint.announce()
            write(self, name, content)

        with monkeypatch.context() as patched:
            patched.setattr(Location, "write_new", begun_before)
            lines = shown(capsys, folder, "--compact")

        assert "the files that were replaced stay" in lines[0]
        assert held.files <= set(checkpoint.location.list(""))

    def test_that_begins_meanwhile_goes_on_from_the_new_files(
        self, checkpoint, folder, capsys, monkeypatch
    ):
        driver, clean, found = Presence(checkpoint), Checkpoint.clean, []

        def begun_before(self, **options):
            begun = threading.Thread(
                target=lambda: (driver.begin(), found.append(checkpoint.last_commit()))
            )
            begun.start()
            threads.append(begun)
            return clean(self, **options)

        threads = []
        monkeypatch.setattr(Checkpoint, "clean", begun_before)
        shown(capsys, folder, "--compact")
        threads[0].join()

        assert 1 == found[0].revision
        assert found[0].files <= set(checkpoint.location.list(""))

    def test_that_is_gone_is_as_good_as_without(self, checkpoint, folder, capsys, monkeypatch):
        checkpoint.announce()
        held = checkpoint.last_commit()
        monkeypatch.setattr(live_drivers, "_is_there", lambda pid: False)

        shown(capsys, folder, "--compact")

        assert [] == checkpoint.drivers()
        assert not held.files <= set(checkpoint.location.list(""))

    def test_on_another_machine_is_refused(self, checkpoint, folder, capsys, monkeypatch):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(live_drivers, "_host", lambda: "other/pid:[1]")
            checkpoint.announce()

        assert 2 == main(["state", folder, "--compact"])
        assert "on other, since" in capsys.readouterr().err


def test_the_first_rows_of_an_operator_are_shown(folder, capsys):
    lines = shown(capsys, folder, "by_place", "--rows", "3")

    assert ["place", "count"] == lines[0].split()
    assert all(line.startswith("p") for line in lines[1:4])
    assert "3 of 46 rows" == lines[-1]
    assert "0 of 46 rows" == shown(capsys, folder, "by_place", "--rows", "0")[-1]


def test_values_cannot_write_to_the_terminal(tmp_path, capsys):
    job = Topology.source("in").then("count", key="k")
    reference = Reference(job, str(tmp_path))
    reference.execute({"in": pa.table({"k": ["\x1b[31mred\nline" + "x" * 100]})})

    lines = shown(capsys, str(tmp_path), "count")

    assert lines[1].startswith("\\x1b[31mred\\nline")
    assert len(lines[1]) < 60


def test_state_is_written_to_files(folder, tmp_path, capsys):
    table, sheet = tmp_path / "state.parquet", tmp_path / "state.csv"

    lines = shown(capsys, folder, "by_place", "--parquet", str(table), "--csv", str(sheet))

    assert [f"46 rows written to {path}" for path in (sheet, table)] == lines
    assert Checkpoint.open(Location(folder)).read("by_place") == pq.read_table(table)
    with sheet.open(newline="") as lines_of_file:
        rows = list(csv.DictReader(lines_of_file))
    assert {f"p{number}" for number in range(46)} == {row["place"] for row in rows}


def test_an_empty_checkpoint_says_so(tmp_path, capsys):
    Checkpoint.create_or_open(Location(str(tmp_path)), JOB)

    assert [f"{tmp_path}: no batch is done yet"] == shown(capsys, str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such"], "there is no checkpoint at /no/such"),
        (["{folder}", "by_user"], "unknown operator with a key 'by_user'; known: 'by_place', 'by_"),
        (["{folder}", "by_place", "--rows", "-1"], "rows=-1 is out of range"),
        (["{folder}", "--csv", "x"], "one operator is written to a file"),
        (["{folder}", "by_tag", "--csv", "x"], "which CSV cannot; use --parquet"),
        (["{folder}", "--force"], "give --compact as well"),
        (["{folder}", "by_place", "--csv", "/no/such/x"], "cannot write /no/such/x"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(folder, arguments, message, capsys):
    assert 2 == main(["state", *(word.format(folder=folder) for word in arguments)])

    told = capsys.readouterr().err
    assert message in told
    assert 1 == told.count("\n")
