"""Jobs to draw: directed acyclic graphs of operators that can run on the tuples of `streams`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from hypothesis import strategies as st

from any_job.operators import FOLDS, WORK, lean
from grouping.groupings import (
    DChoices,
    Fields,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
    WChoices,
)
from optimizers import Edge, Operator, Topology, TopologyError
from optimizers.folds import (
    Emit,
)
from optimizers.runtime.work import check_work

COLUMNS = {"a": pa.int64(), "b": pa.string(), "c": pa.int64(), "n": pa.int64()}
KEYS = (("a",), ("b",), ("c",), ("a", "b"), ("c", "a"), ("a", "b", "c"))
SPLITTING = (PartialKey(), PartialKey(3), DChoices(), WChoices(), Fields())


@dataclass(frozen=True)
class Shape:
    """The columns of an operator's tuples: those that all have, and those that some have."""

    always: frozenset
    ever: frozenset

    @property
    def even(self):
        return self.always == self.ever


@dataclass
class Step:
    """What the reference knows of an operator."""

    inputs: list  # of (source, {column: its name at the operator})
    shape: Shape
    row: Callable | None = None  # what it does to a row, where it has no key
    key: tuple = ()
    fold: str = "count"  # what it keeps, see `FOLDS`
    emit: str = "tuples"


@dataclass
class Drawn:
    """A job, and the same for the reference."""

    topology: Topology
    steps: dict
    columns: dict  # of the tuples of each source


def _shape_after(function, shape):
    if function is not lean:
        return shape
    return Shape(shape.always - {"b"}, shape.ever - {"b"})


def _functions(shape):
    """The functions that can work on tuples of this shape."""
    if not shape.even:
        return [None]
    return [work for work, (_, needs) in WORK.items() if needs <= shape.always]


def _joined(shapes):
    always = frozenset.intersection(*(shape.always for shape in shapes))
    return Shape(always, frozenset.union(*(shape.ever for shape in shapes)))


def _renamings(shape, key):
    """The ways to get the key out of tuples of this shape: each column's name in the tuples."""
    plain = tuple(
        name
        if name in shape.always
        else f"x_{name}"
        if f"x_{name}" in shape.always and name not in shape.ever
        else None
        for name in key
    )
    if None in plain:
        return []
    swapped = plain == ("c", "a")
    return [plain, ("a", "c")] if swapped else [plain]


def _named(shape, names):
    return Shape(*(frozenset(names.get(n, n) for n in part) for part in (shape.always, shape.ever)))


@st.composite
def jobs(draw, most=6, *, least=1, partial=True):
    """A directed acyclic graph of operators that can run on tuples of `rows_of`."""
    operators, edges, steps, columns = [], [], {}, {}
    for number in range(draw(st.integers(least, most))):
        name = draw(st.sampled_from(("op", "größe", "a:b@"))) + str(number)
        kinds = ["stateless", "attached", "keyed", "keyed", "keyed", "source"]
        kinds += ["partial"] if partial else []
        feeding = [n for n, step in steps.items() if step.emit != "nothing"]
        kept = [operator for operator in operators if operator.keyed]
        kinds += ["twin"] * bool(kept)  # gets the same tuples as another, by the same key
        if number + 1 == least:  # where several are wanted, some are to be connected
            kinds.remove("source")
        kind = draw(st.sampled_from(kinds)) if feeding else "source"
        if kind != "source":
            chosen = draw(st.lists(st.sampled_from(feeding), min_size=1, max_size=3, unique=True))
        if kind == "attached":
            chosen = chosen[:1]
        if kind in {"keyed", "partial", "twin"}:
            twin = draw(st.sampled_from(kept)) if kind == "twin" else None
            made = (
                _twin(name, twin, edges, steps)
                if twin is not None
                else draw(_keyed(name, chosen, steps, split=kind == "partial"))
            )
            if made is not None and _is_taken((*operators, made[0]), (*edges, *made[1])):
                operator, added, steps[name] = made
                operators.append(operator)
                edges += added
                continue
            kind = "stateless"
        if kind == "source":
            ever = frozenset(
                draw(st.sampled_from((column, column, f"x_{column}"))) if column != "n" else "n"
                for column in COLUMNS
            )
            shape, chosen, columns[name] = Shape(ever, ever), [], ever
        else:
            shape = _joined([steps[source].shape for source in chosen])
            if any(steps[source].shape != shape for source in chosen):
                shape = Shape(shape.always, shape.ever | {"?"})  # only to be passed on
        function = draw(st.sampled_from(_functions(shape)))
        shape = Shape(shape.always, shape.ever - {"?"})
        instances = draw(st.integers(1, 4))
        if kind == "attached":
            (source,) = (o for o in operators if o.name == chosen[0])
            instances = source.parallelism
        steps[name] = Step(
            [(source, {}) for source in chosen],
            _shape_after(function, shape),
            row=WORK[function][0],
        )
        operators.append(Operator(name, parallelism=instances, apply=function))
        for source in chosen:
            if kind == "attached":
                edges.append(Edge(source, name, LocalOrShuffle()))
                continue
            known = sorted(steps[source].shape.always & {"a", "b", "c", "x_a"})
            key = draw(st.none() | st.sampled_from(known)) if known else None
            spread = [None, Shuffle(), LocalOrShuffle()]
            spread += [] if key is None else [Fields(), PartialKey(), WChoices()]
            edges.append(Edge(source, name, draw(st.sampled_from(spread)), key))
    return Drawn(Topology(tuple(operators), tuple(edges)), steps, columns)


def _is_taken(operators, edges):
    """Whether a job is not one of those that count running totals."""
    try:
        check_work(Topology(operators, edges))
    except TopologyError:
        return False
    return True


def _twin(name, first, edges, steps):
    """The same operator, its edges and its step under another name."""
    added = [replace(edge, target=name) for edge in edges if edge.target == first.name]
    return replace(first, name=name), added, steps[first.name]


@st.composite
def _keyed(draw, name, chosen, steps, *, split):
    """An operator with a key, its edges and its step; None if these inputs have no such key."""
    key = draw(st.sampled_from(KEYS))
    edges, inputs, shapes = [], [], []
    for source in chosen:
        shape = steps[source].shape
        ways = _renamings(shape, key)
        if not ways:
            continue
        way = draw(st.sampled_from(ways))
        names = dict(zip(way, key, strict=True))
        said = way if way != key or draw(st.booleans()) else None
        grouping = draw(st.sampled_from(SPLITTING)) if split else None
        edges.append(Edge(source, name, grouping, said))
        inputs.append((source, {there: here for there, here in names.items() if there != here}))
        shapes.append(_named(shape, names))
    if not edges:
        return None
    shape = _joined(shapes)
    emits = ["tuples", "nothing"] if split else ["tuples", "changes", "nothing"]
    emit = draw(st.sampled_from(emits))
    folds = ["count"]
    if "n" in shape.always and "n" not in key:
        # Parts of what a user's function keeps cannot be put together.
        folds += ["sum", "many"] if split else ["sum", "many", "closed"]
    fold = draw(st.sampled_from(folds))
    # All folds refuse to call a result as the key is called, which none of the columns is.
    make, names = FOLDS[fold]
    apply = make(Emit(emit))
    if emit == "changes":
        known = frozenset({*key, *names})
        after = Shape(known, known)
    else:
        after = shape
    groups = draw(st.sampled_from((5, 8, 128)))
    operator = Operator(
        name,
        key,
        parallelism=draw(st.integers(1, 5)),
        apply=apply,
        key_groups=groups,
        partial=split,
    )
    return operator, edges, Step(inputs, after, key=key, fold=fold, emit=emit)


def with_parallelism(topology, **numbers):
    """The job, declared with other numbers of instances."""
    return Topology(
        tuple(
            replace(operator, parallelism=numbers.get(operator.name, operator.parallelism))
            for operator in topology.operators
        ),
        topology.edges,
    )
