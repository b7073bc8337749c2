"""Sinks for the output of jobs: ready functions for ``each_batch``.

Each gets the rows of a batch and its number. A batch may be handed out again, with the same number
and the same rows, after a crash or as another driver goes on; these sinks then replace what they
wrote. One that can only append sends the number along.
"""

import os
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from optimizers.errors import InvalidValueError, SinkError
from optimizers.spark.hadoop import folder_in
from optimizers.spark.muted_logs import muted
from optimizers.spark.task_errors import reason_of


@dataclass(frozen=True)
class ToParquet:
    """Writes each batch into a folder of its own, ``batch=7`` and so on, under one path.

    Spark reads the path as one table with a column ``batch``.

    Attributes:
        path: the folder.
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        given: Any = self.path
        if not isinstance(given, str | os.PathLike) or not os.fspath(given):
            raise InvalidValueError(f"path={self.path!r} is not a folder; give its path or its URI")
        object.__setattr__(self, "path", os.fspath(self.path))

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, replacing what may be there of it.

        Raises:
            SinkError: it cannot be written there.
        """
        folder = f"{folder_in(rows.sparkSession, str(self.path)).rstrip('/')}/batch={batch}"
        try:
            with muted(rows.sparkSession, writing=True):
                rows.write.mode("overwrite").parquet(folder)
        except (PySparkException, Py4JJavaError) as error:
            raise SinkError(
                f"batch {batch} cannot be written to {folder}: {reason_of(error)}; see to it, or "
                "give another path, and start again: the batch is done and is handed out again"
            ) from error
