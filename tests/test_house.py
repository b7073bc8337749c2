"""The house itself: what is on the top level, in the wheel, and on the import path."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import grouping
import optimizers
from grouping.groupings import GROUPINGS

ROOT = Path(__file__).parent.parent
PACKAGES = {"batching", "grouping", "optimizers", "sketches"}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)

    assert built.returncode == 0, built.stderr

    return next(folder.glob("penstock-*.whl"))


def test_the_top_level_holds_what_was_agreed_and_nothing_else():
    listed = run("git", "ls-files", cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout, so nothing tells our files from others")
    top = {line.partition("/")[0] for line in listed.stdout.splitlines()}

    agreed = PACKAGES | {"docs", "tests", "LICENSE", "README.md", "pyproject.toml"}

    assert agreed == {name for name in top if not name.startswith(".")}


def test_the_wheel_holds_the_four_packages_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}

    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)


def test_the_wheel_works_on_its_own(wheel, tmp_path):
    # -P keeps this folder off the import path, -S the installed (editable) Penstock.
    numpy_home = Path(np.__file__).parent.parent
    code = (
        f"import sys; sys.path[:0] = [{str(wheel)!r}, {str(numpy_home)!r}]\n"
        "import optimizers, optimizers.package_guard\n"
        "print(optimizers.package_guard.check_packages())"
    )
    tried = run(sys.executable, "-P", "-S", "-c", code, cwd=tmp_path)

    assert tried.stdout.strip() == str(wheel), tried.stderr


def test_importing_the_front_door_imports_no_engine_and_no_solver():
    heavy = ("datasketches", "pandas", "pulp", "py4j", "pyarrow", "pymetis", "pyspark")
    code = f"import optimizers, sys; print([n for n in {heavy!r} if n in sys.modules])"
    tried = run(sys.executable, "-c", code, cwd=ROOT)

    assert tried.stdout.strip() == "[]", tried.stderr


@pytest.mark.parametrize("package", sorted(PACKAGES - {"optimizers"}))
def test_a_folder_of_the_same_name_is_reported_and_not_used(tmp_path, package):
    stranger = tmp_path / package
    stranger.mkdir()
    (stranger / "__init__.py").write_text("mine = True\n")

    tried = run(sys.executable, "-c", "import optimizers", cwd=tmp_path)

    assert tried.returncode != 0
    assert f"its package {package!r} would be imported from {tmp_path}" in tried.stderr
    assert "rename" in tried.stderr


def test_the_version_is_the_same_everywhere():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    code = "import optimizers; print(optimizers.__version__)"

    assert declared is not None
    assert declared[1] == run(sys.executable, "-c", code, cwd=ROOT).stdout.strip()


def test_no_file_names_a_package_registry():
    listed = run("git", "ls-files", cwd=ROOT).stdout.split()
    # Put together from parts, so that this file may be searched too.
    marks = "|".join(("py" + "pi", "/sim" + "ple/", r"registry\." + "npm"))
    hosts = re.compile(rf"http[s]?://[^\s\"]*({marks})|index-" + "url", re.IGNORECASE)

    naming = [name for name in listed if hosts.search((ROOT / name).read_text("utf-8", "replace"))]

    assert naming == []


def test_the_ci_runs_the_test_command_of_the_readme():
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if "pytest" in line]
    ci = (ROOT / ".ci" / "run").read_text()

    # The first line that names pytest is the one that .ci/run picks out and runs.
    assert commands[0].startswith("python3 -m venv .venv && ")
    assert commands[0].endswith("pytest -n 3")
    assert "grep --max-count=1 pytest README.md" in ci
    assert "export" not in ci  # the command says the same without any


def test_every_folder_has_a_place_in_the_order_of_imports():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    folders = {path.parent.name for path in (ROOT / "optimizers").glob("*/__init__.py")}
    ordered = next(each for each in contracts["contracts"] if "containers" in each)["layers"]
    guarded = next(each for each in contracts["contracts"] if each["type"] == "protected")

    assert folders == {name for layer in ordered for name in layer.split(" | ")}
    assert folders == {name.removeprefix("optimizers.") for name in guarded["protected_modules"]}


def test_no_property_hides_inside_a_test():
    # `tests/search` would not find it, and go by the few examples of the tests.
    hidden = [
        f"{path.name}: {inner.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for outer in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(outer, ast.FunctionDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.FunctionDef) and inner is not outer
        for decorator in inner.decorator_list
        if ast.unparse(decorator).startswith(("given(", "hypothesis.given("))
    ]

    assert hidden == []


def test_a_name_for_arrays_means_one_type_everywhere():
    alias = re.compile(r"^(\w+)(?:: TypeAlias)? = NDArray\[", re.MULTILINE)
    ours = alias.findall((ROOT / "sketches" / "arrays.py").read_text("utf-8"))
    others = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]

    twice = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(others)
        if path.name != "arrays.py"
        for name in alias.findall(path.read_text("utf-8"))
        if name in {*ours, "Numbers"}
    ]

    assert "Floats" in ours
    assert twice == []


def test_the_front_door_has_every_grouping_and_only_the_errors_of_jobs_and_plans():
    groupings = {kind.__name__ for kind in GROUPINGS}
    classes = ((name, getattr(optimizers, name)) for name in optimizers.__all__)
    errors = {n for n, kind in classes if isinstance(kind, type) and issubclass(kind, Exception)}

    assert {"Aeolus", "Albic", "Locality", "Osg"} <= set(optimizers.__all__)
    assert groupings <= set(optimizers.__all__)
    assert groupings <= set(grouping.__all__)
    assert {"PenstockError", "PlanConflictError", "PlanError", "TopologyError"} == errors


def test_all_that_statistics_hold_is_at_the_front_door():
    exported = [value for value in vars(optimizers).values() if isinstance(value, type)]
    ours = {
        kind
        for kind in held_by(optimizers.Statistics)
        if kind.__module__.partition(".")[0] == "optimizers"
    }

    assert optimizers.Execution in ours
    assert set() == {kind.__name__ for kind in ours} - {kind.__name__ for kind in exported}


def held_by(kind):
    """Return the classes that the annotations of a dataclass name, however deep."""
    waiting, found = list(get_type_hints(kind).values()), set()
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        found |= {hint} if isinstance(hint, type) else set()
    return found


def test_every_name_that_a_package_exports_is_there():
    exporting = {
        path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in sorted(PACKAGES)
        for path in sorted((ROOT / package).rglob("*.py"))
        if "\n__all__ = " in path.read_text("utf-8")
    }
    modules = {name: importlib.import_module(name) for name in exporting.values()}

    missing = [
        f"{name}: {export}"
        for name, module in modules.items()
        for export in module.__all__
        if not hasattr(module, export)
    ]

    assert {"grouping", "optimizers", "sketches"} <= set(modules)
    assert missing == []


DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_the_files_and_modules_that_a_page_names_are_there(page):
    if page.name == "changelog.md":
        pytest.skip("it tells of what was there once")
    text = page.read_text("utf-8")
    paths = set(
        re.findall(r"(?<![\w./])((?:\.ci|docs|tests|" + "|".join(PACKAGES) + r")/[\w./-]+)", text)
    )
    modules = set(
        re.findall(r"\b(?:from|import) ((?:" + "|".join(PACKAGES) + r")(?:\.\w+)*)", text)
    )
    named = {path.rstrip("./") for path in paths}
    named |= {module.replace(".", "/") for module in modules}

    missing = {name for name in named if not any(there(name))}

    assert set() == missing


def there(name):
    """Yield whether a path is there, as a file or folder or as a module without its ending."""
    yield (ROOT / name).exists()
    yield (ROOT / f"{name}.py").exists()
