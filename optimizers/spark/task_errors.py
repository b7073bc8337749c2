"""Errors of executors, raised on the driver with their own type."""

import re
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from optimizers import errors
from optimizers.errors import DeliveryError, PenstockError
from optimizers.package_guard import PACKAGES
from optimizers.runtime.task.user_errors import said

# The last line of a Python traceback: the class by its place, then the message.
_OURS = re.compile(rf"^(?:{'|'.join(PACKAGES)})\.errors\.(\w+): (.*)$", re.MULTILINE)
_NOTE = re.compile(r"^(at .+ in batch \d+)$", re.MULTILINE)

# What Spark says when tasks had to run again and wrote other bytes, though some of the first had
# been read. That is so whenever a machine is lost late in a batch: tasks tell how long they took.
_READ_ALREADY = "indeterminate output was failed and retried"

_LONGEST = 300  # characters of a reason
_DEEPEST = 20  # causes of causes

_AGAIN = (
    "tasks were lost, and ran again after some of their tuples had been read, so Spark gave the "
    "batch up; it is not committed and has to run again"
)


@contextmanager
def as_penstock_errors() -> Iterator[None]:
    """Raise an error of ours that an executor reported, instead of Spark's report of it.

    Spark wraps a task's error into one of its own, whose text has the whole traceback. If Spark
    gave up because tasks of a stage did not read the same data, that is a `DeliveryError`. All
    other errors pass unchanged.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as report:
        error = error_in(str(report))
        if error is None:
            raise
        raise error from report


@contextmanager
def causes_noted() -> Iterator[None]:
    """Add its causes to an error of ours on an executor, since Spark leaves them out.

    Other errors were not foreseen, and are told as one of ours, for the driver to say that in a
    line; but for those of machines: no memory, or a file or connection that fails.
    """
    try:
        yield
    except PenstockError as error:
        _add_causes(error)
        raise
    except (MemoryError, OSError, EOFError):
        raise
    except Exception as error:
        ours = PenstockError(f"{said(error)}; Penstock did not foresee this, please report it")
        ours.__cause__ = error
        for note in getattr(error, "__notes__", ()):
            ours.add_note(note)
        _add_causes(ours)
        raise ours from error


def _add_causes(error: PenstockError) -> None:
    if error.__cause__ is not None:
        # Indented, for `error_in` not to take it for the error.
        story = "".join(traceback.format_exception(error.__cause__))
        error.add_note(textwrap.indent(story, "    "))


def error_in(text: str) -> PenstockError | None:
    """Return the error of ours in a report of Spark; None if there is none."""
    found = _OURS.findall(text)
    if not found:
        return DeliveryError(_AGAIN) if _READ_ALREADY in text else None
    name, message = found[-1]
    kind = getattr(errors, name, PenstockError)
    if not (isinstance(kind, type) and issubclass(kind, PenstockError)):
        kind = PenstockError
    places = _NOTE.findall(text)
    where = f" ({places[-1]})" if places else ""
    try:
        return kind(message + where)
    except TypeError:  # one that is made of more than a message
        return PenstockError(f"{name}: {message}{where}")


def reason_of(report: Exception) -> str:
    """Return the essence of Spark's report in a line: the message of the innermost cause.

    >>> reason_of(ValueError("permission denied"))
    'permission denied'
    """
    cause: Any = getattr(report, "java_exception", None) or getattr(report, "_origin", None)
    text = str(report)
    for _ in range(_DEEPEST if cause is not None else 0):
        text = str(cause.getMessage() or cause.toString())
        inner = cause.getCause()
        if inner is None:
            break
        cause = inner
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
