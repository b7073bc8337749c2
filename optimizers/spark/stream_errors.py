"""Errors that end a stream: Spark gets one line, and `wait()` raises the error itself.

Python passes an error to Spark as text, and Spark wraps that text three times. So Spark gets one
line, and the error itself is kept in this process.
"""

import logging
import re

from optimizers.error_boundary import is_debugging
from optimizers.errors import PenstockError
from optimizers.runtime.task.user_errors import said

# By these Spark recognises that a batch was only interrupted, by the stop of its query.
_INTERRUPTED = re.compile(
    r"InterruptedException|InterruptedIOException|ClosedByInterruptException|cancelled job group"
)


class BatchFailedError(PenstockError):
    """The line that Spark gets for an error that ended a batch."""


def is_interruption(error: BaseException) -> bool:
    """Return whether an error only says that the query was stopped during a batch."""
    return not isinstance(error, PenstockError) and bool(_INTERRUPTED.search(str(error)))


def as_batch_failed(error: BaseException) -> BatchFailedError:
    """Return in one line what Spark gets for an error.

    For an interruption, it has the words by which Spark recognises one. Spark searches for them
    with an expression that overflows Java's stack if there is much text between them.

    >>> as_batch_failed(ValueError("x must  be  positive"))
    BatchFailedError('ValueError: x must be positive')
    """
    if is_interruption(error):
        return BatchFailedError(
            "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: "
            "java.lang.InterruptedException"
        )
    return BatchFailedError(said(error))


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether py4j logs something other than the line for Spark."""
    error = record.exc_info[1] if record.exc_info else None
    return is_debugging() or not isinstance(error, BatchFailedError)


# It is reported already; py4j would log it once more with lines of its own.
logging.getLogger("py4j.clientserver").addFilter(_is_news)
