"""A batch that must not run any more, because its query is being stopped."""

import logging
from typing import Any, NoReturn

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from optimizers.spark.stream_errors import BatchFailedError, as_batch_failed

_LONG = 60_000  # milliseconds of a sleep that is to be interrupted


class StoppedError(BatchFailedError):
    """The query was stopped while its next batch was kept from beginning."""


class _WithoutStops(logging.Filter):
    """Keeps the stop of a query from being logged as a failure."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], StoppedError))


_WITHOUT_STOPS = _WithoutStops()


def be_stopped(rows: DataFrame) -> NoReturn:
    """Keep a query from going on until it is stopped.

    Returning would tell Spark that the batch is done. So this sleeps in Spark's thread of the
    query, which Spark interrupts to stop it, and then raises.

    Args:
        rows: the rows of the batch that must not run.
    """
    logging.getLogger("py4j.clientserver").addFilter(
        _WITHOUT_STOPS
    )  # once, however often it is added
    java: Any = rows.sparkSession.sparkContext._jvm  # noqa: SLF001  # PySpark has no other way
    try:
        while True:
            java.java.lang.Thread.sleep(_LONG)
    except Py4JJavaError as error:
        raise StoppedError(str(as_batch_failed(error))) from None
