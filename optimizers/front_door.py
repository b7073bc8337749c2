"""The front door: what an error of ours looks like to those who call Penstock.

They see their own lines, one sentence and the remedy. What led to it, through Penstock, Spark and
Java, goes to a file that the error names. Where ``PENSTOCK_DEBUG`` is set to 1, errors come as they
are, with all of that.
"""

import functools
import os
import threading
import traceback
from collections.abc import Callable
from tempfile import NamedTemporaryFile
from typing import ParamSpec, TypeVar

from optimizers.errors import PenstockError

DEBUG = "PENSTOCK_DEBUG"
"""The environment variable that has errors shown with all that led to them."""

_TOLD = "_penstock_told"  # marks errors that are as users are to see them

P = ParamSpec("P")
R = TypeVar("R")


def is_debugging() -> bool:
    """Return whether errors are to be shown with all that led to them."""
    return os.environ.get(DEBUG, "") not in {"", "0"}


class _Inside(threading.local):
    """How many doors the thread at hand has come through."""

    doors = 0


_inside = _Inside()


def front_door(function: Callable[P, R]) -> Callable[P, R]:
    """Let errors of ours leave a function as users are to see them.

    Only the outermost of several doors does so. All other errors go through as they are.

    >>> @front_door
    ... def spread(partitions):
    ...     raise PenstockError(f"partitions={partitions} is less than 1; give 1 or more")
    >>> try:
    ...     spread(0)
    ... except PenstockError as error:
    ...     print(len(traceback.extract_tb(error.__traceback__)), error)
    2 partitions=0 is less than 1; give 1 or more
    """

    @functools.wraps(function)
    def through(*args: P.args, **kwargs: P.kwargs) -> R:
        _inside.doors += 1
        try:
            return function(*args, **kwargs)
        except PenstockError as error:
            if _inside.doors > 1 or is_debugging():
                raise
            short = told_shortly(error)
        finally:
            _inside.doors -= 1
        raise short  # for what led to it, set PENSTOCK_DEBUG=1

    return through


def told_shortly(error: PenstockError) -> PenstockError:
    """Return an error without what led to it, which is in a file that it names.

    The error that it came of can still be had, as its ``__context__``.
    """
    cause = error.__cause__
    if cause is not None and not getattr(error, _TOLD, False):
        error.add_note(_kept("".join(traceback.format_exception(error))))
        error.__context__, error.__cause__ = cause, None
    setattr(error, _TOLD, True)
    error.__suppress_context__ = True
    return error.with_traceback(None)


def _kept(story: str) -> str:
    """Keep what led to an error, and return where it is."""
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", prefix="penstock-error-", suffix=".txt", delete=False
        ) as file:
            file.write(story)
    except OSError as refused:
        return f"what led to it could not be kept ({refused}); set {DEBUG}=1 to see it"
    return f"what led to it is in {file.name}; set {DEBUG}=1 to see it at once"
