"""A job for clusters whose tuples say where they have been, and the truth about its batches.

Each operator writes into the tuples on which host and in which task it had them, so that the
output says what a lost executor did and what was done again. Keys say how large tuples are and how
much CPU time they take, as in `known_loads`. Functions work until the process has used that CPU
time, so that a busy machine changes little. `Keep` says in the tuples how much it was: a machine
that is held up counts as work of the process that it was running.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import busy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from optimizers import Operator, Topology
from optimizers.folds import EachKey, Emit
from optimizers.folds.fold import Fold
from sketches.keys import as_keys

KEYS = 60
GROUPS = 8
LETTERS = 40  # of the text of a tuple, for each number of its key, and once more
TWICE = 4  # of how many tuples one leaves `spread` twice
SPREADING, WAITING = 1e-4, 3e-3  # seconds that it works and waits for each tuple
CALL, TUPLE = 80e-3, 2e-4  # CPU seconds of a call and of a tuple of `count`
KEPT = 5e-4  # CPU seconds of a tuple of `keep`, times one to five by its key
TASKS = 1_000  # of a stage, fewer
UNMARKED = "unmarked"
NANO = 1e9

PATH = ("in", "spread", "keep", "count")
"""The operators, in the order in which tuples pass them."""

SCHEMA = "k long, l long, t string"
"""Of the tuples that come in, as Spark writes it."""
READ = f"{SCHEMA}, at_in long"
_SAID = f"{READ}, copy long, at_spread long, took long, at_keep long, spent long"


def here() -> int:
    """Return where this runs: the last number of the host's address, and the task of the stage.

    The host is the one that the worker was started with, not the one that the engine has found.
    """
    task = TaskContext.get()
    assert task is not None
    return int(os.environ["SPARK_LOCAL_IP"].rpartition(".")[2]) * TASKS + task.partitionId()


@dataclass(frozen=True)
class Marking:
    """Marks tuples with the host and the task of an operator.

    A task that runs twice on two hosts then sends other tuples the second time. With a file called
    ``unmarked`` in the folder of orders there are no marks, and both runs send the same.

    Attributes:
        orders: the folder.
    """

    orders: str

    @property
    def is_off(self):
        """Whether tuples are to stay unmarked."""
        return (Path(self.orders) / UNMARKED).exists()

    def marked(self, tuples, operator):
        """Return tuples with where this runs, as the place of an operator."""
        where = 0 if self.is_off else here()
        places = pa.array(np.full(len(tuples), where, dtype=np.int64))
        return tuples.append_column(f"at_{operator}", places)


class LetIn(Marking):
    """Marks tuples where they are read: given to Spark, for a source has no function."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self.marked(batch, "in")


class Spread(Marking):
    """Sends some tuples on twice, after a wait; says in them how long that took by the clock."""

    def __call__(self, batch):
        began, until = time.perf_counter(), _processor_until(SPREADING * len(batch))
        time.sleep(WAITING * len(batch))
        again = batch.filter(pc.equal(pc.bit_wise_and(batch.column("l"), TWICE - 1), 0))
        copies = [
            each.append_column("copy", pa.array(np.full(len(each), number, dtype=np.int64)))
            for number, each in enumerate((batch, again))
        ]
        sent = pa.Table.from_batches(copies).combine_chunks().to_batches()[0]
        sent = self.marked(sent, "spread")
        _work(until)
        took = 0 if self.is_off else int((time.perf_counter() - began) * NANO)
        return sent.append_column("took", pa.array(np.full(len(sent), took, dtype=np.int64)))


class Keep(Marking):
    """Takes as long as the key says, and keeps as much; says in each tuple what it took for it."""

    def __call__(self, key, rows, state):
        (number,) = key
        took = _cost_of(number) * len(rows)
        until = _processor_until(took)
        sent = self.marked(rows, "keep")
        took += _work(until) - until
        each = 0 if self.is_off else int(took / len(rows) * NANO)
        spent = pa.array(np.full(len(sent), each, dtype=np.int64))
        return "x" * busy.size_of(number), sent.append_column("spent", spent)


def _processor_until(seconds):
    """Return the time of the processor at which it has worked for so long."""
    return time.process_time() + seconds


def _work(until):
    """Work until then, and return when that was by the time of the processor.

    So all that was done since counts as what was to be taken.
    """
    while (now := time.process_time()) < until:
        pass
    return now


@dataclass(frozen=True, repr=False)
class Counting(Fold):
    """Counts tuples, and keeps where that was done last.

    Attributes:
        orders: a folder of orders to kill; see `obey`.
    """

    orders: str = ""
    even = True

    def state(self, tuples):
        return pa.schema([("count", pa.int64()), ("at", pa.int64())])

    def absorb(self, tuples, keys, before):
        until = _processor_until(CALL + TUPLE * len(tuples))
        obey(self.orders)
        old = before.column("count").to_numpy(zero_copy_only=False)
        counts = np.nan_to_num(old).astype(np.int64) + np.bincount(keys, minlength=len(before))
        places = np.full(len(before), here(), dtype=np.int64)
        _work(until)
        return pa.table({"count": counts, "at": places})


def obey(orders: str) -> None:
    """Kill the executor that this runs in, if that is ordered for its host.

    Args:
        orders: a folder. A file in it called as a host is such an order; with ``-host`` at the
            end, one to kill the worker first, so that none comes there again. Each is obeyed once.
    """
    for ending, victims in (("", ("Executor",)), ("-host", ("Worker", "Executor"))):
        try:
            (Path(orders) / f"{os.environ['SPARK_LOCAL_IP']}{ending}").unlink()
        except FileNotFoundError:
            continue
        for process in _above(victims):
            os.kill(process, signal.SIGKILL)
        time.sleep(60)  # this process ends with them


_COMMANDS = {"Executor": b"CoarseGrainedExecutorBackend", "Worker": b"deploy.worker.Worker"}


def _above(kinds) -> list[int]:
    """Return the processes of these kinds that this one comes of."""
    found, process = {}, os.getpid()
    while process > 1:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        found |= {kind: process for kind, word in _COMMANDS.items() if word in command}
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return [found[kind] for kind in kinds]


def job(instances: int, orders: Path) -> Topology:
    """Return the job.

    Args:
        instances: of each operator.
        orders: a folder of orders; see `Marking` and `obey`.
    """
    folder = str(orders)
    sent = pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, _SAID.split(", "))])
    keeping = EachKey(Keep(folder), pa.string(), sent)
    counting = Counting(emit=Emit.TUPLES, orders=folder)
    return (
        Topology.source("in", parallelism=instances)
        .then("spread", parallelism=instances, apply=Spread(folder))
        .then(Operator("keep", "k", instances, keeping, key_groups=GROUPS))
        .then(Operator("count", "l", instances, counting, key_groups=GROUPS))
    )


_TYPES = {"long": pa.int64(), "string": pa.string()}
COLUMN = {"keep": "k", "count": "l"}


def tuples(batch: int, rows: int) -> pa.Table:
    """Return the tuples of a batch, among which all keys are."""
    random = np.random.default_rng(batch)
    left, right = random.integers(0, KEYS, (2, rows))
    left[:KEYS] = right[:KEYS] = np.arange(KEYS)
    return pa.table({"k": left, "l": right, "t": ["t" * _letters(key) for key in left.tolist()]})


def expected(batches: list[pa.Table]) -> dict[int, int]:
    """Return how often each key of ``count`` comes in some batches."""
    keys = np.concatenate([each.column("l").to_numpy() for each in batches])
    return dict(enumerate((np.bincount(keys, minlength=KEYS) * _times(np.arange(KEYS))).tolist()))


def _cost_of(key):
    return KEPT * (1 + key % 5)


def _letters(key):
    return LETTERS * (1 + key)


def _times(keys):
    return 1 + (keys % TWICE == 0)


class Truth:
    """What is true of a batch, by what its tuples say.

    Args:
        layout: the job as it was laid out: which key group is of which instance.
        passed: the tuples that came out of it, and ``at_count``, where they were counted.
        is_marked: whether they say where they have been; else nothing that depends on it is known.
    """

    def __init__(self, layout, passed: pa.Table, *, is_marked: bool = True) -> None:
        self._layout = layout
        self.is_marked = is_marked
        columns = {
            name: passed.column(name).to_numpy() for name in passed.column_names if name != "t"
        }
        self._keys = {name: columns[column] for name, column in COLUMN.items()}
        self._at = {name: columns[f"at_{name}"] for name in PATH}
        self._first = columns["copy"] == 0
        self._took = columns["took"]
        body = 8 + 8 + 4 + _letters(columns["k"])
        self._sizes = {
            ("in", "spread"): body + 8,
            ("spread", "keep"): body + 4 * 8,
            ("keep", "count"): body + 6 * 8,
        }
        self._seconds = {
            "in": np.zeros(len(self._first)),
            "spread": np.full(len(self._first), SPREADING),
            "keep": np.where(self.is_marked, columns["spent"] / NANO, _cost_of(columns["k"])),
            "count": np.full(len(self._first), TUPLE),
        }

    def came(self, name: str):
        """Return which of the tuples an operator received: the copies come of `spread`."""
        return self._first if name in {"in", "spread"} else np.ones(len(self._first), dtype=bool)

    def carried(self, edge):
        """Return which of the tuples an edge carried."""
        return self.came(edge[1])

    def hosts(self, name: str):
        """Return the number of the host of each tuple at an operator."""
        return self._at[name] // TASKS

    def instances(self, name: str):
        """Return the instance of each tuple at an operator; of a source, the partition."""
        return self._at[name] % TASKS

    def of_operator(self, name: str) -> dict[str, float]:
        """Return what is true of an operator."""
        came = self.came(name)
        found = {"tuples": came.sum(), "emitted": len(came) if name != "in" else came.sum()}
        found["selectivity"] = found["emitted"] / found["tuples"]
        calls = CALL * len(np.unique(self.instances(name))) if name == "count" else 0.0
        found["seconds"] = self._seconds[name][came].sum() + calls
        if name == "spread" and self.is_marked:
            _, calls = np.unique(self._at["in"] * TASKS**2 + self._at[name], return_index=True)
            found["wall"] = self._took[calls].sum() / NANO
        if name in COLUMN:
            found["hottest_key"] = np.bincount(self._keys[name]).max() / len(came)
            found["state_bytes"] = self.of_groups(name)["state_bytes"].sum()
        return {fact: float(amount) for fact, amount in found.items()}

    def of_edge(self, edge) -> dict[str, float]:
        """Return what is true of an edge."""
        carried, sizes = self.carried(edge), self._sizes[edge]
        local = carried & (self.hosts(edge[0]) == self.hosts(edge[1]))
        ways = np.stack([self.instances(edge[0]), self.instances(edge[1])])[:, carried]
        found = {"tuples": float(carried.sum()), "bytes": float(sizes[carried].sum())}
        if not self.is_marked:
            return found
        return found | {
            "local": float(local.sum()),
            "local_bytes": float(sizes[local].sum()),
            "parcels": float(np.unique(ways, axis=1).shape[1]),
        }

    def of_groups(self, name: str):
        """Return what is true of the key groups of an operator."""
        groups, number = self.groups(name, self._keys[name]), GROUPS
        found = self._of_parts(name, groups, number)
        known = np.arange(KEYS)
        kept = [8 + 8 + 8 + busy.size_of(key) if name == "keep" else 8 + 8 + 8 + 8 for key in known]
        found["state_bytes"] = np.bincount(self.groups(name, known), kept, number)
        return found

    def of_instances(self, name: str, number: int):
        """Return what is true of the instances of an operator."""
        found = self._of_parts(name, self.instances(name) % number, number)
        calls = np.full(number, CALL if name == "count" else 0.0)
        found["seconds"] = found["seconds"] + calls
        found["state_bytes"] = np.zeros(number)
        if name in COLUMN:
            owners = np.array(self._layout.homes[name].groups)
            state = self.of_groups(name)["state_bytes"]
            found["state_bytes"] = np.bincount(owners, state, number)
        found["resident"] = found["state_bytes"]  # it is less than a process may keep
        if name == "count":
            found["fixed"] = calls
        return found

    def traffic(self):
        """Return how many tuples went from which group to which."""
        pairs = np.zeros((GROUPS, GROUPS))
        np.add.at(pairs, tuple(self.groups(name, self._keys[name]) for name in COLUMN), 1)
        return pairs

    def groups(self, name, keys):
        """Return the key groups of keys of an operator."""
        owners = self._layout.owners(name)
        return owners.group_of(as_keys(keys, seed=self._layout.topology.seed))

    def ran(self, name: str, number: int) -> list[set[str]]:
        """Return on which hosts each instance of an operator had tuples."""
        mine = self.instances(name) % number
        return [
            {f"127.0.0.{host}" for host in np.unique(self.hosts(name)[mine == one]).tolist()}
            for one in range(number)
        ]

    def _of_parts(self, name, parts, number):
        """Add up amounts by parts of an operator: of each tuple, which part had it."""
        found = {}
        place = PATH.index(name)
        came = self.came(name)

        def summed(fact, chosen, amounts):
            found[fact] = np.bincount(parts[chosen], amounts[chosen], number)

        summed("tuples", came, np.ones(len(came)))
        summed("seconds", came, self._seconds[name])
        for way, number_of in (("in", place - 1), ("out", place)):
            edge = PATH[max(number_of, 0) : number_of + 2]
            if len(edge) == 2:
                carried = self.carried(edge)
                summed(f"bytes_{way}", carried, self._sizes[edge])
                if self.is_marked:
                    summed(f"remote_{way}", carried & self._crossed(edge), self._sizes[edge])
        return found

    def _crossed(self, edge):
        return self.hosts(edge[0]) != self.hosts(edge[1])
