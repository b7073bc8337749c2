"""The output of a job in a batch, as DataFrames, and the functions that get it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from optimizers.errors import CheckpointError, FoldError, InvalidValueError, UnknownNameError
from optimizers.operators import OnError
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.output_file import OutputFile
from optimizers.topology import Topology

OPERATOR = "operator"
"""The column that tells rows of several operators apart."""

Sink: TypeAlias = Callable[[DataFrame, int], None]
"""Gets the job's output of a batch, and the batch's number."""

Sinks: TypeAlias = Sink | Mapping[str, Sink]
"""One function for all output, or one for each operator by its name."""

_PATTERN = re.compile(r"([\[\]{}*?\\])")


@dataclass(frozen=True)
class OutputHandlers:
    """The functions that get a job's output, and its bad rows.

    Attributes:
        topology: the job.
        each_batch: gets the output of operators that feed no other.
        each_aside: gets the bad rows of operators that hand them aside.
    """

    topology: Topology
    each_batch: Sinks | None = None
    each_aside: Sinks | None = None

    def __post_init__(self) -> None:
        check_sinks(self.each_batch, self.final, "each_batch")
        check_sinks(self.each_aside, self.aside, "each_aside")

    @property
    def final(self) -> tuple[str, ...]:
        """The operators whose tuples are the job's output: those that feed no other."""
        return tuple(name for name in self.topology.order if not self.topology.outputs(name))

    @property
    def aside(self) -> tuple[str, ...]:
        """The operators that hand bad rows aside."""
        job = self.topology
        return tuple(name for name in job.order if job.operator(name).on_error is OnError.ASIDE)

    def check_taken(self) -> None:
        """Refuse a job that hands rows aside where no sink takes them: they would be lost."""
        taken = self.aside if self.each_aside is not None else ()
        if isinstance(self.each_aside, Mapping):
            taken = tuple(self.each_aside)
        for name in self.aside:
            if name not in taken:
                raise InvalidValueError(
                    f"operator {name!r} hands bad rows aside, but no sink takes them; give "
                    "each_aside= a function of rows and batch, or leave them out: on_error='skip'"
                )
        if self.each_aside is not None and not self.aside:
            raise InvalidValueError(
                "each_aside is given, but no operator hands rows aside; set on_error='aside' on one"
            )

    def hand_out(
        self,
        rows: Callable[[Iterable[OutputFile]], DataFrame],
        files: Sequence[OutputFile],
        batch: int,
    ) -> None:
        """Hand out the rows of a batch.

        Args:
            rows: reads files of one operator.
            files: of the batch.
            batch: its number.
        """
        if self.each_batch is not None:
            good = [file for file in files if not file.aside]
            whose = len(self.final) > 1
            hand_out(rows, good, self.final, self.each_batch, batch, whose=whose)
        if self.each_aside is not None:
            bad = [file for file in files if file.aside]
            hand_out(rows, bad, self.aside, self.each_aside, batch, whose=False)


def check_sinks(sinks: Sinks | None, operators: Sequence[str], where: str) -> None:
    """Refuse anything that cannot take rows.

    Args:
        sinks: the sinks.
        operators: those with rows for these sinks.
        where: the name of the sinks in messages.
    """
    if sinks is None or (callable(sinks) and not isinstance(sinks, Mapping)):
        return
    if not isinstance(sinks, Mapping):
        raise InvalidValueError(
            f"{where}={sinks!r} is neither a function of rows and batch, nor a mapping from "
            "operators to such functions"
        )
    for name, sink in sinks.items():
        if name not in operators:
            raise UnknownNameError(
                f"{where} names {name!r}, whose rows do not leave the job that way; those of "
                f"{', '.join(map(repr, operators)) or 'no operator'} do"
            )
        if not callable(sink):
            raise InvalidValueError(
                f"{where}[{name!r}]={sink!r} is not a function; give one of rows and batch"
            )


def hand_out(  # noqa: PLR0913
    rows: Callable[[Iterable[OutputFile]], DataFrame],
    files: Iterable[OutputFile],
    operators: Sequence[str],
    sinks: Sinks,
    batch: int,
    *,
    whose: bool,
) -> None:
    """Hand the rows of a batch to sinks: all of them to one, or each operator's to its own.

    A sink is not called for a batch in which there are no rows for it.

    Args:
        rows: reads files of one operator.
        files: of the batch.
        operators: those with rows for these sinks, in their order.
        sinks: the functions that get them.
        batch: its number.
        whose: whether rows for one sink get a first column with their operator.
    """
    by_operator = {name: [file for file in files if file.operator == name] for name in operators}
    frames = {name: rows(mine) for name, mine in by_operator.items() if mine}
    if isinstance(sinks, Mapping):
        for name, frame in frames.items():
            if name in sinks:
                sinks[name](frame, batch)
    elif frames:
        sinks(_as_one(frames) if whose else _united(frames.values()), batch)


def left_in(session: SparkSession, location: Location, files: Iterable[OutputFile]) -> DataFrame:
    """Return the rows of output files; missing columns are null.

    Reading files of different columns at once, Spark would use those of one file and drop all
    others. The commit has their columns, so the driver opens none of them.

    Args:
        session: the session.
        location: the checkpoint.
        files: at least one.

    Raises:
        CheckpointError: a file is missing.
    """
    paths_of: dict[pa.Schema, list[str]] = {}
    for file in files:
        paths_of.setdefault(file.schema, []).append(
            _as_spark_reads(location.spark_path_of(file.path))
        )
    try:
        return _united(session.read.parquet(*paths) for paths in paths_of.values())
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        path = (error.getMessageParameters() or {}).get("path")
        raise CheckpointError(
            f"{path} is missing, though a commit refers to it; bring it back from a copy, or begin "
            "with a new checkpoint"
        ) from None


def _as_one(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of several operators, with a first column that names the operator."""
    for name, frame in frames.items():
        if OPERATOR in frame.columns:
            raise FoldError(
                f"rows of several operators leave the job, and a column {OPERATOR!r} is to tell "
                f"them apart, but rows of {name!r} have one already; rename it, or give "
                "each_batch a mapping from operators to functions"
            )
    return _united(
        frame.select(sql.lit(name).alias(OPERATOR), "*") for name, frame in frames.items()
    )


def _united(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _as_spark_reads(path: str) -> str:
    """Return a path with brackets and the like escaped, which Spark would read as patterns."""
    return _PATTERN.sub(r"\\\1", path)
