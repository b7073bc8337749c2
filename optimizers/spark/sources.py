"""The rows of a job's sources, as users give them: one DataFrame, or one for each source."""

from collections.abc import Mapping
from functools import reduce
from typing import TypeVar

from pyspark.sql import DataFrame, functions

from optimizers.errors import TopologyError, UnknownNameError
from optimizers.spark.tasks import SOURCE, rows_of
from optimizers.topology import Topology

T = TypeVar("T")

Sources = Mapping[str, DataFrame] | DataFrame
"""The rows of each source, by its name; of the only source, alone."""


def by_source(topology: Topology, given: Mapping[str, T] | T) -> dict[str, T]:
    """Return the rows of each source by its name, or say which is missing."""
    if not isinstance(given, Mapping):
        if len(topology.sources) != 1:
            raise TopologyError(
                f"the job has sources {list(topology.sources)} and one {type(given).__name__} is "
                "given; give a dict with one for each"
            )
        return {topology.sources[0]: given}
    for name in given:
        if name not in topology.sources:
            raise UnknownNameError.among("source", name, topology.sources)
    missing = [name for name in topology.sources if name not in given]
    if missing:
        raise TopologyError(f"source {missing[0]!r} has no rows; give it a DataFrame")
    return {name: given[name] for name in topology.sources}


def united(topology: Topology, streams: Mapping[str, DataFrame]) -> DataFrame:
    """Return several streams as one, for a query of Spark drives its batches by one."""
    if len(streams) == 1:
        return streams[topology.sources[0]]
    parts = (
        streams[name].select(
            functions.lit(number).alias(SOURCE), functions.struct("*").alias(rows_of(number))
        )
        for number, name in enumerate(topology.sources)
    )
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
