"""Are statistics true while hosts come and go? ``python tests/cluster/known_loads.py``.

A stream on a standalone cluster on loopback addresses, of a job whose loads are known by
construction (`marked_job`). Its tuples say where they have been, so that the truth is known even of
a batch during which an executor was killed and tasks ran twice. In turn, an executor is killed
during a batch and comes back, a host is lost during a batch, two files wait at once, another host
joins, and one is given back. After each batch every fact in the statistics has to be within a tenth
of the truth, or absent, and state and output have to be exact. From the next batch on instances
have to run where the plan says, and two batches later nothing may be absent that was told before.
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))

import busy
import marked_job
import pyarrow as pa
import task_cpu
from file_stream import FileStream
from marked_job import COLUMN, PATH, Truth
from pyspark import cloudpickle
from standalone import Host, another_worker, session_on, standalone

from optimizers import BatchTime, Optimizer, Plan, Probe
from optimizers.flow import SourceStatistics
from optimizers.spark import SparkExecutors

INSTANCES, ROWS = 3, 600
SEED = 7
RESTARTED, KILLED, JOINING = "127.0.0.3", "127.0.0.4", "127.0.0.9"
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # that all hosts share
CORES = 1.0  # of each host
ERROR = 0.1
OTHER = 0.05  # of a batch's time may be in no part of it
UNTIMED = 1  # of the batches in which nothing was killed may be without a time
LINK = 1e7  # bytes a second, as the user says: hosts that are one machine cannot tell
STARTING = 4e-3  # CPU seconds of a task before the engine is called: PySpark reads what to do
IMPORTING = 2.0  # the same of the first task of a worker, at most
LEARNED = 2  # batches; of the next two, nothing is absent twice that can be known
BACK = 2  # batches after something has happened; then nothing more is absent than before
EDGES = list(pairwise(PATH))
CPU, LET_IN = "cpu", "let in"


class LetIn(marked_job.LetIn):
    """Does as told there, in tasks that are named, so that they are not taken for the engine's."""

    def __call__(self, batches):
        """Mark tuples."""
        task_cpu.named(LET_IN)
        yield from super().__call__(batches)


class Listening(Optimizer):
    """Keeps all statistics, and when they came; wants the number of nodes that the story sets."""

    observes = frozenset({Probe.OPERATORS, Probe.GROUPS})

    def __init__(self) -> None:
        self.heard = []
        self.nodes: int | None = None

    def plan(self, topology, cluster, statistics, current):
        """Keep the statistics, and want no other change than the number of nodes."""
        if statistics:
            self.heard.append((time.time(), cluster, statistics))
        return Plan() if self.nodes is None else Plan(nodes=self.nodes)


class Story:
    """The stream, and the failures so far.

    Args:
        session: the session.
        folder: for the job, and for orders to kill.
    """

    def __init__(self, session, folder: Path) -> None:
        self._orders = folder / "orders"
        self._orders.mkdir()
        self._cpu = folder / CPU
        self.listening = Listening()
        self.failures: list[str] = []
        self._given: list[pa.Table] = []
        self._came: list[float] = []  # tuples that came before the end of each batch
        self._absent: dict[int, set[str]] = {}
        self._times: dict[int, BatchTime] = {}
        self._lasted: dict[int, tuple[float, float]] = {}  # the stages of a batch, and as told
        self._disturbed: set[int] = set()  # batches during which something was killed
        let_in = LetIn(str(self._orders))
        self.stream = FileStream(
            session,
            folder / "stream",
            marked_job.job(INSTANCES, self._orders),
            marked_job.SCHEMA,
            self.listening,
            made=lambda rows: rows.mapInArrow(let_in, marked_job.READ),
            parts=INSTANCES,
            size=marked_job.tuples(0, ROWS).nbytes,
            provisioner=SparkExecutors(),
            hosts=lambda host: {"bandwidth": LINK},
            seed=SEED,
        )

    def put(self, batches: int = 1) -> None:
        """Write the files of some batches."""
        for _ in range(batches):
            self._given.append(marked_job.tuples(len(self._given), ROWS))
            self.stream.put(self._given[-1])

    def batch(self, order: str = "", *, marked: bool = True) -> None:
        """Wait for the end of the next batch, and compare all facts with the truth.

        Args:
            order: what is killed during it; see `marked_job.obey`.
            marked: whether its tuples say where they have been; see `marked_job.Marking`.
        """
        if order:
            (self._orders / order).touch()
        if not marked:
            (self._orders / marked_job.UNMARKED).touch()
        if len(self._given) == self.stream.batches:
            self.put()
        layout = self.stream.run.layout  # unless machines change before it begins
        number = self.stream.await_batch()
        self._came.append(ROWS * len(self._given))
        if order and (self._orders / order).exists():
            self._wrong(number, [f"nothing was killed on {order}"])
        (self._orders / marked_job.UNMARKED).unlink(missing_ok=True)
        self._exact(number)
        truth = Truth(layout, self._passed(), is_marked=marked)
        _, cluster, seen = self.listening.heard[-1]
        if seen.epoch != number:
            self._wrong(number, [f"the last epoch is {seen.epoch}"])
        self._absent[number] = set()
        if order:
            self._disturbed.add(number)
        self._hold_parts(number, truth, seen, cluster)
        self._hold_sums(number, truth, seen)
        self._hold_time(number, seen)
        self._hold_past(number, seen)
        self._hold_machines(number, cluster, seen, is_disturbed=bool(order))
        self._hold_places(number, truth, seen, is_disturbed=bool(order))
        _say(
            f"batch {number}: on {sorted(self.stream.hosts)}, {order or 'nothing'} killed; absent:"
        )
        _say(f"  {', '.join(sorted(self._absent[number])) or 'nothing'}")

    def settle(self) -> None:
        """Wait for some more batches: then all is told again that was told before anything."""
        for _ in range(BACK):
            self.batch()
        number = self.stream.batches - 1
        lacking = self._absent[number] - self._absent[LEARNED] - self._absent[LEARNED + 1]
        if lacking:
            self._wrong(number, [f"still absent, {BACK} batches later: {sorted(lacking)}"])

    def absent(self, number: int) -> set[str]:
        """Return the facts that were absent after a batch."""
        return self._absent[number]

    def _passed(self) -> pa.Table:
        """Return the output of the last batch, with the place where each tuple was counted."""
        run = self.stream.run
        rows, counted = run.outputs()["count"], run.state("count")
        at = np.zeros(marked_job.KEYS, dtype=np.int64)
        at[counted.column("l").to_numpy()] = counted.column("at").to_numpy()
        return rows.append_column("at_count", pa.array(at[rows.column("l").to_numpy()]))

    def _exact(self, number: int) -> None:
        run, given = self.stream.run, self._given[: number + 1]
        counted = run.state("count").select(["l", "count"]).to_pydict()
        found = dict(zip(counted["l"], counted["count"], strict=True))
        if found != marked_job.expected(given):
            self._wrong(number, ["tuples were lost or counted twice"])
        kept = run.state("keep").to_pydict()
        sizes = {key: len(text) for key, text in zip(kept["k"], kept["state"], strict=True)}
        if sizes != {key: busy.size_of(key) for key in range(marked_job.KEYS)}:
            self._wrong(number, [f"keep has {sizes}"])
        sent = run.outputs()["count"]
        once = sent.filter(pa.array(sent.column("copy").to_numpy() == 0)).select(["k", "l", "t"])
        order = [(name, "ascending") for name in ("k", "l", "t")]
        if not once.sort_by(order).equals(given[-1].sort_by(order)):
            self._wrong(number, ["other tuples came out than came in"])

    def _hold_parts(self, number, truth, seen, cluster) -> None:
        """Compare the facts about key groups and instances."""
        memory = MEMORY / len(cluster.nodes)
        told = [("group", name, seen.groups[name], truth.of_groups(name)) for name in COLUMN]
        for name in PATH if truth.is_marked else ():
            own = seen.instances[name]
            told.append(("instance", name, own, truth.of_instances(name, len(own))))
        for kind, name, amounts, true in told:
            facts = dict(true)
            # Shares are of what the present nodes have.
            facts["cpu"] = facts["seconds"] / (CORES * seen.seconds)
            facts["memory"] = facts["state_bytes"] / memory
            if truth.is_marked:
                far = [facts.get(fact, 0.0) for fact in ("remote_in", "remote_out")]
                facts["network"] = np.maximum(*far) / (LINK * seen.seconds)
            if kind == "instance":
                self._hold_cpu(number, name, amounts, facts, seen)
            for fact, wanted in facts.items():
                column = getattr(amounts, fact)
                self._hold(number, f"{fact} by {kind} of {name}", column, wanted)

    def _hold_cpu(self, number, name, told, true, seen) -> None:
        """Compare the CPU time of instances with what their workers took, measured from outside.

        It is all that the tasks took, and so more than what is known by construction, which is
        taken out of what is true. Where tasks were run again only this is known: that it is more.
        """
        made = true.pop("seconds")
        least = {"seconds": made, "cpu": true.pop("cpu")}
        if "fixed" in true:
            least["fixed"] = true.pop("fixed")
        grows = made - least.get("fixed", 0.0)  # with the tuples
        took = np.stack([np.zeros(len(made)), np.full(len(made), np.inf)])
        if number not in self._disturbed:
            took[1] = 0.0
            for task in task_cpu.tasks(self._cpu, [self.stream.stages()[PATH.index(name)]]):
                if task.name != LET_IN:
                    unseen = STARTING + IMPORTING * task.is_first
                    took[:, task.partition % len(made)] += task.seconds - unseen, task.seconds
        for fact, by_construction in least.items():
            low, high = {
                "seconds": took,
                "cpu": took / (CORES * seen.seconds),
                "fixed": took - grows,
            }[fact]
            low = np.maximum(low, by_construction)
            what = f"{fact} by instance of {name}"
            self._hold_between(number, what, getattr(told, fact), low, high)
        # Its parts are told of operators as well.
        whole = seen.operators[name]
        parts = whole.seconds + whole.receiving + whole.shipping
        low, high = np.maximum(took[0], made).sum(), took[1].sum()
        self._hold_between(number, f"all CPU time of {name}", parts, low, high)
        for fact in ("receiving", "shipping"):
            own, wanted = getattr(told, fact).sum(), getattr(whole, fact)
            self._hold(number, f"{fact} of the instances of {name}", own, wanted)
        sends = any(name == source for source, _ in EDGES)
        if whole.receiving <= 0.0 or sends != (whole.shipping > 0.0):
            self._wrong(number, [f"{name} has {whole.receiving} to receive, {whole.shipping} sent"])

    def _hold_sums(self, number, truth, seen) -> None:
        """Compare the facts about operators, edges, sources and traffic."""
        told = [(name, seen.operators[name], truth.of_operator(name)) for name in PATH]
        told += [(str(edge), seen.edges[edge], truth.of_edge(edge)) for edge in EDGES]
        before = self._came[-2] if number else 0.0
        since = self.listening.heard[-2][0] if number else None
        came = {
            "arrived": self._came[-1] - before,
            "admitted": float(ROWS),
            "waiting": self._came[-1] - ROWS * (number + 1.0),
        }
        if since is not None:
            came["seconds"] = self.listening.heard[-1][0] - since
        told.append(("arrivals", seen.sources.get("in", SourceStatistics()), came))
        for name, amounts, true in told:
            for fact, wanted in true.items():
                exact = fact in {"tuples", "emitted", "local", "parcels"}
                self._hold(number, f"{fact} of {name}", getattr(amounts, fact), wanted, exact=exact)
        for edge in EDGES:  # what leaves hosts comes to hosts, also where parts were done twice
            went, came = (
                getattr(seen.instances[name], fact)
                for name, fact in zip(edge, ("remote_out", "remote_in"), strict=True)
            )
            if went is not None and went.sum() != came.sum():
                self._wrong(number, [f"{edge}: {went} bytes left their hosts, and {came} came"])
        flows = seen.traffic[tuple(COLUMN)]
        pairs = np.zeros((marked_job.GROUPS, marked_job.GROUPS))
        np.add.at(pairs, (flows.sources, flows.targets), flows.tuples)
        self._hold(number, "traffic of groups", pairs, truth.traffic(), exact=True)

    def _hold_time(self, number, seen) -> None:
        """Compare the parts of the batch's time with the whole of it."""
        self._lasted[number] = self.stream.lasted(), seen.seconds
        if not seen.batch_times:
            self._absent[number].add("the time of the batch")
            return
        took = self._times[number] = seen.batch_times[-1]
        if abs(took.other) > OTHER * took.seconds or took.batch != number:
            self._wrong(number, [f"{took.other:.3f} s of {took.seconds:.3f} are in no part"])
        if took.tuples != ROWS:
            self._wrong(number, [f"its time is of {took.tuples} tuples"])

    def _hold_past(self, number, seen) -> None:
        """Compare what is remembered of the last epoch with what was told of it."""
        epochs = seen.past.epochs
        if [epoch.epoch for epoch in epochs] != list(range(number)):
            self._wrong(number, [f"it remembers {[epoch.epoch for epoch in epochs]}"])
        if not number or not epochs:
            return
        last, (_, _, told) = epochs[-1], self.listening.heard[-2]
        nodes, anywhere = dict.fromkeys(last.nodes, 0.0), 0.0
        for instances in told.instances.values():
            for host, seconds in zip(instances.hosts, instances.seconds.tolist(), strict=True):
                if host is None:  # on several: partitions of a source, where some were done again
                    anywhere += seconds
                else:
                    nodes[host] = nodes.get(host, 0.0) + seconds
        rates = {name: source.rate for name, source in told.sources.items()}
        wanted = {
            "tuples": {name: operator.tuples for name, operator in told.operators.items()},
            "busy": {name: each.seconds.sum() for name, each in told.instances.items()},
            "arrivals": {name: rate for name, rate in rates.items() if rate is not None},
        }
        for fact, true in wanted.items():
            found = getattr(last, fact)
            if found.keys() != true.keys() or not np.allclose(
                [found[name] for name in true], list(true.values()), rtol=1e-9
            ):
                self._wrong(number, [f"{fact} of the epoch before are {found}, and were {true}"])
        beyond = np.array([last.nodes.get(node, 0.0) - nodes[node] for node in nodes])
        if (beyond < -1e-9).any() or abs(beyond.sum() - anywhere) > 1e-9:
            what = f"{last.nodes}, and were {nodes}, with {anywhere} on several hosts"
            self._wrong(number, [f"nodes of the epoch before are {what}"])
        self._hold(number, "seconds of the epoch before", last.seconds, told.seconds, exact=True)

    def _hold_machines(self, number, cluster, seen, *, is_disturbed: bool) -> None:
        """Compare what is told of machines with those that are there."""
        hosts = self.stream.hosts
        if {node.name for node in cluster.nodes} != hosts and not is_disturbed:
            self._wrong(number, [f"told of {cluster.nodes}, executors on {hosts}"])
        for node in cluster.nodes:
            memory = MEMORY / len(cluster.nodes)
            self._hold(number, f"cores of {node.name}", node.cores, CORES, exact=True)
            self._hold(number, f"memory of {node.name}", node.memory, memory)
            self._hold(number, f"link of {node.name}", node.bandwidth, LINK, exact=True)
        slots = CORES * len(cluster.nodes)
        self._hold(number, "tasks at a time", seen.execution.slots, slots, exact=True)

    def hold_times(self) -> None:
        """Compare the times of batches with what Spark says that they and their triggers took.

        A time that is off by more than a twentieth is not told. So it is counted of how many it is
        not, where no stage was run again.
        """
        calm = set(range(self.stream.batches)) - self._disturbed
        untimed = sorted(calm - self._times.keys())
        if len(untimed) > UNTIMED:
            self.failures.append(f"the time of batches {untimed} was not told: it did not add up")
        took = {
            told["batchId"]: {what: took / 1e3 for what, took in told["durationMs"].items()}
            for told in self.stream.stream.query.recentProgress
        }
        triggers = {number: parts["triggerExecution"] for number, parts in took.items()}
        spans = np.array([(*self._lasted[number], took[number]["addBatch"]) for number in calm])
        _say(
            "batches: stages took {:.2f} s, told {:.2f}, run for {:.2f}".format(*spans.sum(axis=0))
        )
        for number, (least, lasted) in self._lasted.items():
            if not least <= lasted <= took[number]["addBatch"]:
                self._wrong(number, [f"it lasted {lasted:.3f} s, its stages {least:.3f}"])
        # What a trigger takes after a batch is told with the next, so it is compared of those whose
        # neighbours were calm, too; and of all of them together.
        compared = [
            number
            for number in sorted(calm & self._times.keys() & triggers.keys())
            if self._times[number].trigger is not None and number - 1 in calm
        ]
        told = sum(self._times[number].seconds for number in compared)
        truly = sum(triggers[number] for number in compared)
        _say(f"triggers of batches {compared} took {truly:.2f} s, and {told:.2f} were told")
        if len(compared) < self.stream.batches // 3 or abs(told - truly) > ERROR * truly:
            self.failures.append(f"triggers of {compared} took {truly:.2f} s, told {told:.2f}")

    def _hold_places(self, number, truth, seen, *, is_disturbed: bool) -> None:
        """Compare the hosts of instances with where Spark ran them, and with the plan."""
        ran, placed = self.stream.ran()[1:], self.stream.placed()[1:]
        for name in PATH if truth.is_marked else ():
            told = seen.instances[name]
            for instance, true in enumerate(truth.ran(name, len(told))):
                host = None if told.hosts is None else told.hosts[instance]
                if host is None:
                    self._absent[number].add(f"host of {name}[{instance}]")
                elif true != {host}:
                    self._wrong(number, [f"{name}[{instance}] was on {true}, not on {host}"])
        if not is_disturbed and ran != placed:
            self._wrong(number, [f"it ran on {ran}, and the plan says {placed}"])
        named = {host for stage in placed for host in stage}
        if not named <= self.stream.hosts and not is_disturbed:
            self._wrong(number, [f"the plan names hosts that left: {placed}"])

    def _hold(self, number, what, found, wanted, *, exact: bool = False) -> None:
        if found is None:
            self._absent[number].add(what)
            return
        found, wanted = np.atleast_1d(found), np.atleast_1d(wanted)
        off = found != wanted if exact else np.abs(found - wanted) > ERROR * wanted
        if off.any():
            self._wrong(number, [f"{what} is {found[off]}, and in truth {wanted[off]}"])

    def _hold_between(self, number, what, found, low, high) -> None:
        if found is None:
            self._absent[number].add(what)
        elif np.any((found < (1 - ERROR) * low) | (found > (1 + ERROR) * high)):
            self._wrong(number, [f"{what} is {found}, and in truth {low} to {high}"])

    def _wrong(self, number: int, what: list[str]) -> None:
        self.failures += [f"batch {number}: {each}" for each in what]
        _say(f"  WRONG: {self.failures[-1]}")


def main() -> int:
    """Tell the story, and return 1 if anything in it is wrong."""
    for module in (busy, marked_job):
        cloudpickle.register_pickle_by_value(module)  # executors do not find them by name
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        url = stack.enter_context(standalone(INSTANCES, folder=folder))
        settings = task_cpu.settings(folder / CPU)
        session = stack.enter_context(
            session_on(url, INSTANCES, spark_task_maxFailures="8", **settings)
        )
        story = Story(session, folder)
        # 1. Nothing happens.
        for _ in range(4):
            story.batch()
        # 2. An executor is killed in the middle of a batch, and another begun on its host. Where
        # tuples say where they have been, all is done again; else only what was lost.
        for marked in (True, False):
            story.batch(RESTARTED, marked=marked)
            story.stream.await_hosts(INSTANCES)
            story.settle()
        # 3. A host is lost in the middle of a batch.
        story.batch(f"{KILLED}-host")
        story.stream.await_hosts(INSTANCES - 1)
        story.settle()
        # 4. Two batches come at once.
        story.put(2)
        story.settle()
        # 5. Another host joins.
        stack.enter_context(another_worker(url, Host(JOINING), folder=folder))
        story.stream.await_hosts(INSTANCES)
        story.settle()
        if JOINING not in {node for stage in story.stream.placed() for node in stage}:
            story.failures.append(f"nothing is placed on {JOINING}, which has joined")
        # 6. One is given back.
        story.listening.nodes = INSTANCES - 1
        story.batch()
        story.batch()
        story.stream.await_hosts(INSTANCES - 1)
        story.settle()
        story.hold_times()
        story.stream.stream.stop()
    told = {number: story.absent(number) for number in range(story.stream.batches)}
    lacking = told[LEARNED] & told[LEARNED + 1]
    if lacking:
        story.failures.append(f"never told, though nothing has happened: {sorted(lacking)}")
    _say("\n".join(story.failures) or "all is as it should be")
    return bool(story.failures)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
