"""Do groups move as `Albic` says while hosts come and go? ``python tests/cluster/albic.py``.

A stream on a standalone cluster on loopback addresses, with instances pinned to its hosts; all its
batches have the same keys. Groups move, under a budget, to balance skewed keys; a host is killed
during a batch, another joins, and one is drained and given back. `Albic` decides alone, then after
`Locality` in one chain. After each decision the files of state say which keys changed their
instance and how large they are, and Spark says where instances ran. Both have to agree with the
groups, keys and bytes in the decision's notes; the imbalance in the notes has to be within a
twentieth of the measured one; and all counts have to be exact.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))

import busy
import marked_job
from file_stream import FileStream
from pyspark import cloudpickle
from standalone import Host, another_worker, session_on, standalone

from optimizers import Albic, Chain, Locality, Operator, Optimizer, Plan, Topology
from optimizers.folds import EachKey, Emit
from optimizers.folds.fold import Fold
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state.file import read_states
from optimizers.runtime.state.table import key_names
from optimizers.runtime.storage.location import Location
from optimizers.spark import SparkExecutors
from sketches.keys import as_keys

INSTANCES, GROUPS, ROWS = 3, 24, 1_500
SEED = 7
BUDGET, EVEN = 0.3, 0.05
LEARNED = 2  # epochs, after which the loads of all groups are known
SETTLED = 8  # batches, within which all has moved that a change of machines asks for
ERROR = 0.05
KILLED, JOINING = "127.0.0.4", "127.0.0.9"
COLUMN = {"by_page": "page", "by_tag": "tag"}
KEYS = {"by_page": 200, "by_tag": 300}
CALL, TUPLE = 1e-3, 4e-4


@dataclass(frozen=True, repr=False)
class Tally(Fold):
    """Counts tuples; each takes the same CPU time. For ``orders`` see `marked_job.obey`."""

    orders: str = ""
    even = True

    def state(self, tuples):
        return pa.schema([("count", pa.int64())])

    def absorb(self, tuples, keys, before):
        marked_job.obey(self.orders)
        busy.spin(CALL + TUPLE * len(tuples))
        old = before.column("count").to_numpy(zero_copy_only=False)
        counts = np.nan_to_num(old).astype(np.int64) + np.bincount(keys, minlength=len(before))
        return pa.table({"count": counts})


def keep(key, rows, state):
    """Take the CPU time that the key says, and keep the count as a text as long as it says."""
    (number,) = key
    busy.spin(len(rows) * busy.cost_of(number))
    count = int((state or "0").rstrip("x")) + len(rows)
    return str(count).ljust(_letters(number), "x")


def _letters(key):
    return 8 + busy.size_of(key)


def size_of(operator: str, key: int) -> int:
    """Return the bytes of a key in state: its place on the ring, the key and the value."""
    return 8 + 8 + (8 + _letters(key) if operator == "by_page" else 8)


def tuples(batch: int) -> pa.Table:
    """Return the tuples of a batch: the same in all batches, in another order, with skewed keys."""
    drawn = np.random.default_rng(3)
    pages = drawn.zipf(1.3, ROWS) % KEYS["by_page"]
    tags = (pages * 7 + drawn.integers(0, 2, ROWS)) % KEYS["by_tag"]
    pages[:300], tags[:300] = np.arange(300) % KEYS["by_page"], np.arange(300)
    order = np.random.default_rng(batch).permutation(ROWS)
    return pa.table({"page": pages[order], "tag": tags[order]})


class Deciding(Optimizer):
    """Asks another strategy, once loads are known.

    Attributes:
        strategy: the other strategy; the story replaces it as the stream goes on.
    """

    def __init__(self, strategy: Optimizer) -> None:
        self.strategy = strategy

    @property
    def observes(self):
        """The probes of the other strategy."""
        return self.strategy.observes

    def plan(self, topology, cluster, statistics, current):
        """Return the decision of the other strategy, or nothing at first."""
        if not statistics or statistics.epoch < LEARNED:
            return Plan()
        return self.strategy.plan(topology, cluster, statistics, current)


@dataclass(frozen=True)
class Places:
    """Where keys were after a batch.

    Attributes:
        instances: by operator, the instance of each key, by its files of state.
        nodes: by operator, the node of each instance.
    """

    instances: dict[str, np.ndarray]
    nodes: dict[str, list[str]]

    def at(self, operator: str) -> list[tuple[int, str]]:
        """Return the instance and the node of each key of an operator."""
        nodes = self.nodes[operator]
        return [(one, nodes[one]) for one in self.instances[operator].tolist()]


class Story:
    """A stream, and the failures so far.

    Args:
        session: the session.
        folder: for the job, and for orders to kill.
        with_locality: whether `Locality` decides before `Albic`.
    """

    def __init__(self, session, folder: Path, *, with_locality: bool) -> None:
        self._orders = folder / "orders"
        self._orders.mkdir(parents=True)
        self._with_locality = with_locality
        self._albic = Deciding(self._wanting(INSTANCES))
        locality = Locality(worth=0, offline=True, imbalance=1.5, adopts=False)
        self.stream = FileStream(
            session,
            folder / "stream",
            self._job(),
            "page long, tag long",
            Chain(locality, self._albic) if with_locality else self._albic,
            provisioner=SparkExecutors(),
            seed=SEED,
        )
        self.failures: list[str] = []
        self._before: Places | None = None
        self._location = Location(str(folder / "stream" / "job"))
        self._pending = None  # the decision that comes into force with the next batch
        self.moved = {"groups": 0, "keys": 0, "bytes": 0.0, "decisions": 0}

    def want(self, nodes: int) -> None:
        """Set the number of nodes that `Albic` wants."""
        self._albic.strategy = self._wanting(nodes)

    def batch(self, order: str = "") -> None:
        """Write the file of a batch, wait for its end, and compare what moved with the notes.

        Args:
            order: what is killed during it; see `marked_job.obey`.
        """
        if order:
            (self._orders / order).touch()
        self.stream.put(tuples(self.stream.batches))
        number = self.stream.await_batch()
        if order and (self._orders / order).exists():
            self._wrong(number, f"nothing was killed on {order}")
        self._exact(number)
        ran, placed = self.stream.ran()[1:], self.stream.placed()[1:]
        # Decisions after a batch are made for the machines that are there by then.
        mine = [said for said in self.stream.run.decisions if said.after == number]
        if not order and ran != placed and not any(said.fits for said in mine):
            self._wrong(number, f"it ran on {ran}, and the plan says {placed}")
        now = Places(self._owners(), dict(zip(COLUMN, ran, strict=True)))
        if self._pending is not None:
            self._hold(number, self._pending, now, is_disturbed=bool(order))
        self._before = Places(now.instances, dict(zip(COLUMN, placed, strict=True)))
        self._pending = self._decided(mine)
        _say(f"batch {number}: on {sorted(self.stream.hosts)}, {order or 'nothing'} killed")
        for said in mine:
            if said.applied or said.of_machines or said.refused:
                _say(f"  {said}")
            if said.refused:
                self._wrong(number, f"refused: {said.refused}")

    def settle(self) -> None:
        """Run batches until `Albic` leaves all as it is and no node drains."""
        for _ in range(SETTLED):
            self.batch()
            if self._pending is None and not self.stream.run.plan.drain:
                return
        self.failures.append(f"groups still move after {SETTLED} batches")

    def _job(self) -> Topology:
        pages = EachKey(keep, pa.string(), emit=Emit.TUPLES)
        tags = Tally(orders=str(self._orders))
        return (
            Topology.source("in")
            .then(Operator("by_page", "page", INSTANCES, pages, key_groups=GROUPS))
            .then(Operator("by_tag", "tag", INSTANCES, tags, key_groups=GROUPS))
        )

    def _wanting(self, nodes: int) -> Albic:
        return Albic(
            budget=f"{100 * BUDGET:g} %",
            max_load_distance=EVEN,
            resource="cpu",
            nodes=(nodes, nodes),
        )

    def _exact(self, number: int) -> None:
        for name, column in COLUMN.items():
            once = np.bincount(tuples(0).column(column).to_numpy(), minlength=KEYS[name])
            rows = self.stream.run.state(name)
            value = rows.column(rows.column_names[-1]).to_pylist()
            counts = [int(str(each).rstrip("x")) for each in value]
            found = dict(zip(rows.column(column).to_pylist(), counts, strict=True))
            if found != dict(enumerate((once * (number + 1)).tolist())):
                self._wrong(number, f"{name} has lost tuples, or counted some twice")

    def _owners(self) -> dict[str, np.ndarray]:
        """Return the instance of each key, by the files of state of the last commit."""
        commit = Checkpoint.open(self._location).last_commit()
        assert commit is not None
        found = {}
        for name in COLUMN:
            found[name] = np.full(KEYS[name], -1)
            for instance, files in enumerate(commit.state[name]):
                if files:
                    rows = read_states(self._location, files)
                    (kept,) = key_names(rows)
                    keys = rows.column(kept).to_numpy()
                    if (found[name][keys] >= 0).any():
                        self._wrong(commit.batch, f"keys of {name} are at two instances")
                    found[name][keys] = instance
        return found

    def _decided(self, said):
        """Return the decision of `Albic` that moves groups, if there is one among these."""
        moving = [
            each for each in said if each.applied and any(n.by == "Albic" for n in each.notes)
        ]
        moving = [each for each in moving if "cost" in _figures(each).get("the job", {})]
        return moving[-1] if moving else None

    def _hold(self, number: int, decision, now: Places, *, is_disturbed: bool) -> None:
        """Compare the notes of a decision with what moved in the next batch."""
        said = _figures(decision)
        run = self.stream.run
        if not 0 <= said["the job"]["cost"] <= BUDGET * (1 + 1e-9):
            self._wrong(number, f"moving took {said['the job']['cost']} of the state")
        routed = [note for note in decision.notes if note.by == "Locality" and note.figures]
        if routed and decision.plan.routing:
            return  # keys also moved for another reason, which is `Locality`'s to tell
        total = {"groups": 0, "keys": 0, "bytes": 0.0}
        changed = 0  # keys that got another instance
        for name in COLUMN:
            before, after = self._before.at(name), now.at(name)
            if is_disturbed:  # where an instance runs is not its owner's affair then
                before, after = ([(one, "") for one, _ in each] for each in (before, after))
            moved = np.array([one != two for one, two in zip(before, after, strict=True)])
            keys = np.flatnonzero(moved)
            found = {
                "groups": len(np.unique(self._groups(name)[keys])),
                "keys": self._named(name, keys),
                "bytes": float(sum(size_of(name, key) for key in keys.tolist())),
            }
            changed += int((self._before.instances[name] != now.instances[name]).sum())
            total = {fact: total[fact] + found[fact] for fact in total}
            if not is_disturbed:
                self._compare(number, name, said.get(name, dict.fromkeys(found, 0)), found)
                self._compare_imbalance(number, name, said.get(name))
        if not is_disturbed:
            self._compare(number, "the job", said["the job"], total)
        if run.batches[-1].taken_over != changed:
            told = run.batches[-1].taken_over
            self._wrong(number, f"{told} keys are told to have moved, {changed} have")
        self.moved = {fact: self.moved[fact] + total.get(fact, 1) for fact in self.moved}
        _say(f"  moved {total}, as was said")

    def _compare(self, number, about, said, found) -> None:
        for fact, amount in found.items():
            if abs(said[fact] - amount) > 1e-6 * amount:
                self._wrong(number, f"{fact} of {about}: {said[fact]} said, {amount} moved")

    def _compare_imbalance(self, number, name, said) -> None:
        if not said or "imbalance now" not in said:
            return
        mine = [one for one in self.stream.run.batches[-1].instances if one.operator == name]
        seconds = np.array([one.seconds for one in mine])
        found = float(seconds.max() / seconds.mean())
        _say(f"  imbalance of {name}: {said['imbalance now']:.3f} said, {found:.3f} measured")
        if abs(found - said["imbalance now"]) > ERROR * found:
            self._wrong(number, f"imbalance of {name}: {said['imbalance now']} said, {found} is")

    def _groups(self, name: str) -> np.ndarray:
        owners = self.stream.run.layout.owners(name)
        return owners.group_of(as_keys(np.arange(KEYS[name]), seed=owners.seed))

    def _named(self, name: str, keys: np.ndarray) -> int:
        """Return how many of these keys a table names."""
        table = self.stream.run.layout.owners(name).table
        return 0 if table is None or not len(keys) else int(table.find(keys)[0].sum())

    def _wrong(self, number: int, what: str) -> None:
        self.failures.append(f"batch {number}: {what}")
        _say(f"  WRONG: {self.failures[-1]}")


def _figures(decision) -> dict[str, dict[str, float]]:
    return {note.about: dict(note.figures) for note in decision.notes if note.by == "Albic"}


STORIES = {"alone": False, "after-locality": True}


def main() -> int:
    """Tell the story twice, or one of the two, and return 1 if anything in it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stories", nargs="*", help=f"of: {', '.join(STORIES)}; by default both")
    chosen = parser.parse_args().stories or STORIES
    for module in (busy, marked_job):
        cloudpickle.register_pickle_by_value(module)  # executors do not find them by name
    failures = []
    for name in chosen:
        _say(f"Albic {name}")
        with tempfile.TemporaryDirectory() as place:
            failures += _told(Path(place), with_locality=STORIES[name])
    _say("\n".join(failures) or "all is as it should be")
    return bool(failures)


def _told(folder: Path, *, with_locality: bool) -> list[str]:
    """Tell the story, and return what is wrong with it."""
    with ExitStack() as stack:
        url = stack.enter_context(standalone(INSTANCES, folder=folder))
        session = stack.enter_context(session_on(url, INSTANCES, spark_task_maxFailures="8"))
        story = Story(session, folder, with_locality=with_locality)
        # 1. Skewed keys are evened out.
        for _ in range(LEARNED):
            story.batch()
        story.settle()
        # 2. A host is lost in the middle of a batch; two have to do.
        story.batch(f"{KILLED}-host")
        story.stream.await_hosts(INSTANCES - 1)
        story.settle()
        # 3. Another joins.
        stack.enter_context(another_worker(url, Host(JOINING), folder=folder))
        before = story.stream.await_hosts(INSTANCES)
        story.settle()
        if JOINING not in {node for stage in story.stream.placed() for node in stage}:
            story.failures.append(f"nothing is placed on {JOINING}, which has joined")
        # 4. One is emptied and given back.
        story.want(INSTANCES - 1)
        story.batch()
        story.settle()
        after = story.stream.await_hosts(INSTANCES - 1)
        _say(f"given back: {sorted(before - after)}")
        story.batch()
        story.stream.stream.stop()
        _say(f"moved in all: {story.moved}")
        if story.moved["decisions"] < 4:
            story.failures.append(f"it was to act in each part, and moved {story.moved}")
        if with_locality and not story.moved["keys"]:
            story.failures.append("no key that Locality names has moved with its group")
    return story.failures


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
