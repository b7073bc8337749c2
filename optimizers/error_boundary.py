"""How errors of Penstock look to its users.

They see their own lines, one sentence and the remedy. The traceback through Penstock, Spark and
Java goes to a file that the error names. If ``PENSTOCK_DEBUG`` is set to 1, errors come unchanged,
with their whole traceback.
"""

import contextlib
import dataclasses
import functools
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import ParamSpec, TypeVar

from optimizers.errors import PenstockError
from optimizers.package_guard import PACKAGES

DEBUG = "PENSTOCK_DEBUG"
"""The environment variable that has errors shown with their whole traceback."""

_HOME = Path(__file__).parent.parent

OURS = tuple(f"{_HOME / package}/" for package in PACKAGES)
"""How the names of the files of Penstock begin."""

_LONGEST = 500  # characters of a message that others wrote

_LIBRARIES = ("numpy", "pandas", "pyarrow", "pyspark", "pymetis")

_SPARKS = ("/pyspark/", "/py4j/")  # what is in the names of Spark's

_BETWEEN = (contextlib.__file__, dataclasses.__file__)  # what is between our lines
_MADE = ("<string>", "__init__")  # the same: of a dataclass

P = ParamSpec("P")
R = TypeVar("R")


def is_debugging() -> bool:
    """Return whether errors are to be shown with their whole traceback."""
    return os.environ.get(DEBUG, "") not in {"", "0"}


@contextlib.contextmanager
def showing_all() -> Iterator[None]:
    """Show errors with their whole traceback meanwhile."""
    before = os.environ.get(DEBUG)
    os.environ[DEBUG] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[DEBUG]
        else:
            os.environ[DEBUG] = before


def front_door(function: Callable[P, R]) -> Callable[P, R]:
    """Let errors leave a function as users are to see them.

    Our own errors lose the lines of Penstock and Spark, and their causes; errors of a user's
    function lose those lines. All other errors pass unchanged.

    >>> @front_door
    ... def spread(partitions):
    ...     raise PenstockError(f"partitions={partitions} is less than 1; give 1 or more")
    >>> spread(0)
    Traceback (most recent call last):
    sketches.errors.PenstockError: partitions=0 is less than 1; give 1 or more
    """

    @functools.wraps(function)
    def through(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if is_debugging():
                raise
            if isinstance(error, PenstockError):
                short: Exception = shortened(error)
            elif _is_theirs(error):
                short = error.with_traceback(_their_lines(error))
            else:
                raise
        raise short  # for the whole traceback, set PENSTOCK_DEBUG=1

    return through


def shortened(error: PenstockError) -> PenstockError:
    """Return an error without its traceback, which is in a file that the error names.

    The original error is still its ``__context__``.
    """
    cause = error.__cause__
    if cause is not None:
        error.add_note(_kept("".join(traceback.format_exception(error))))
        error.__context__, error.__cause__ = cause, None
    error.__suppress_context__ = True
    return error.with_traceback(_their_lines(error))


def unforeseen(error: Exception) -> PenstockError:
    """Return in one line an error that Penstock should not have raised; the rest is in a file."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    found = PenstockError(f"{text[:_LONGEST]}; Penstock did not foresee this, please report it")
    found.__cause__ = error
    return shortened(found)


def _is_theirs(error: Exception) -> bool:
    """Return whether the innermost line that led to an error is neither ours nor Spark's."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    return innermost is not None and not _is_noise(innermost)


def _their_lines(error: Exception) -> TracebackType | None:
    """Return the lines that led to an error, without ours and Spark's."""
    lines = []
    line = error.__traceback__
    while line is not None:
        lines.append(line)
        line = line.tb_next
    theirs: TracebackType | None = None
    for line in reversed(lines):
        if not _is_noise(line):
            theirs = TracebackType(theirs, line.tb_frame, line.tb_lasti, line.tb_lineno)
    return theirs


def _is_noise(line: TracebackType) -> bool:
    code = line.tb_frame.f_code
    file = code.co_filename
    if file in _BETWEEN or (file, code.co_name) == _MADE:
        return True
    return file.startswith(OURS) or any(part in file for part in _SPARKS)


def was_called(error: Exception) -> bool:
    """Return whether an error was raised in a user's function, or in code that it called.

    If not, our own code failed, or a library that we called.
    """
    own = [frame.filename for frame in _frames(error) if not _is_of_library(frame.filename)]
    return bool(own) and not own[-1].startswith(OURS)


def place_of(error: Exception) -> str:
    """Return the innermost line that led to an error in the file of the user's function.

    Empty if no function of the user's was called.
    """
    theirs = [
        frame
        for frame in _frames(error)
        if not frame.filename.startswith(OURS) and not _is_of_library(frame.filename)
    ]
    if not theirs:
        return ""
    line = [frame for frame in theirs if frame.filename == theirs[0].filename][-1]
    return f"{line.filename}:{line.lineno} in {line.name}"


def _frames(error: Exception) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _is_of_library(file: str) -> bool:
    """Return whether a file is of a library that we call ourselves."""
    return any(f"/{name}/" in f"/{file}" for name in _LIBRARIES)


def _kept(story: str) -> str:
    """Write the traceback of an error to a file, and return its path."""
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", prefix="penstock-error-", suffix=".txt", delete=False
        ) as file:
            file.write(story)
    except OSError as refused:
        return f"what led to it could not be kept ({refused}); set {DEBUG}=1 to see it"
    return f"what led to it is in {file.name}; set {DEBUG}=1 to see it at once"
