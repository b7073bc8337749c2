"""`penstock doctor`: whether this machine has what Penstock needs, and what to do if not."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from time import perf_counter

from optimizers.errors import PenstockError
from optimizers.package_guard import PACKAGES, check_packages

NEEDED = ("numpy", "pyarrow", "pandas", "pyspark", "datasketches", "pymetis", "pulp", "rich")
"""The packages whose versions are checked."""

JAVA = (17, 21)
"""The versions of Java that Spark 4 supports."""

_GB = 1 << 30
_PATIENCE = 20  # seconds for a program to tell its version


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        level: how serious it is.
        about: what was checked.
        text: what was found.
        remedy: what to do; empty where nothing has to be done.
    """

    level: Level
    about: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level.value:8} {self.about}: {self.text}{remedy}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--start", action="store_true", help="also try to start Spark")


def run(options: argparse.Namespace) -> int:
    """Print all findings, and return the exit code: 1 if one is a problem."""
    worst = 0
    for finding in examine(os.environ, start=options.start):
        print(finding, flush=True)
        worst = max(worst, finding.level is Level.PROBLEM)
    return worst


def examine(environ: Mapping[str, str], *, start: bool = False) -> Iterator[Finding]:
    """Check everything, and yield the findings.

    Args:
        environ: the environment variables.
        start: whether to try if a session of Spark starts, which takes some seconds.
    """
    yield from python()
    yield from packages()
    yield from java(environ)
    yield from spark_home(environ)
    yield from worker_python(environ)
    yield from shadows(Path.cwd())
    yield from resources()
    if start:
        yield from session()


def python() -> Iterator[Finding]:
    """Report the version of Python; one that is too old would not have come this far."""
    yield Finding(Level.OK, "Python", f"{sys.version.split()[0]}, {sys.executable}")


def packages() -> Iterator[Finding]:
    """Check that packages have versions that Penstock supports."""
    try:
        wanted = requirements(metadata.requires("penstock") or [])
    except metadata.PackageNotFoundError:
        wanted = {}
        yield Finding(
            Level.WARNING,
            "penstock",
            "is not installed, so it is not known which versions it needs",
            "install it with pip",
        )
    for name in NEEDED:
        bounds = wanted.get(name, "")
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(Level.PROBLEM, name, "is not installed", f"pip install '{name}{bounds}'")
            continue
        if accepts(bounds, version):
            yield Finding(Level.OK, name, version)
        else:
            remedy = f"pip install '{name}{bounds}'"
            yield Finding(Level.PROBLEM, name, f"{version}, where {bounds} is needed", remedy)


def java(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Find the Java that Spark would use."""
    remedy = "install a JDK 17 or 21 (on Debian: apt install openjdk-17-jre-headless)"
    home = environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            text = f"JAVA_HOME={home!r} has no bin/java"
            yield Finding(Level.PROBLEM, "Java", text, "correct or unset it")
            return
    else:
        found = shutil.which("java", path=environ.get("PATH"))
        if found is None:
            yield Finding(Level.PROBLEM, "Java", "there is none on the PATH", remedy)
            return
        program = Path(found)
    version = java_version(program)
    if version is None:
        yield Finding(Level.PROBLEM, "Java", f"{program} does not tell its version", remedy)
    elif version in JAVA:
        yield Finding(Level.OK, "Java", f"{version}, {program}")
    elif version < min(JAVA):
        yield Finding(Level.PROBLEM, "Java", f"{program} is version {version}", remedy)
    else:
        text = f"{program} is version {version}, which Spark was not made for"
        yield Finding(Level.WARNING, "Java", text, remedy)


def spark_home(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check whether SPARK_HOME names another Spark than the one that pyspark brings."""
    home = environ.get("SPARK_HOME")
    if home is None:
        yield Finding(Level.OK, "SPARK_HOME", "not set: Spark is the one that pyspark brings")
    elif not home:
        yield Finding(
            Level.WARNING,
            "SPARK_HOME",
            "is set to nothing, which keeps Spark from starting where Penstock does not start it",
            "unset SPARK_HOME",
        )
    elif not (Path(home) / "bin" / "spark-submit").is_file():
        text = f"{home!r} has no bin/spark-submit"
        yield Finding(Level.PROBLEM, "SPARK_HOME", text, "correct or unset it")
    else:
        text = f"{home!r} is used in place of the Spark that pyspark brings"
        remedy = "see that both are of one version, or unset it"
        yield Finding(Level.WARNING, "SPARK_HOME", text, remedy)


def worker_python(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check whether workers would run another Python than this one."""
    name = environ.get("PYSPARK_PYTHON")
    if not name:
        return
    program = shutil.which(name, path=environ.get("PATH"))
    here = "{}.{}".format(*sys.version_info[:2])
    code = "import sys; print('{}.{}'.format(*sys.version_info[:2]))"
    there = None if program is None else _output(program, "-c", code)
    if there is None:
        text = f"{name!r} is no Python that can be started"
        yield Finding(Level.PROBLEM, "PYSPARK_PYTHON", text, "correct or unset it")
    elif there.strip() != here:
        text = f"{name!r} is Python {there.strip()}, and this is {here}"
        yield Finding(Level.PROBLEM, "PYSPARK_PYTHON", text, "correct or unset it")
    else:
        yield Finding(Level.OK, "PYSPARK_PYTHON", name)


def shadows(folder: Path) -> Iterator[Finding]:
    """Find folders that would be imported instead of Penstock's packages."""
    try:
        home = check_packages()
    except ImportError as error:
        yield Finding(Level.PROBLEM, "packages", str(error))
        return
    yield Finding(Level.OK, "packages", f"all four are in {home}")
    for name in PACKAGES:
        other = folder / name
        if other.is_dir() and other.resolve() != (home / name).resolve():
            text = f"{other} is called like a package of Penstock"
            remedy = "rename it, or Python started there may import it in place of ours"
            yield Finding(Level.WARNING, "packages", text, remedy)


def resources() -> Iterator[Finding]:
    """Check cores, memory and room for files."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    few = not cores or cores < 2
    level = Level.WARNING if few else Level.OK
    yield Finding(level, "cores", str(cores), "give it two or more" if few else "")
    memory = available_memory()
    if memory is None:
        yield Finding(Level.OK, "memory", "not known on this system")
    else:
        little = memory < 4 * _GB
        level = Level.WARNING if little else Level.OK
        remedy = "a local session takes 2 GB; give it less by local_session(memory=...)"
        yield Finding(level, "memory", f"{memory / _GB:.1f} GB", remedy if little else "")
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    level = Level.PROBLEM if free < _GB // 2 else Level.WARNING if free < 5 * _GB else Level.OK
    remedy = "" if level is Level.OK else "free some, or set TMPDIR to a larger disk"
    yield Finding(level, "disk", f"{free / _GB:.1f} GB free in {folder}", remedy)


def session() -> Iterator[Finding]:
    """Check that Spark starts, and can run a Python function."""
    started = perf_counter()
    try:
        # Only here: all else is checked without Spark.
        from optimizers.spark.command_session import command_session  # noqa: PLC0415

        with command_session(1) as spark:
            count = spark.range(4).mapInArrow(lambda batches: batches, "id long").count()
            version = spark.version
    except (PenstockError, ImportError) as error:
        yield Finding(Level.PROBLEM, "session", str(error))
    except Exception as error:  # noqa: BLE001  # any error is what is looked for
        notes = "; ".join(getattr(error, "__notes__", ()))
        yield Finding(Level.PROBLEM, "session", f"{error} {notes}", "see what it says there")
    else:
        seconds = perf_counter() - started
        if count == 4:
            yield Finding(Level.OK, "session", f"Spark {version} started in {seconds:.0f} s")
        else:
            text = f"Spark {version} returned {count} of 4 rows"
            yield Finding(Level.PROBLEM, "session", text, "reinstall pyspark")


def requirements(lines: list[str]) -> dict[str, str]:
    """Return the bounds of the versions that a package needs of others.

    >>> requirements(["numpy<3,>=2.0", "pytest>=8; extra == 'dev'"])
    {'numpy': '<3,>=2.0'}
    """
    found = {}
    for line in lines:
        wanted, _, condition = line.partition(";")
        name = re.match(r"[\w.-]+", wanted)
        if name and "extra" not in condition:
            found[name[0].lower()] = wanted[name.end() :].strip(" ()")
    return found


def accepts(bounds: str, version: str) -> bool:
    """Return whether a version is within bounds.

    >>> accepts("<3,>=2.0", "2.4.6"), accepts("<3,>=2.0", "3.0"), accepts(">=2,<3", "3.0rc1")
    (True, False, False)
    """
    mine = _numbers(version)
    for sign, bound in re.findall(r"(<=|>=|==|!=|<|>)\s*([\d.]+)", bounds):
        theirs = _numbers(bound)
        length = max(len(mine), len(theirs))
        here, there = ([*numbers, *[0] * (length - len(numbers))] for numbers in (mine, theirs))
        fits = {
            "<": here < there,
            "<=": here <= there,
            ">": here > there,
            ">=": here >= there,
            "==": here == there,
            "!=": here != there,
        }
        if not fits[sign]:
            return False
    return True


def java_version(program: Path) -> int | None:
    """Return the feature version of a Java, such as 17; None if it is not known."""
    printed = _output(str(program), "-version")
    version = re.search(r'version "(\d+)(?:\.(\d+))?', printed or "")
    if version is None:
        return None
    # Java 8 called itself 1.8.
    return int(version[2] or 0) if version[1] == "1" else int(version[1])


def available_memory() -> int | None:
    """Return how many bytes of memory there are for this process; None if it is not known."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        return min(memory, int(text))
    return memory


def _numbers(version: str) -> list[int]:
    """Return the numbers that a version begins with."""
    release = re.match(r"\d+(\.\d+)*", version)
    return [int(number) for number in release[0].split(".")] if release else []


def _output(*command: str) -> str | None:
    """Return the output of a program; None if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603  # programs that the environment names, no shell
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout + done.stderr
