"""The host of an executor: read from its command line, wherever among those above it is."""

import os

import pytest

from optimizers.spark.hosts import executor_host, host_above

EXECUTOR = ["java", "Executor", "--hostname", "127.0.0.3", "--cores", "1"]


@pytest.fixture
def processes(tmp_path):
    def add(number, parent, words, name="python"):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (place / "stat").write_text(f"{number} ({name}) S {parent} {number} 1 0")
        return tmp_path

    return add


def test_a_worker_comes_of_the_daemon_which_comes_of_the_executor(processes):
    processes(7, 1, EXECUTOR, name="java")
    processes(8, 7, ["python", "-m", "pyspark.daemon"], name="odd) S 1 (name")
    folder = processes(9, 8, ["python", "-m", "pyspark.daemon"])

    assert ["127.0.0.3"] * 3 == [host_above(number, folder) for number in (7, 8, 9)]


def test_without_an_executor_above_nothing_is_known(processes, tmp_path):
    processes(7, 1, ["java", "SparkSubmit", "--hostname"])
    folder = processes(8, 7, ["python"])
    processes(9, 9, ["python"])  # no process, but nothing to hang on

    assert [None] * 4 == [host_above(number, folder) for number in (7, 8, 9, 77)]
    assert executor_host() is None
    assert host_above(os.getpid(), tmp_path / "nowhere") is None
