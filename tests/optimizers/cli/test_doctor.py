"""The doctor finds what keeps Penstock from running, and says what to do."""

import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from optimizers.cli import doctor, main
from optimizers.cli.doctor import Finding, Level, accepts, java_version, requirements

ROOT = Path(__file__).parents[3]


def script(path, text):
    """Make a program that writes a text as Java does, to the standard error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{text}\nEOF\n")
    path.chmod(0o755)
    return path


def java(version):
    return f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment'


def only(findings):
    (found,) = findings
    return found


@pytest.mark.parametrize(
    ("version", "feature", "level"),
    [
        ("1.8.0_402", 8, Level.PROBLEM),
        ("11.0.2", 11, Level.PROBLEM),
        ("17.0.15", 17, Level.OK),
        ("21", 21, Level.OK),
        ("23.0.1", 23, Level.WARNING),
    ],
)
def test_java_is_known_by_what_it_tells(tmp_path, version, feature, level):
    program = script(tmp_path / "bin" / "java", java(version))

    assert feature == java_version(program)
    for environ in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(tmp_path / "bin")}):
        found = only(doctor.java(environ))
        assert level is found.level
        assert (level is Level.OK) == (not found.remedy)


def test_java_home_comes_before_the_path(tmp_path):
    script(tmp_path / "old" / "java", java("11"))
    script(tmp_path / "new" / "bin" / "java", java("17"))
    environ = {"PATH": str(tmp_path / "old"), "JAVA_HOME": str(tmp_path / "new")}

    assert Level.OK is only(doctor.java(environ)).level


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"PATH": "/no/such"}, "there is none on the PATH"),
        ({"JAVA_HOME": "/no/such"}, "JAVA_HOME='/no/such' has no bin/java"),
    ],
)
def test_no_java_is_a_problem_with_a_remedy(environ, text):
    found = only(doctor.java(environ))

    assert (Level.PROBLEM, text) == (found.level, found.text)
    assert found.remedy


def test_a_java_that_tells_nothing_is_a_problem(tmp_path):
    script(tmp_path / "bin" / "java", "hello")

    assert "does not tell its version" in only(doctor.java({"JAVA_HOME": str(tmp_path)})).text


def test_an_empty_spark_home_is_a_trap(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()

    assert Level.OK is only(doctor.spark_home({})).level
    assert Level.WARNING is only(doctor.spark_home({"SPARK_HOME": ""})).level
    assert "unset SPARK_HOME" == only(doctor.spark_home({"SPARK_HOME": ""})).remedy
    assert Level.PROBLEM is only(doctor.spark_home({"SPARK_HOME": "/no/such"})).level
    assert Level.WARNING is only(doctor.spark_home({"SPARK_HOME": str(tmp_path)})).level


def test_workers_must_run_by_the_same_python(tmp_path):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.8\n")
    other.chmod(0o755)

    assert [] == list(doctor.worker_python({}))
    assert Level.OK is only(doctor.worker_python({"PYSPARK_PYTHON": sys.executable})).level
    wrong = only(doctor.worker_python({"PYSPARK_PYTHON": str(other)}))
    assert (Level.PROBLEM, True) == (wrong.level, "is Python 3.8" in wrong.text)
    assert Level.PROBLEM is only(doctor.worker_python({"PYSPARK_PYTHON": "/no/such"})).level


def test_packages_are_held_against_the_bounds_of_the_project(monkeypatch):
    installed = dict.fromkeys(doctor.NEEDED, "2.5")
    del installed["pymetis"]

    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy<3,>=2.0", "pyspark>=4.1,<5"])

    found = {finding.about: finding for finding in doctor.packages()}

    assert Level.OK is found["numpy"].level
    assert (Level.PROBLEM, "2.5, where >=4.1,<5 is needed", "pip install 'pyspark>=4.1,<5'") == (
        found["pyspark"].level,
        found["pyspark"].text,
        found["pyspark"].remedy,
    )
    assert (Level.PROBLEM, "is not installed") == (found["pymetis"].level, found["pymetis"].text)


def test_the_packages_that_the_project_needs_are_looked_at():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert set(requirements(project["dependencies"])) <= set(doctor.NEEDED)
    assert all(Level.OK is finding.level for finding in doctor.packages())


def test_penstock_that_is_not_installed_is_a_warning(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)

    assert ("penstock", Level.WARNING) == next((f.about, f.level) for f in doctor.packages())


@pytest.mark.parametrize(
    ("bounds", "version", "fits"),
    [
        ("", "1", True),
        (">=2.0,<3", "2.0", True),
        (">=2.0,<3", "2.0.1.post1", True),
        (">=2.0,<3", "1.99", False),
        (">=2.0,<3", "3.0.0", False),
        (">=2.10", "2.9", False),
        (">2", "2.0", False),
        ("<=2", "2.0", True),
        ("==2.1", "2.1.0", True),
        ("!=2.1", "2.1", False),
    ],
)
def test_versions_are_compared_as_numbers(bounds, version, fits):
    assert fits == accepts(bounds, version)


def test_a_folder_called_like_a_package_is_a_warning(tmp_path):
    (tmp_path / "sketches").mkdir()

    fine, *others = doctor.shadows(tmp_path)

    assert Level.OK is fine.level
    assert ["sketches is called like a package" in other.text for other in others] == [True]
    assert Level.WARNING is others[0].level


def test_packages_that_do_not_belong_together_are_a_problem(tmp_path, monkeypatch):
    def refuse():
        raise ImportError("another grouping")

    monkeypatch.setattr(doctor, "check_packages", refuse)

    assert (Level.PROBLEM, "another grouping") == (
        only(doctor.shadows(tmp_path)).level,
        only(doctor.shadows(tmp_path)).text,
    )


@pytest.mark.parametrize(
    ("free", "memory", "cores", "levels"),
    [
        (50, 16, 8, ["ok", "ok", "ok"]),
        (2, 3, 1, ["warning", "warning", "warning"]),
        (0.1, None, 2, ["ok", "ok", "problem"]),
    ],
)
def test_resources_are_told(monkeypatch, free, memory, cores, levels):
    usage = SimpleNamespace(free=free * (1 << 30))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(doctor, "available_memory", lambda: memory and memory * (1 << 30))
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)

    assert levels == [finding.level.value for finding in doctor.resources()]


def test_the_command_fails_if_there_is_a_problem(monkeypatch, capsys):
    found = [Finding(Level.OK, "a", "fine"), Finding(Level.WARNING, "b", "so so", "mend it")]
    monkeypatch.setattr(doctor, "examine", lambda environ, start: iter(found))

    assert 0 == main(["doctor"])
    assert "ok       a: fine\nwarning  b: so so; mend it\n" == capsys.readouterr().out

    found.append(Finding(Level.PROBLEM, "c", "bad", "replace it"))

    assert 1 == main(["doctor"])


def test_this_machine_is_examined_without_starting_spark(monkeypatch):
    monkeypatch.setattr(doctor, "session", lambda: iter([Finding(Level.OK, "session", "")]))

    about = [finding.about for finding in doctor.examine({"PATH": "/usr/bin"})]

    assert {"Python", "Java", "SPARK_HOME", "packages", "cores", "memory", "disk"} <= set(about)
    assert "session" not in about
    assert "session" == list(doctor.examine({"PATH": "/usr/bin"}, start=True))[-1].about
