"""A run of all tests repeats itself: its examples and what it prints do not hang on the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
THEIRS = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "COLUMNS": "20",
    "HTTP_PROXY": "http://127.0.0.1:1",
    "JAVA_TOOL_OPTIONS": "-Xmx900m",
    "NO_COLOR": "1",
    "PYSPARK_PYTHON": "/nowhere/python",
    "SPARK_HOME": "/nowhere",
    "TERM": "dumb",
    "TZ": "Asia/Kolkata",
}

DRAWN = """
from pathlib import Path
from hypothesis import given, settings, strategies as st

@settings(max_examples=40)
@given(st.lists(st.integers() | st.text() | st.floats()), st.sets(st.text()))
def test_draws(values, texts):
    with Path("drawn").open("a", encoding="utf-8") as file:
        print(ascii(values), ascii(sorted(texts)), file=file)
"""


def drawn(folder, *options, **environment):
    """What a test draws when it is run here."""
    folder.mkdir(parents=True)
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "test_it.py").write_text(DRAWN, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return (folder / "drawn").read_text("utf-8")


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return drawn(tmp_path_factory.mktemp("usual") / "here")


@pytest.mark.parametrize(
    "environment",
    [
        {"CI": "true", "GITHUB_ACTIONS": "true", "PYTHONHASHSEED": "1", "TZ": "Asia/Kolkata"},
        {"HYPOTHESIS_PROFILE": "random", "PYTHONHASHSEED": "2", "LC_ALL": "C", "COLUMNS": "20"},
    ],
    ids=str,
)
def test_examples_do_not_depend_on_the_environment(tmp_path, usual, environment):
    assert usual == drawn(tmp_path / "tests", **environment)


def test_examples_do_not_depend_on_what_else_is_loaded(tmp_path, usual):
    # A module of the project itself, which is not below a folder of tests.
    folder = tmp_path / "here"
    (tmp_path / "ours.py").write_text("WORDS = ['special', 'words'], 123456789, 0.123\n")

    assert usual == drawn(folder, "-p", "ours", PYTHONPATH=str(tmp_path))


def test_other_examples_have_to_be_asked_for(tmp_path, usual):
    assert usual != drawn(tmp_path / "here", "--hypothesis-profile=random")


SHOWN = """
import os
import time

def test_shows():
    kept = {name: os.environ.get(name) for name in THEIRS}
    assert {"TERM": "xterm", "TZ": "UTC"} == {name: it for name, it in kept.items() if it}
    assert time.tzname == ("UTC", "UTC")
"""


def test_what_people_set_for_other_programs_does_not_reach_the_tests(tmp_path):
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(f"THEIRS = {sorted(THEIRS)}\n{SHOWN}", "utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=tmp_path,
        env={**os.environ, **THEIRS},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
