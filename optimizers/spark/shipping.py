"""Shipping Penstock to the executors, so that a cluster needs only Spark and its Python."""

import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import WeakKeyDictionary, finalize

from pyspark import SparkContext

from optimizers.errors import MissingPackageError
from optimizers.package_guard import PACKAGES, check_packages

_SUFFIXES = {".py", ".typed"}

# The version that was sent to each context, as long as that is there.
_SHIPPED: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


def archive(folder: Path) -> Path:
    """Write the four packages into an archive that Python can import from, and return its path.

    Equal code gives equal bytes, at any time and place.
    """
    home = check_packages()
    path = folder / f"penstock-{asking()(0)}.zip"
    files = sorted(
        file
        for package in PACKAGES
        for file in (home / package).rglob("*")
        if file.suffix in _SUFFIXES and file.is_file()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(home).as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, file.read_bytes())
    return path


def ship(context: SparkContext) -> None:
    """Make executors import Penstock from here, unless they do already.

    Raises:
        MissingPackageError: an executor cannot import it, or lacks a package it needs.
        ImportError: another package of the same name is imported there.
    """
    if context in _SHIPPED:
        return
    if not is_local(context):
        path = list(sys.path)
        folder = mkdtemp(prefix="penstock-")  # executors fetch from it as long as they come
        finalize(context, rmtree, folder, ignore_errors=True)
        context.addPyFile(str(archive(Path(folder))))
        sys.path[:] = path  # the driver goes on importing from where it did
    here = asking()(0)
    found = context.parallelize([0], 1).map(asking()).collect()[0]
    if found != here:
        raise MissingPackageError(
            f"executors cannot use Penstock {here}: {found}; give them the driver's Python "
            "(PYSPARK_PYTHON), with numpy, pyarrow, pandas, pymetis and datasketches"
        )
    _SHIPPED[context] = here


def is_local(context: SparkContext) -> bool:
    """Return whether tasks run beside the driver, with its Python."""
    return str(context.master).startswith("local") and not str(context.master).startswith(
        "local-cluster"
    )


def asking() -> Callable[[int], str]:
    """Return a function that returns the version that an executor imports, or why it cannot.

    It is pickled by value, so it arrives even where there is no Penstock.
    """

    def version_there(_: int) -> str:
        try:
            import_module("optimizers.runtime.task.task")
            return str(import_module("optimizers").__version__)
        except ImportError as error:
            return f"{type(error).__name__}: {error}"

    return version_there
