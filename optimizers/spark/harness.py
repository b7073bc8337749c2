"""Comparisons on Spark: batches that are recorded once, and a run of each variant."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame

from optimizers.control.decision import Decision
from optimizers.control.engine import Recording
from optimizers.control.epoch_facts import EpochFacts
from optimizers.control.summary import BatchSummary
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.optimizer import Optimizer
from optimizers.runtime.storage.location import Location
from optimizers.spark.checks import check_types
from optimizers.spark.cutting import sliced
from optimizers.spark.executors import HostReader
from optimizers.spark.machines import Machines
from optimizers.spark.session import local_session
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.spark.engine import SparkEngine
    from optimizers.spark.run import Run


class SparkHarness:
    """Runs the variants of a comparison on Spark; see `optimizers.control.engine.Harness`.

    Args:
        engine: how; each variant gets a folder of its own in its checkpoint.
        topology: the job.
    """

    computes = True
    wanted = "a DataFrame of Spark, or an Arrow table"

    def __init__(self, engine: "SparkEngine", topology: Topology) -> None:
        session = engine.spark or local_session()
        # 1. If there are several hosts they are the nodes, and each variant follows them as any job
        # does. Otherwise nodes are virtual, and stay. Variants do not acquire nodes, as others
        # would get them, too.
        cluster, there = engine.cluster, HostReader(session)()
        if cluster is None and len(there) < 2:
            cluster = Machines(session, topology, None, engine.hosts).cluster
        hosts = engine.hosts if cluster is None else None
        self._engine = replace(
            engine, spark=session, cluster=cluster, hosts=hosts, provisioner=None
        )
        self._session = session
        self._topology = topology
        # 2. What is known of them.
        names = sorted(there) if cluster is None else [node.name for node in cluster.nodes]
        self.where = f"Spark {session.version} on {session.sparkContext.master}"
        self.nodes = len(names)
        self.hosts = tuple(name for name in names if len(there) > 1 and name in there)
        self.imagined = self.nodes > 1 and not self.hosts
        self.keeps_output = engine.settings.keep_output

    def takes(self, rows: Any) -> bool:
        """Return whether these are the rows of one source."""
        return isinstance(rows, pa.Table) or _is_frame(rows)

    def record(self, rows: Mapping[str, Any]) -> Recording:
        """Record a batch, given the rows of each source.

        Raises:
            InvalidValueError: a source has a stream, or columns that Python cannot read.
        """
        for name, given in rows.items():
            if isinstance(given, DataFrame):
                check_types(f"what source {name!r} is given", given)
            if _is_frame(given) and given.isStreaming:
                raise InvalidValueError(
                    f"the rows of source {name!r} are a stream, which ends for no variant; give a "
                    "list of bounded DataFrames, one for each batch"
                )
        return recorded(self._session, self._topology, rows)

    def begin(self, name: str, optimizer: Optimizer | None) -> "SparkTrial":
        """Begin a variant.

        Raises:
            CheckpointError: there are files already where it would keep its state.
        """
        location = Location.of(self._engine.checkpoint).within(quote(name, safe=""))
        if location.list(""):
            raise CheckpointError(
                f"variant {name!r} would be run in {location}, where there are files already; "
                "give the engine an empty folder"
            )
        # Comparisons can be repeated, and all variants hash keys in one way.
        engine = replace(self._engine, checkpoint=location, seed=self._engine.seed or 0)
        return SparkTrial(engine.run(self._topology, [], optimizer))


class SparkTrial:
    """One variant as it runs on Spark.

    Args:
        run: the run, before its first batch.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._executed: list[list[BatchSummary]] = []
        self._left: dict[str, list[pa.Table]] = {}

    @property
    def next_batch(self) -> int:
        """The batch that has to be executed next."""
        return self._run.next_batch

    @property
    def decisions(self) -> Sequence[Decision]:
        """The optimizer's decisions."""
        return self._run.decisions

    @property
    def cuts(self) -> bool:
        """Whether the next batch is run in pieces."""
        return self._run.cuts

    def execute(self, batch: Recording) -> Sequence[Mapping[str, pa.Table]]:
        """Execute the next batch, and return the pieces that it was run in."""
        pieces, summaries = [], []
        self._left = {}
        for piece in self._run.pieces(batch.given):
            pieces.append(batch.tables if piece is None else piece)
            summaries.append(self._run.batches[-1])
            for name, table in self._run.outputs().items():
                self._left.setdefault(name, []).append(table)
        self._executed.append(summaries)
        return pieces

    @property
    def epochs(self) -> Sequence[EpochFacts]:
        """The facts of the last epochs that are over."""
        return self._run.epochs

    def executed(self) -> Sequence[Sequence[BatchSummary]]:
        """Return what happened in the pieces of each batch."""
        return self._executed

    def outputs(self) -> Mapping[str, pa.Table]:
        """Return the job's output of the last batch, by operator."""
        return {name: pa.concat_tables(tables) for name, tables in self._left.items()}

    def state(self, operator: str) -> pa.Table:
        """Return the results of all keys of an operator."""
        return self._run.state(operator)


def recorded(session: Any, topology: Topology, rows: Mapping[str, Any]) -> Recording:
    """Return a batch, recorded once: its rows are computed and dealt to instances evenly."""
    frames = {}
    for name, given in rows.items():
        table = given.toArrow() if _is_frame(given) else given
        frames[name] = session.createDataFrame(sliced(table, topology.operator(name).parallelism))
    # Read back, so that the reference sees tuples of the types that Spark makes of them.
    return Recording({name: frame.toArrow() for name, frame in frames.items()}, frames)


def _is_frame(rows: Any) -> bool:
    """Return whether it is a DataFrame of Spark, of whichever of its classes."""
    return hasattr(rows, "toArrow")
