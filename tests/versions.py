"""Try the oldest and the newest versions that pyproject.toml allows: ``python tests/versions.py``.

For each Python there is one environment with the oldest version of everything (as far as there is
one for this Python) and others with the pinned versions and one release of Spark. In each of them
the fast tests run, a few tests on Spark of what its releases do in different ways, and a comparison
on Spark of a small size. The end is a table; the exit code is 1 if anything in it failed.

    python tests/versions.py --pythons 3.12 3.13 --only oldest --keep /tmp/versions
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13")
SPARKS = ("4.1", "4.2", "4.3")
OLDEST = "oldest"
REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(\[[^]]*\])?>=([0-9.]+)(?:,<([0-9.]+))?")
# What takes no part in a run of the tests. Each wants versions of its own of what we need.
TOOLS = {"import-linter", "mypy", "ruff"}
TESTS = ("-m", "pytest", "-q", "-n", "2", "-m", "not spark", "--ignore=tests/test_benchmarks.py")
ON_SPARK = (
    *("-m", "pytest", "-q", "-m", "spark"),
    # PySpark 4.1 leaves it to the garbage collector to close sockets.
    *("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
    *(
        f"tests/optimizers/spark/{name}.py"
        for name in ("test_inflow_on_spark", "test_streaming", "test_machines", "test_batch_times")
    ),
)
COMPARE = ("compare", "--batches", "4", "--every", "2", "--scale", "0.05")


KINDS = ("tests", "spark", "compare")


@dataclass(frozen=True)
class Bounds:
    """Which versions of a package are allowed, and with which extras it is installed."""

    name: str
    extras: str
    lowest: tuple[int, ...]
    below: tuple[int, ...] | None

    def allow(self, version: tuple[int, ...]) -> bool:
        """Return whether a version is between them."""
        return self.lowest <= version and (self.below is None or version < self.below)


def numbers(version: str) -> tuple[int, ...]:
    """Return a release as numbers that can be compared: 2.0 and 2.0.0 are one."""
    found = [int(part) for part in version.split(".")]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


def bounds() -> list[Bounds]:
    """Return the bounds of everything that a run of the tests needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *(text for extra in extras.values() for text in extra)]
    matched = [REQUIREMENT.match(text.replace(" ", "")) for text in declared]
    return [
        Bounds(found[1], found[2] or "", numbers(found[3]), numbers(found[4]) if found[4] else None)
        for found in matched
        if found and found[1] not in TOOLS
    ]


def interpreter(version: str) -> str | None:
    """Return the path of a Python that says it is this one; None if there is none."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(home.glob(f"{version}.*/bin/python{version}"))
    for path in (shutil.which(f"python{version}"), *map(str, reversed(installed))):
        code = "import sys; print('{}.{}'.format(*sys.version_info[:2]))"
        if path and said(path, "-c", code).strip() == version:
            return path
    return None


def said(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def available(python: Path, name: str) -> list[str]:
    """Return the releases of a package that can be had for this Python, oldest first."""
    # No release is older than none: the refusal names those that there are.
    command = [str(python), "-m", "pip", "install", "--dry-run", "--no-deps", f"{name}<0"]
    if name != "pyspark":  # which comes as source only, for any Python
        command += ["--only-binary", ":all:"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = re.search(r"\(from versions: (.*)\)", tried.stderr)
    versions = listed[1].split(", ") if listed else []
    return sorted((each for each in versions if re.fullmatch(r"[0-9.]+", each)), key=numbers)


def oldest(python: Path, every: Sequence[Bounds]) -> dict[str, str]:
    """Return the oldest release of each package within its bounds."""
    chosen = {}
    for each in every:
        fitting = [text for text in available(python, each.name) if each.allow(numbers(text))]
        if not fitting:
            raise SystemExit(f"there is no {each.name} within the bounds in pyproject.toml")
        chosen[each.name] = fitting[0]
    return chosen


@dataclass(frozen=True)
class Setting:
    """One environment: a Python, and either the oldest of everything or pins and one Spark."""

    python: str
    kind: str

    def __str__(self) -> str:
        return f"{self.python}-{self.kind}"

    def constraints(self, python: Path) -> list[str]:
        """Return the versions to install."""
        pins = dict(line.split("==") for line in PINS.read_text().splitlines() if "==" in line)
        if self.kind != OLDEST:
            del pins["py4j"]
            return [f"{n}=={v}" for n, v in pins.items() if n != "pyspark"] + [
                f"pyspark=={self.kind}.*"
            ]
        return [f"{n}=={v}" for n, v in oldest(python, bounds()).items()]


def settings() -> Iterator[Setting]:
    """Every Python with the oldest, and with each Spark."""
    for python in PYTHONS:
        for kind in (OLDEST, *SPARKS):
            yield Setting(python, kind)


def installed(setting: Setting, python: str, folder: Path) -> Path:
    """Build an environment, and return its Python."""
    home = folder / str(setting)
    subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True)
    here = home / "bin" / "python"
    listed = home / "constraints.txt"
    listed.write_text("\n".join(setting.constraints(here)) + "\n", "utf-8")
    command = [str(here), "-m", "pip", "install", "-q", "-c", str(listed), "-e", str(ROOT)]
    subprocess.run([*command, *(each.name + each.extras for each in bounds())], check=True)
    return here


def tried(command: Sequence[str], log: Path, prefix: Sequence[str]) -> str:
    """Run a command; return how it ended, in few words."""
    started = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            [*prefix, *command], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    lines = log.read_text("utf-8", "replace").splitlines()
    last = re.search(r"\d+ (failed|passed).*?(?= in )", lines[-1] if lines else "")
    words = last[0] if last else "done" if done.returncode == 0 else f"exit {done.returncode}"
    mark = "" if done.returncode == 0 else "FAILED: "
    return f"{mark}{words} ({time.monotonic() - started:.0f} s)"


def run(setting: Setting, folder: Path, prefix: Sequence[str]) -> dict[str, str]:
    """Install and try one setting."""
    python = interpreter(setting.python)
    if python is None:
        return {"tests": f"FAILED: there is no python{setting.python}; install it"}
    try:
        here = installed(setting, python, folder)
    except subprocess.CalledProcessError as error:
        return {"tests": f"FAILED: it cannot be installed ({error.returncode})"}
    commands = {
        "tests": [str(here), *TESTS],
        "spark": [str(here), *ON_SPARK],
        "compare": [str(here.parent / "penstock"), *COMPARE],
    }
    return {
        kind: tried(command, folder / f"{setting}-{kind}.txt", prefix)
        for kind, command in commands.items()
    }


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Try all settings, print a table and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, choices=PYTHONS)
    parser.add_argument("--only", nargs="+", choices=(OLDEST, *SPARKS), default=(OLDEST, *SPARKS))
    parser.add_argument("--keep", type=Path, help="keep environments and logs in this folder")
    parser.add_argument("--prefix", default="", help="a command to run the tests with, like nice")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for setting in settings():
            if setting.python in options.pythons and setting.kind in options.only:
                rows.append((setting, run(setting, folder, options.prefix.split())))
                say(f"{rows[-1][0]}: {rows[-1][1]}")
    say("\n| versions | fast tests | some on Spark | compare |\n| --- | --- | --- | --- |")
    for setting, found in rows:
        say(f"| {setting} | {' | '.join(found.get(kind, '') for kind in KINDS)} |")
    return 1 if any("FAILED" in text for _, found in rows for text in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
