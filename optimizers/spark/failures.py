"""Errors that happen on executors, told on the driver as what they are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from optimizers import errors
from optimizers.errors import DeliveryError, PenstockError
from optimizers.shadowing import PACKAGES

# The last line of a Python traceback: the class by its place, then the message.
_OURS = re.compile(rf"^(?:{'|'.join(PACKAGES)})\.errors\.(\w+): (.*)$", re.MULTILINE)
_NOTE = re.compile(r"^(at .+ in batch \d+)$", re.MULTILINE)

# What Spark says when tasks had to run again and wrote other bytes, though some of the first had
# been read. That is so whenever a machine is lost late in a batch: tasks tell how long they took.
_READ_ALREADY = "indeterminate output was failed and retried"

_AGAIN = (
    "tasks were lost, and ran again after some of their tuples had been read, so Spark gave the "
    "batch up; it is not committed and has to run again"
)


@contextmanager
def told_as_ours() -> Iterator[None]:
    """Raise an error of ours that an executor told of, in place of Spark's report of it.

    Spark wraps what a task raises into an error of its own whose text has the whole traceback.
    Where it gave up because not all tasks of a stage read the same, that is a `DeliveryError`.
    All else goes through as it is.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as report:
        error = error_in(str(report))
        if error is None:
            raise
        raise error from report


def error_in(text: str) -> PenstockError | None:
    """Return the error of ours that a report of Spark tells of; None if there is none."""
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
