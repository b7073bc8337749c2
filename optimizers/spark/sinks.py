"""Where what leaves a job may go: ready functions for ``each_batch``.

Each gets the rows of a batch and its number. After a crash a batch may be handed out again, with
the same number and the same rows; these sinks then replace what they wrote.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ToParquet:
    """Writes each batch into a folder of its own, ``batch=7`` and so on, under one path.

    Spark reads the path as one table with a column ``batch``.

    Attributes:
        path: where to.
    """

    path: str

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, in place of what may be there of it."""
        rows.write.mode("overwrite").parquet(f"{self.path.rstrip('/')}/batch={batch}")


@dataclass(frozen=True)
class ToConsole:
    """Prints the first rows of each batch.

    Attributes:
        rows: how many.
    """

    rows: int = 20

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Print a batch."""
        print(f"batch {batch}")  # noqa: T201  # what it is for
        rows.show(self.rows, truncate=False)
