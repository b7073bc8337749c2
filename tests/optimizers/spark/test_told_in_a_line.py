"""What a user sees who runs a script that fails: the lines on stderr, counted."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("failing_jobs.py")

BOUNDED = ["key", "function", "far", "fold", "sink", "parquet"]
STREAMS = ["stream", "stream-far", "stream-sink"]
# The first of these breaks what the last does not come to.
LAST = ["unforeseen", "stream-function"]
FINE = ["none", "stream-none", "door"]
# By a session that we made, and by one that the user made.
CASES = {
    "ours": [*FINE, *BOUNDED, *STREAMS, *LAST],
    "theirs": [*FINE, "key", "sink", "stream", "stream-sink", "stream-function"],
}

FAR = (
    r"^optimizers\.errors\.FoldError: operator 'clean': .*column 't' holds '55840-11-08T22:13:20.*"
    r'; the row of batch 0: {"k": "a", "t": "55840-.*\(at clean\[\d\] in batch 0\)$'
)

STORIES = {"key", "function", "far", "unforeseen", "stream", "stream-function", "parquet"}

SAID = {
    "key": r"^optimizers\.errors\.FoldError: .*key.* null",
    "function": r"^optimizers\.errors\.FunctionError: operator 'inv' raised ZeroDivisionError: "
    r"division by zero, at \S+failing_jobs\.py:\d+ in invert.*\(at inv\[0\] in batch 0\)$",
    "far": FAR,
    "stream-far": FAR,
    "unforeseen": r"^sketches\.errors\.PenstockError: TypeError: 'NoneType' object is not "
    r"callable; Penstock did not foresee this, please report it \(at \w+\[\d\] in batch 0\)$",
    "fold": r"^optimizers\.errors\.FunctionError: operator 'n' raised \S*OwnError: no state, "
    r"at \S+failing_jobs\.py:\d+ in broken_fold.*\(at n\[0\] in batch 0\)$",
    "sink": r"^(__main__\.)?OwnError: the sink$",
    "parquet": r"^optimizers\.errors\.SinkError: batch 0 cannot be written to /proc/nowhere",
    "stream": r"^optimizers\.errors\.FoldError: .*key.* null",
    "stream-sink": r"^(__main__\.)?OwnError: the sink$",
    "stream-function": r"^optimizers\.errors\.FunctionError: operator 'inv' raised ZeroDivision",
}


# A worker that is killed amid a job that is given up may say so, whenever it comes to that: Spark's
# own daemon prints it, line by line, so that the next case may begin after its first, or the script
# may end, and the daemon with it.
_WORKER = re.compile(
    r"Traceback \(most recent call last\):\n(=== .*\n)?"
    r'  File "\S+pyspark/daemon\.py", .*\n(  .*\n)+'
    r"(BrokenPipeError|ConnectionResetError|EOFError)\b.*\n"
    r'|Traceback \(most recent call last\):\n(?:  File "\S+pyspark/daemon\.py", .*\n(?:  .*\n)*)?\Z'
)


def run(session, folder, cases, **environment):
    """Run cases as a script, and return the lines on stderr of each."""
    given = {name: value for name, value in os.environ.items() if name != "PENSTOCK_DEBUG"}
    given |= {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(folder), **environment}
    command = [sys.executable, str(SCRIPT), session, *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=given)
    assert done.returncode == 1, done.stderr
    found, lines = {}, []
    for line in _WORKER.sub(lambda found: found[1] or "", done.stderr).splitlines():
        case = re.fullmatch("=== (.*)", line)
        if case:
            lines = found[case[1]] = []
        else:
            lines.append(line)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("told")


@pytest.fixture(scope="module")
def told_by(folder):
    """What a session tells: the lines of each of its cases. They are run once."""
    return cache(lambda session: run(session, folder, CASES[session]))


def each(wanted):
    """Let a test have each session with each of some cases that are run there."""
    pairs = [(name, case) for name, cases in CASES.items() for case in cases if case in wanted]
    return pytest.mark.parametrize(("session", "case"), pairs)


@pytest.mark.parametrize("session", CASES)
def test_a_job_that_is_fine_says_nothing(told_by, session):
    told = told_by(session)

    assert [] == told["none"] == told["stream-none"]


@each(SAID)
def test_an_error_is_a_sentence_below_the_users_own_lines(told_by, session, case):
    lines = told_by(session)[case]

    assert lines[0] == "Traceback (most recent call last):"
    files = [line for line in lines if line.startswith("  File")]
    foreign = [line for line in files if str(SCRIPT) not in line]
    assert [line for line in foreign if "error_boundary.py" not in line] == []
    assert len(foreign) == 1
    sentences = [line for line in lines if re.search(SAID[case], line)]
    assert len(sentences) == 1
    after = lines[lines.index(sentences[0]) + 1 :]
    assert len(after) <= 1  # where the rest is; or the second line of what the user's class says
    assert len(lines) <= 2 + 3 * len(files) + 1


@each(STORIES)
def test_the_rest_is_in_the_file_that_is_named(told_by, session, case):
    last = told_by(session)[case][-1]
    file = re.search(r"what led to it is in (\S+); set PENSTOCK_DEBUG=1", last)[1]

    story = Path(file).read_text()

    assert "pyspark" in story
    assert len(story.splitlines()) > 20
    if "function" in case:
        assert '1 / row["v"]' in story


@pytest.mark.parametrize("session", CASES)
def test_at_a_door_what_spark_says_ends_with_our_sentence(told_by, session):
    lines = told_by(session)["door"]

    assert re.search(r"^optimizers\.errors\.FoldError: .*key.* null", lines[-1])
    assert [line for line in lines if "direct cause" in line] == []
    if session == "ours":  # in others it is the user's own log
        assert [line for line in lines if re.search(r"^\s+at \w+\.|ERROR|WARN", line)] == []


def test_the_setting_shows_all(folder):
    told = run("ours", folder, ["key", "stream"], PENSTOCK_DEBUG="1")

    assert "PythonException" in "".join(told["key"])
    assert any("ERROR Executor" in line for line in told["key"])
    assert len(told["stream"]) > 100
