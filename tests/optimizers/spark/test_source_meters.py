"""Meters of sources, without Spark: on files and logs as Spark writes them."""

import json
import os
from pathlib import Path

import pytest

from optimizers.runtime.storage.location import Location
from optimizers.spark.source_meters import FilesMeter, RateMeter, ReplayMeter


def entry(folder, name, batch):
    path = (Path(folder) / name).as_uri()
    return json.dumps({"path": path, "timestamp": 1, "batchId": batch}, separators=(",", ":"))


@pytest.fixture
def files(tmp_path):
    """Return a folder of files, what writes one, and what logs that some were let in."""
    folder, log = tmp_path / "in", tmp_path / "job" / "spark" / "sources" / "0"
    folder.mkdir()
    log.mkdir(parents=True)

    def put(name, size):
        (folder / name).write_bytes(b"x" * size)

    def let_in(batch, *names, suffix=""):
        lines = ["v1", *(entry(folder, name, number) for number, name in names)]
        (log / f"{batch}{suffix}").write_text("\n".join(lines))
        return json.dumps({"logOffset": batch})

    return FilesMeter(Location(tmp_path / "job"), 0, os.path.realpath(folder)), put, let_in, folder


def test_files_wait_until_the_log_says_that_they_were_let_in(files):
    meter, put, let_in, _ = files
    put("a b.csv", 10)
    put("c.csv", 5)
    assert 15 == meter.latest(1.0)

    assert 10 == meter.admitted(let_in(0, (0, "a b.csv")), 1)
    put("d.csv", 100)
    assert 115 == meter.latest(2.0)
    assert 115 == meter.admitted(let_in(1, (1, "c.csv"), (1, "d.csv")), 1)
    assert 115 == meter.latest(3.0)


def test_a_file_that_came_since_the_last_look_and_was_let_in_counts(files):
    meter, put, let_in, _ = files
    assert 0 == meter.latest(1.0)
    put("a", 10)

    assert 10 == meter.admitted(let_in(0, (0, "a")), 1)
    assert 10 == meter.latest(2.0)


def test_a_file_that_was_read_and_archived_was_seen_before_or_is_lost(files):
    meter, put, let_in, folder = files
    put("seen", 10)
    assert 10 == meter.latest(1.0)
    (folder / "seen").unlink()
    assert 10 == meter.admitted(let_in(0, (0, "seen")), 1)
    assert 10 == meter.latest(2.0)

    assert meter.admitted(let_in(1, (1, "never seen")), 1) is None
    assert meter.latest(3.0) is None
    assert 10 == meter.latest(4.0)


def test_a_query_that_goes_on_reads_its_whole_log_once(files):
    meter, put, let_in, folder = files
    for name in "abcd":
        put(name, 10)
    for batch, name in enumerate("ab"):
        let_in(batch, (batch, name))
    let_in(2, (0, "a"), (1, "b"), (2, "c"), suffix=".compact")
    (folder / "a").unlink()

    assert 20 == meter.admitted(let_in(2, (0, "a"), (1, "b"), (2, "c"), suffix=".compact"), 1)
    assert 30 == meter.latest(1.0)
    assert 30 == meter.admitted(let_in(3, (3, "d")), 1)


def test_of_a_compacted_entry_only_its_own_files_are_new(files):
    meter, put, let_in, _ = files
    for name in "ab":
        put(name, 10)
    assert 10 == meter.admitted(let_in(0, (0, "a")), 1)

    assert 20 == meter.admitted(let_in(1, (0, "a"), (1, "b"), suffix=".compact"), 1)


def test_hidden_files_do_not_wait(files):
    meter, put, _, _ = files
    for name in ("_SUCCESS", ".a.crc", "b"):
        put(name, 10)

    assert 10 == meter.latest(1.0)


def test_files_that_spark_has_forgotten_do_not_wait(files):
    meter, put, _, folder = files
    put("old", 10)
    put("new", 10)
    os.utime(folder / "old", (0, 0))

    assert 10 == meter.latest(1.0)


@pytest.mark.parametrize("how", ["gone", "nested"])
def test_of_what_is_no_plain_folder_nothing_is_known(files, how):
    meter, put, _, folder = files
    if how == "gone":
        folder.rmdir()
    else:
        put("a", 10)
        (folder / "day=1").mkdir()

    assert meter.latest(1.0) is None


def test_rows_come_at_their_rate_since_spark_began(tmp_path):
    meter = RateMeter(Location(tmp_path), 1, exact=True)
    assert meter.latest(1e9) is None

    log = tmp_path / "spark" / "sources" / "1"
    log.mkdir(parents=True)
    (log / "0").write_text("v1\n1795076201500")

    assert 1795076201.5 == meter.born
    assert pytest.approx(2.5) == meter.latest(1795076204.0)
    assert 0.0 == meter.latest(1795076200.0)
    assert 0.0 == meter.age(1795076200.0)  # it knows of any time
    assert 7.0 == meter.admitted("7", 1)


def test_of_a_recording_all_is_there():
    meter = ReplayMeter(100, exact=True)

    assert 100.0 == meter.latest(0.0) == meter.latest(9.0)
    assert 30.0 == meter.admitted('{"row": 30}', 1)
