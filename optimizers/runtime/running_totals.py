"""Refusing jobs that add up running totals, which would count tuples many times.

With `Emit.CHANGES` a fold sends a row for each key that came in a batch, with its result so far.
If such results are added up, each batch adds again all that earlier batches had added. If such rows
are counted, a key counts once for each batch in which it came. That is no number of keys or of
tuples, and another one for each way to cut the stream into batches. By the key that they have it
is in how many batches that came, which may be meant.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class _Updates:
    """The rows of an operator that sends its running results.

    Attributes:
        origin: the operator.
        keys: its key columns, by the names that they have by now.
        columns: those and its results, as far as these are known.
    """

    origin: str
    keys: frozenset[str]
    columns: frozenset[str]

    def renamed(self, names: Mapping[str, str]) -> "_Updates":
        """Return the same under other names."""
        keys, columns = (
            frozenset(names.get(column, column) for column in some)
            for some in (self.keys, self.columns)
        )
        return _Updates(self.origin, keys, columns)

    def mixed_by(self, key: tuple[str, ...]) -> bool:
        """Return whether a key of other columns surely has rows of several of these keys."""
        return self.columns.issuperset(key) and not self.keys.issubset(key)


def check_totals(topology: Topology, folds: Mapping[str, Fold]) -> None:
    """Refuse a job in which a fold adds up running results of another.

    The same for one that counts the rows of such results by other columns than their key.
    Columns are followed through operators that pass tuples on unchanged, but not through functions.

    Args:
        topology: the job.
        folds: what its keyed operators do.

    Raises:
        TopologyError: one adds running results up, or counts them.
    """
    sent: dict[str, Running] = {}
    rows: dict[str, tuple[_Updates, ...]] = {}
    for name in topology.order:
        edges = topology.inputs(name)
        came = {
            column: origin
            for edge in edges
            for column, origin in _arriving(topology, edge, sent[edge.source]).items()
        }
        updates = tuple(
            update.renamed(_names(topology, edge)) for edge in edges for update in rows[edge.source]
        )
        if name in folds:
            for fold in _counting(folds[name]):
                for update in updates:
                    if update.mixed_by(topology.operator(name).key_columns):
                        raise _updates_counted(name, fold, update)
            for fold, column in _added_up(folds[name]):
                if column in came:
                    raise _counted_again(name, fold, column, came[column])
            sent[name] = _sent(name, folds[name], came)
            rows[name] = _rows_sent(topology, name, folds[name], updates)
        else:
            unchanged = topology.operator(name).function() is None
            sent[name] = came if unchanged else {}
            rows[name] = updates if unchanged else ()


def _sent(name: str, fold: Fold, came: Running) -> Running:
    """Return which of an operator's emitted columns are running results."""
    if fold.emit is Emit.TUPLES:
        return came
    return dict.fromkeys(_results(fold), name) if fold.emit is Emit.CHANGES else {}


def _rows_sent(
    topology: Topology, name: str, fold: Fold, came: tuple[_Updates, ...]
) -> tuple[_Updates, ...]:
    """Return what is known of the rows that a keyed operator sends."""
    if fold.emit is Emit.TUPLES:
        return came
    known = isinstance(fold, Together | TopK) or type(fold) in _RESULTS
    if fold.emit is not Emit.CHANGES or not known:
        return ()
    keys = frozenset(topology.operator(name).key_columns)
    return (_Updates(name, keys, keys.union(_results(fold))),)


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


def _counting(fold: Fold) -> Iterator[Fold]:
    """Return the folds that count tuples."""
    for part in [part for _, part in fold.folds] if isinstance(fold, Together) else [fold]:
        if isinstance(part, Count) or (isinstance(part, TopK) and part.by is None):
            yield part


def _arriving(topology: Topology, edge: Edge, sent: Running) -> Running:
    """Return running results by the names that they have at the end of an edge."""
    names = _names(topology, edge)
    return {names.get(column, column): origin for column, origin in sent.items()}


def _names(topology: Topology, edge: Edge) -> Mapping[str, str]:
    """Return the columns that have another name at the end of an edge, with that."""
    return dict(zip(columns_of(edge.key), topology.operator(edge.target).key_columns, strict=False))


def _counted_again(name: str, fold: Fold, column: str, origin: str) -> TopologyError:
    return TopologyError(
        f"operator {name!r} would add up column {column!r} by {fold!r}, but that holds running "
        f"results of {origin!r}, each with all that came before, so the same would be counted "
        f"again in every batch; have {origin!r} send its tuples, emit=Emit.TUPLES, and add those "
        f"up in {name!r}"
    )


def _updates_counted(name: str, fold: Fold, update: _Updates) -> TopologyError:
    origin, keys = update.origin, ", ".join(map(repr, sorted(update.keys)))
    return TopologyError(
        f"operator {name!r} would count by {fold!r} the running results of {origin!r}, which sends "
        f"one for each of its keys in every batch, so the same keys of {keys} would be counted "
        f"again in every batch; have {origin!r} send its tuples, emit=Emit.TUPLES, and in {name!r} "
        "count those, or the different values among them by Distinct(...)"
    )
