"""Any job, any stream and any plan, drawn by Hypothesis; and what must come out of it.

`Reference` is the judge: plain Python on dicts, one row after the other, which shares no code with
what it judges.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import strategies as st

from grouping.groupings import (
    DChoices,
    DistributionAware,
    Fields,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
    WChoices,
    WorstCase,
)
from grouping.key_table import KeyTable
from grouping.routing_table import GroupTable, RoutingTable
from optimizers import Cluster, Deployment, Edge, Node, Operator, Optimizer, Plan, Topology
from optimizers.control.settings import Asking
from optimizers.folds import (
    DELETE,
    Count,
    Distinct,
    EachKey,
    Emit,
    Max,
    Mean,
    Min,
    Sum,
    Together,
    TopK,
    each_row,
)
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import MARK, Checkpoint
from optimizers.runtime.results import results_of
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.parcels import REPORT, from_batches
from optimizers.runtime.task.reports import TaskReport
from optimizers.runtime.task.task import run_source, run_task
from optimizers.runtime.work import Settings
from optimizers.statistics import Probe

NODES = ("node-0", "node-1", "node-2")
CLUSTER = Cluster.uniform(3)
COLUMNS = {"a": pa.int64(), "b": pa.string(), "c": pa.int64(), "n": pa.int64()}
KEYS = (("a",), ("b",), ("c",), ("a", "b"), ("c", "a"), ("a", "b", "c"))
SPLITTING = (PartialKey(), PartialKey(3), DChoices(), WChoices(), Fields())


class Scripted(Optimizer):
    """Decides what it was told to: one plan each time it is asked."""

    def __init__(self, plans, observes=frozenset()):
        self.plans = list(plans)
        self._observes = frozenset(observes)

    @property
    def observes(self):
        return self._observes

    def plan(self, topology, cluster, statistics, current):
        return self.plans.pop(0) if self.plans else Plan()


# What operators without a key do: to a record batch, and the same to one row of the reference.


def odd(batch):
    return batch.filter(pc.equal(pc.bit_wise_and(batch.column("n"), 1), 1))


def odd_row(row):
    return [row] if row["n"] % 2 else []


def twice(batch):
    return pa.Table.from_batches([batch, batch])


def twice_row(row):
    return [row, row]


def moved(batch):
    place = batch.schema.get_field_index("c")
    return batch.set_column(place, "c", pc.add(batch.column("c"), batch.column("a")))


def moved_row(row):
    return [{**row, "c": row["c"] + row["a"]}]


def lean(batch):
    return batch.select([name for name in batch.schema.names if name != "b"])


def lean_row(row):
    return [{name: value for name, value in row.items() if name != "b"}]


def few_row(row):
    return [{**row, "c": row["c"] * 2}] * (row["n"] % 3)


few = each_row(few_row)


# What operators with a key do: folds, and the same to the values that a key had so far.


def closed(key, rows, state):
    """Add up, and delete the key whenever it has come to a multiple of five."""
    total = (state or 0) + sum(rows["n"].to_pylist())
    return total if total % 5 else DELETE


MANY = {
    "seen": Count(),
    "total": Sum("n"),
    "low": Min("n"),
    "high": Max("n"),
    "mean": Mean("n"),
    "kinds": Distinct("n"),
    "top": TopK("n", 2),
}


def many_of(values):
    """What the folds of `MANY` say of all the numbers that a key had."""
    counts = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "seen": len(values),
        "total": sum(values),
        "low": min(values),
        "high": max(values),
        "mean": sum(values) / len(values),
        "kinds": len(counts),
        "top": [{"value": value, "total": count} for value, count in counts[:2]],
    }


FOLDS = {
    "count": (lambda emit: Count(emit=emit), ("count",)),
    "sum": (lambda emit: Sum("n", emit=emit), ("sum",)),
    "closed": (lambda emit: EachKey(closed, pa.int64(), emit=emit), ("state",)),
    "many": (lambda emit: Together(MANY, emit=emit), tuple(MANY)),
}


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


WORK = {
    None: (None, frozenset()),
    odd: (odd_row, frozenset("n")),
    twice: (twice_row, frozenset()),
    moved: (moved_row, frozenset("ac")),
    lean: (lean_row, frozenset()),
    few: (few_row, frozenset("cn")),
}


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
        if number + 1 == least:  # where several are wanted, some are to be connected
            kinds.remove("source")
        kind = draw(st.sampled_from(kinds)) if feeding else "source"
        if kind != "source":
            chosen = draw(st.lists(st.sampled_from(feeding), min_size=1, max_size=3, unique=True))
        if kind == "attached":
            chosen = chosen[:1]
        if kind in {"keyed", "partial"}:
            made = draw(_keyed(name, chosen, steps, split=kind == "partial"))
            if made is not None:
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


class Reference:
    """What one pair of hands would do, with no instances, no batches of a size and no plans."""

    def __init__(self, drawn):
        self.drawn = drawn
        keyed = [name for name, step in drawn.steps.items() if step.key]
        self.values = {name: {} for name in keyed}  # all that each key had, or its sum
        self.state = {name: {} for name in keyed}  # what is read of it

    def run(self, sources):
        """Take in the rows of one batch; return what each operator received and emitted."""
        received, emitted = {}, {}
        for name, step in self.drawn.steps.items():
            rows = list(sources.get(name, ()))
            for source, names in step.inputs:
                rows += [{names.get(n, n): v for n, v in row.items()} for row in emitted[source]]
            received[name] = rows
            if step.key:
                emitted[name] = self._fold(name, step, rows)
            elif step.row is None:
                emitted[name] = rows
            else:
                emitted[name] = [made for row in rows for made in step.row(row)]
        return received, emitted

    def _fold(self, name, step, rows):
        values, state = self.values[name], self.state[name]
        came = {}
        for row in rows:
            key = tuple(row[column] for column in step.key)
            came.setdefault(key, []).append(1 if step.fold == "count" else row["n"])
        for key, numbers in came.items():
            if step.fold == "many":
                values[key] = values.get(key, []) + numbers
                state[key] = many_of(values[key])
            else:
                values[key] = state[key] = values.get(key, 0) + sum(numbers)
            if step.fold == "closed" and not values[key] % 5:
                del values[key], state[key]
        if step.emit == "tuples":
            return rows
        if step.emit == "nothing":
            return []
        names = FOLDS[step.fold][1]
        return [
            {
                **dict(zip(step.key, key, strict=True)),
                **(state[key] if len(names) > 1 else {names[0]: state[key]}),
            }
            for key in came
            if key in state
        ]


SIZES = st.sampled_from((0, 1, 2, 7, 40, 90))
CUTS = st.lists(st.floats(0, 1), max_size=5)


@st.composite
def streams(draw, drawn, batches, sizes=SIZES):
    """So many batches of tuples for the sources of a job."""
    return [
        {
            source: cut(
                rows_of(drawn.columns[source], draw(st.integers(0, 1 << 30)), draw(sizes)),
                draw(CUTS),
                draw(st.integers(1, 4)),
            )
            for source in drawn.topology.sources
        }
        for _ in range(batches)
    ]


def rows_of(columns, seed, rows):
    """Tuples of any sort: frequent keys and rare ones, negative, huge and empty ones."""
    random = np.random.default_rng(seed)
    span = int(random.choice([1, 4, 30]))
    numbers = random.zipf(1.5, rows) % span - span // 2
    texts = np.array(["", "ä", "long " * 9, *map(str, range(span))])
    values = {
        "a": numbers * np.where(numbers == 2, 1 << 60, 1),
        "b": texts[random.integers(0, len(texts), rows)],
        "c": random.integers(0, 3, rows),
        "n": random.integers(0, 1000, rows),
    }
    return pa.table(
        {
            name: pa.array(values[name.removeprefix("x_")], COLUMNS[name.removeprefix("x_")])
            for name in sorted(columns)
        }
    )


def cut(table, cuts, partitions):
    """Cut tuples anywhere into record batches, empty ones too, and deal them to partitions."""
    places = sorted(int(share * len(table)) for share in cuts)
    ends = zip([0, *places], [*places, len(table)], strict=True)
    pieces = [table.slice(start, stop - start).combine_chunks() for start, stop in ends]
    batches = [(piece.to_batches() or [empty(table.schema)])[0] for piece in pieces]
    return [batches[number::partitions] for number in range(partitions)]


def empty(schema):
    return pa.RecordBatch.from_pylist([], schema=schema)


def rows_in(partitions):
    return [row for batches in partitions for batch in batches for row in batch.to_pylist()]


def _keys_for(step, seed):
    """Some keys that may come, for a routing table; None for keys that no table can name."""
    if len(step.key) > 2:
        return None
    random = np.random.default_rng(seed)
    count = int(random.integers(0, 12))
    values = {
        "a": random.permutation(np.arange(-15, 15))[:count].tolist(),
        "b": random.permutation(np.array(["", "ä", *map(str, range(30))]))[:count].tolist(),
        "c": random.permutation(np.arange(-12, 12))[:count].tolist(),
    }
    columns = [values[name] for name in step.key]
    return list(zip(*columns, strict=True)) if len(columns) > 1 else columns[0]


@st.composite
def plans(draw, drawn, parallelism):
    """A decision on a job whose operators have these numbers of instances now."""
    numbers, batch, routing, placement, scheduling = {}, {}, {}, {}, {}
    for operator in drawn.topology.operators:
        name, step = operator.name, drawn.steps[operator.name]
        says = draw(st.integers(0, 31))
        seed = draw(st.integers(0, 1 << 20)) if says else 0
        random = np.random.default_rng(seed)
        instances = parallelism[name]
        if says & 1:
            instances = numbers[name] = int(random.integers(1, 6))
        if says & 2:
            batch[name] = int(random.choice([1, 2, 5, 1000]))
        if says & 4 and operator.keyed and drawn.topology.inputs(name):
            keys = _keys_for(step, seed)
            if operator.partial:
                routing[name] = SPLITTING[int(random.integers(len(SPLITTING)))]
            elif keys is None or random.random() < 0.2:
                routing[name] = Fields()
            else:
                owners = random.integers(0, instances, len(keys))
                table = RoutingTable(keys, owners, instances)
                cells = random.integers(0, instances, 7)
                grouped = random.integers(0, operator.key_groups, len(keys))
                by_group = GroupTable(keys, grouped, operator.key_groups)
                ways = (table, by_group, DistributionAware(table, cells), WorstCase(table))
                routing[name] = ways[int(random.integers(len(ways)))]
        if says & 8:
            homes = tuple(NODES[place] for place in random.integers(0, len(NODES), instances))
            groups = operator.key_groups if operator.keyed else 0
            placement[name] = Deployment(
                homes, tuple(random.integers(0, instances, groups).tolist())
            )
        if says & 16 and not operator.keyed:
            for edge in drawn.topology.inputs(name):
                spread = [Shuffle(), LocalOrShuffle()]
                spread += [] if edge.key is None else [Fields(), PartialKey(), DChoices()]
                scheduling[edge.name] = spread[int(random.integers(len(spread)))]
    adopt = [
        name for name in routing if isinstance(routing[name], KeyTable) and draw(st.booleans())
    ]
    add = (Node("node-9"),) if draw(st.integers(0, 9)) == 9 else ()
    drain = ("node-0",) if draw(st.integers(0, 9)) == 9 else ()
    return Plan(
        parallelism=numbers,
        batch=batch,
        routing=routing,
        placement=placement,
        scheduling=scheduling,
        adopt=tuple(adopt),
        add=add,
        drain=drain,
    )


@st.composite
def scripts(draw, drawn, count, parallelism=None):
    """So many decisions, one after the other, from these numbers of instances on."""
    numbers = {op.name: op.parallelism for op in drawn.topology.operators}
    parallelism = {**numbers, **(parallelism or {})}
    made = []
    for _ in range(count):
        plan = draw(plans(drawn, parallelism)) if draw(st.integers(0, 3)) else Plan()
        parallelism |= plan.parallelism
        made.append(plan)
    return made


PROBES = st.sets(st.sampled_from(tuple(Probe)))


def run_shuffled(work, ticket, sources, seed, *, attempts=1, last=None, tamper=None):
    """Run a batch as a cluster would: tasks and parcels in any order, in batches of any size.

    Args:
        work: the job.
        ticket: the batch.
        sources: its tuples.
        seed: for all that is left to chance.
        attempts: how often a task may run. Parcels are taken from one attempt, reports from one.
        last: with which task of the batch the machines fail; None if they do not.
        tamper: gets what arrives at a stage, and which, and returns what is to arrive instead.
    """
    random = np.random.default_rng(seed)
    left = iter(range(last)) if last is not None else iter(int, 1)

    def run(task, *arguments):
        next(left)
        tries = [list(task(*arguments)) for _ in range(int(random.integers(1, attempts + 1)))]
        tuples, reports = (tries[int(random.integers(len(tries)))] for _ in range(2))
        return [*_only(tuples, reports=False), *_only(reports, reports=True)]

    starts = [
        (source, sender, batches)
        for source, partitions in sources.items()
        for sender, batches in enumerate(partitions)
    ]
    arriving = []
    for place in random.permutation(len(starts)):
        arriving += run(run_source, work, ticket, *starts[place])
    for stage, tasks in list(enumerate(work.layout.stages))[1:]:
        arriving = tamper(arriving, stage) if tamper is not None else arriving
        parts = dealt(arriving, len(tasks), random)
        arriving = []
        for task in random.permutation(len(tasks)).tolist():
            if random.random() < 0.3:
                cache.forget()
            arriving += run(run_task, work, ticket, stage, task, parts[task])
    end = len(work.layout.stages)
    return reports_in(tamper(arriving, end) if tamper is not None else arriving)


def _only(batches, *, reports):
    return [
        batch.filter(pa.array((batch.column("edge").to_numpy() == REPORT) == reports))
        for batch in batches
    ]


def dealt(batches, tasks, random):
    """What arrives at each task: its parcels, in any order and in batches of any size."""
    rows = pa.Table.from_batches(batches).combine_chunks() if batches else None
    if rows is None:
        return [[] for _ in range(tasks)]
    numbers = rows.column("task").to_numpy()
    assert not len(numbers) or 0 <= numbers.min() <= numbers.max() < tasks
    parts = []
    for task in range(tasks):
        mine = random.permutation(np.flatnonzero(numbers == task))
        part = rows.take(pa.array(mine))
        parts.append(part.combine_chunks().to_batches(max_chunksize=int(random.integers(1, 9))))
    return parts


def reports_in(batches):
    return [TaskReport.from_parcel(p) for p in from_batches(batches) if p.edge == REPORT]


def counted(rows):
    """Rows as a multiset; what is null is not there."""
    return Counter(
        json.dumps({n: v for n, v in sorted(row.items()) if v is not None}) for row in rows
    )


def outputs_of(checkpoint):
    """What left the job in the last batch, by operator."""
    found = {}
    for file in checkpoint.last_commit().outputs:
        assert not file.aside
        rows = pq.read_table(checkpoint.location.path_of(file.path))
        assert (file.rows, file.schema) == (len(rows), rows.schema.remove_metadata())
        assert unquote(file.path.split("/")[1]) == file.operator
        found.setdefault(file.operator, []).extend(rows.to_pylist())
    return {name: counted(rows) for name, rows in found.items()}


def results(drawn, checkpoint, name):
    """What the state of an operator says, by key."""
    step = drawn.steps[name]
    table = results_of(drawn.topology, name, checkpoint.read(name))
    if not len(table):
        return {}
    keys = list(zip(*(table.column(column).to_pylist() for column in step.key), strict=True))
    assert len(keys) == len(set(keys))
    names = FOLDS[step.fold][1]
    assert {*step.key, *names} == set(table.column_names)
    rows = table.select(names).to_pylist()
    values = rows if len(names) > 1 else [row[names[0]] for row in rows]
    return dict(zip(keys, values, strict=True))


def with_parallelism(topology, **numbers):
    """The job, declared with other numbers of instances."""
    return Topology(
        tuple(
            replace(operator, parallelism=numbers.get(operator.name, operator.parallelism))
            for operator in topology.operators
        ),
        topology.edges,
    )


class Driver:
    """Runs a job in this process, batch by batch."""

    def __init__(
        self,
        folder,
        job,
        plans=(),
        *,
        observes=(),
        every=1,
        drift=None,
        meanwhile=False,
        remember=99,
        cluster=CLUSTER,
        **settings,
    ):
        self.job = job
        location = Location(str(folder))
        # The seed of a new checkpoint is drawn; a test is to go the same way each time.
        seed = None if location.exists(MARK) else job.seed
        self.checkpoint = Checkpoint.create_or_open(location, job, seed=seed)
        self.optimizer = plans if isinstance(plans, Optimizer) else Scripted(plans, observes)
        self.coordinator = Coordinator(
            job,
            cluster,
            self.optimizer,
            self.checkpoint,
            asking=Asking(every=every, drift=drift, meanwhile=meanwhile, remember=remember),
            settings=Settings(**settings),
        )

    def run(self, tables):
        """Run the tasks of a batch; each table is a partition of its source."""
        self.assigned = self.coordinator.assign()
        return run_batch(self.assigned.work, self.assigned.ticket, partitions(tables))

    def batch(self, tables):
        """Run and commit a batch, and return what happened."""
        reports = self.run(tables)
        return self.coordinator.commit(self.assigned, reports, 2.0)

    def results(self, operator):
        """The results of an operator by key; of keys of one column, by that."""
        table = results_of(self.job, operator, self.checkpoint.read(operator))
        (key,) = self.job.operator(operator).key_columns
        (value,) = [name for name in table.column_names if name != key]
        keys = table.column(key).to_pylist()
        found = dict(zip(keys, table.column(value).to_pylist(), strict=True))
        assert len(found) == len(keys)
        return found


def partitions(tables):
    """The partitions of each source, given its table or several of them."""
    listed = {
        name: [tables_of] if isinstance(tables_of, pa.Table) else tables_of
        for name, tables_of in tables.items()
    }
    return {name: [table.to_batches() for table in found] for name, found in listed.items()}


def results_by(driver, operator):
    """The results of an operator that has a key of several columns, by the values of those."""
    table = results_of(driver.job, operator, driver.checkpoint.read(operator))
    columns = driver.job.operator(operator).key_columns
    (value,) = [name for name in table.column_names if name not in columns]
    return {tuple(row[name] for name in columns): row[value] for row in table.to_pylist()}


def temporary():
    """A folder for as long as it is needed."""
    return tempfile.TemporaryDirectory()
