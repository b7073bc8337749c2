"""Refusing jobs that add up running totals, which would count tuples many times.

With `Emit.CHANGES` a fold sends a row for each key that came in a batch, with its result so far.
If such results are added up, each batch adds again all that earlier batches had added.
"""

from collections.abc import Iterator, Mapping

from optimizers.errors import TopologyError
from optimizers.folds.aggregates import Count, Mean, Sum
from optimizers.folds.extremes import Last, Max, Min
from optimizers.folds.fold import Emit, Fold
from optimizers.folds.tallies import Distinct, TopK
from optimizers.folds.together import Together
from optimizers.operators import Edge, columns_of
from optimizers.topology import Topology

_RESULTS = {
    Count: "count",
    Sum: "sum",
    Mean: "mean",
    Min: "min",
    Max: "max",
    Last: "last",
    Distinct: "distinct",
}

Running = Mapping[str, str]
"""Columns with running results, and the operator of each."""


def check_totals(topology: Topology, folds: Mapping[str, Fold]) -> None:
    """Refuse a job in which a fold adds up running results of another.

    Columns are followed through operators that pass tuples on unchanged, but not through functions.

    Args:
        topology: the job.
        folds: what its keyed operators do.

    Raises:
        TopologyError: one adds running results up.
    """
    sent: dict[str, Running] = {}
    for name in topology.order:
        edges = topology.inputs(name)
        came = {
            column: origin
            for edge in edges
            for column, origin in _arriving(topology, edge, sent[edge.source]).items()
        }
        if name in folds:
            for fold, column in _added_up(folds[name]):
                if column in came:
                    raise _counted_again(name, fold, column, came[column])
            sent[name] = _sent(name, folds[name], came)
        else:
            sent[name] = came if topology.operator(name).function() is None else {}


def _sent(name: str, fold: Fold, came: Running) -> Running:
    """Return which of an operator's emitted columns are running results."""
    if fold.emit is Emit.TUPLES:
        return came
    return dict.fromkeys(_results(fold), name) if fold.emit is Emit.CHANGES else {}


def _results(fold: Fold) -> Iterator[str]:
    """Return the results of a fold that are numbers, as far as that is known."""
    if isinstance(fold, Together):
        yield from (name for name, part in fold.folds if type(part) in _RESULTS)
    elif type(fold) in _RESULTS:
        yield _RESULTS[type(fold)]


def _added_up(fold: Fold) -> Iterator[tuple[Fold, str]]:
    """Return the columns that a fold adds up, each with the fold that does."""
    for part in [part for _, part in fold.folds] if isinstance(fold, Together) else [fold]:
        if isinstance(part, Sum | Mean):
            yield part, part.column
        elif isinstance(part, TopK) and part.by is not None:
            yield part, part.by


def _arriving(topology: Topology, edge: Edge, sent: Running) -> Running:
    """Return running results by the names that they have at the end of an edge."""
    names = dict(
        zip(columns_of(edge.key), topology.operator(edge.target).key_columns, strict=False)
    )
    return {names.get(column, column): origin for column, origin in sent.items()}


def _counted_again(name: str, fold: Fold, column: str, origin: str) -> TopologyError:
    return TopologyError(
        f"operator {name!r} would add up column {column!r} by {fold!r}, but that holds running "
        f"results of {origin!r}, each with all that came before, so the same would be counted "
        f"again in every batch; have {origin!r} send its tuples, emit=Emit.TUPLES, and add those "
        f"up in {name!r}"
    )
