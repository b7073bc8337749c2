"""Kills drivers, workers and executors of streaming jobs, and looks at what they leave behind.

The long run, for a free hour; it prints each kill and a summary, and fails if a single number is
not as it should be::

    python tests/killing.py --kills 100

After every kill, before anything is started again, the checkpoint is opened and the state of its
last commit is held to a sequential reference, key by key, and so are all that was handed out, bad
rows that were handed aside, and the counts of those and of others that were left out. Then
the driver is started again; see `victim` for the jobs. Kills are aimed: at any time, at the start,
just after a plan was saved, a file of state written, or a batch committed.
"""

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import victim
from victim import DONE
from victim_reference import Reference, ends_of
from victim_task import Task, written

from optimizers.runtime.log.checkpoint import MARK, Checkpoint
from optimizers.runtime.results import results_of
from optimizers.runtime.storage.location import Location

PATIENCE = 300.0  # seconds; this machine may be busy with other things
KILLS_PER_JOB = 12

AIMS = {"plans": (0.0, 1.0), "any": (0, 5), "state": (0, 0.3), "start": (1, 9), "commits": (0, 0.1)}
"""What kills are aimed at, in turn: how many seconds later they come at least, and at most."""

FOLDERS = ("plans", "state", "commits")
"""Aims that are met when a file appears in such a folder of the checkpoint."""

ASIDE_OR_NOT = ("left out", "handed aside")
"""What the log says becomes of bad rows."""

WORKER, EXECUTOR = "pyspark.daemon", "CoarseGrainedExecutorBackend"

PAUSES = {WORKER: (1.0, 4.0), EXECUTOR: (6.0, 15.0)}
"""Seconds between two of their kills."""

KILLS_PER_BATCH = 3
"""After this number the batch may end: on a busy machine it never would."""


# Processes.


def processes() -> dict[int, tuple[int, str]]:
    """Return parent and command line of each process."""
    command = (shutil.which("ps") or "ps", "-A", "-ww", "-o", "pid=,ppid=,args=")
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {}
    for line in listed.stdout.splitlines():
        pid, parent, *words = line.split(maxsplit=2)
        found[int(pid)] = int(parent), words[0] if words else ""
    return found


def tree_of(root: int) -> dict[int, tuple[int, str]]:
    """Return a process with all that it has started, and they have, as `processes` does."""
    there = processes()
    found = {root: there[root]} if root in there else {}
    before = -1
    while before < len(found):
        before = len(found)
        found |= {pid: facts for pid, facts in there.items() if facts[0] in found}
    return found


def kill_tree(root: int) -> int:
    """End a process and all that it has started at one moment, as if a machine went down."""
    stopped: set[int] = set()
    while fresh := tree_of(root).keys() - stopped:  # what is stopped starts nothing more
        for pid in sorted(fresh):
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        _signal(pid, signal.SIGKILL)
    return len(stopped)


def _signal(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, what)


class Life:
    """One driver, from its start to its end.

    Args:
        task: what it does.
        number: how often it was started before.
    """

    def __init__(self, task: Task, number: int) -> None:
        seed = 1_000 * task.seed + number
        declared = random.Random(seed).choices(range(1, 6), k=2)  # noqa: S311
        self.task = replace(
            task, seed=seed, declared=tuple(declared) if task.restless else task.declared
        )
        self.log = Path(task.folder) / f"log-{number}"
        self._lines_before = len(_lines(task))
        self._known: dict[str, set[str]] = {name: self._names(name) for name in FOLDERS}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                (sys.executable, victim.__file__, str(written(self.task))),
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},  # also for executors
            )

    @property
    def over(self) -> bool:
        """Whether it has ended by itself."""
        return self.process.poll() is not None

    @property
    def runs(self) -> bool:
        """Whether the job was started."""
        return any(line.endswith(" runs") for line in _lines(self.task)[self._lines_before :])

    @property
    def commits(self) -> set[str]:
        """The names of the commits that are there."""
        return self._names("commits")

    def await_end(self) -> int:
        """Return how it ended, once it has."""
        self.await_that(lambda: self.over)
        return self.process.wait()

    def await_new(self, folder: str) -> None:
        """Wait until there are new files in a folder of the checkpoint."""
        self.await_that(lambda: self._names(folder) - self._known[folder])
        self._known[folder] = self._names(folder)

    def await_that(self, happens: Callable[[], object]) -> None:
        """Wait until something is so, or the driver has ended."""
        until = time.monotonic() + PATIENCE
        while not (happens() or self.over):
            if time.monotonic() > until:
                self.kill()
                raise AssertionError(f"nothing happens for {PATIENCE:.0f} s; see {self.log}")
            time.sleep(0.004)

    def kill(self) -> None:
        """End the driver and all that it has started."""
        kill_tree(self.process.pid)
        self.process.wait()

    def kill_one(self, kind: str, drawn: random.Random) -> bool:
        """End one of the workers or executors; return whether there was one to end.

        A daemon that starts workers is ended only while it has some: no task ever begins if it is
        ended as soon as it starts.
        """
        # On a cluster it is not the driver that starts executors.
        tree = tree_of(os.getpid() if kind == EXECUTOR else self.process.pid)
        found = [pid for pid, (_, args) in tree.items() if kind in args]
        if kind == WORKER:
            workers = [pid for pid in found if tree[pid][0] in found]
            found = workers + [tree[pid][0] for pid in workers[:1]]
        if found:
            _signal(drawn.choice(sorted(found)), signal.SIGKILL)
        return bool(found)

    def _names(self, folder: str) -> set[str]:
        files = Location(self.task.checkpoint).list(folder)
        return {name for name in files if not name.rpartition("/")[2].startswith(".")}


def _lines(task: Task) -> list[str]:
    return task.journal.read_text().splitlines() if task.journal.exists() else []


# What is left behind.


def done(task: Task) -> int:
    """Return how many batches are committed."""
    if not Path(task.checkpoint, MARK).exists():
        return 0
    last = Checkpoint.open(Location(task.checkpoint)).last_commit()
    return 0 if last is None else last.batch + 1


def check(task: Task, *, stopped: bool = True) -> int:
    """Hold state and all that was handed out to the reference; return how many batches are done.

    Args:
        task: the job.
        stopped: whether it was stopped, perhaps before the last batch was handed out.

    Raises:
        AssertionError: something is not as one process without a failure would have it.
        PenstockError: the checkpoint cannot be read.
    """
    batches = done(task)
    ends = ends_of(task, batches)
    reference = Reference.of(task, ends)
    if batches:
        job, checkpoint = victim.topology(task), Checkpoint.open(Location(task.checkpoint))
        for operator, states in reference.states.items():
            rows = results_of(job, operator, checkpoint.read(operator))
            keys, values = (column.to_pylist() for column in rows.columns)
            assert len(keys) == len(set(keys)), f"{operator} holds a key twice"
            assert states[-1] == dict(zip(keys, values, strict=True)), f"{operator} at {batches}"
    _check_handed(task.handed, reference.handed, stopped=stopped)
    if task.bad:
        _check_handed(task.aside, [reference.aside(n) for n in range(batches)], stopped=stopped)
    _check_counted(task, reference, batches)
    return batches


def _check_handed(folder: Path, expected: Sequence[object], *, stopped: bool) -> None:
    """Hold what each batch handed out to what it should have."""
    handed, batches = sorted(folder.glob("*.json")), len(expected)
    assert [f"{batch:05}" for batch in range(len(handed))] == [path.stem for path in handed]
    assert batches - stopped <= len(handed) <= batches, f"{len(handed)} of {batches} {folder.name}"
    for path, rows in zip(handed, expected, strict=False):
        assert rows == json.loads(path.read_text()), f"{folder.name} as {path.stem}"
    assert [] == list(folder.glob("*.again")), f"{folder.name} again, and not the same"


def _check_counted(task: Task, reference: Reference, batches: int) -> None:
    """Hold how many bad rows each driver counted, and in all, to the reference."""
    lines = "\n".join(_lines(task))
    counted = re.findall(r" counted (\d+) (\w+) (\d+) (.*)$", lines, re.MULTILINE)
    found = {(int(batch), name): (int(rows), how) for batch, name, rows, how in counted}
    assert len(found) == len(counted), "bad rows of a batch were counted twice"
    expected = {
        (batch, name): what
        for batch in range(batches)
        for name, what in reference.counts(batch).items()
    }
    assert found.items() <= expected.items(), "bad rows were counted wrongly"
    # A driver may be killed after it has committed a batch, and before it has counted.
    lost = {batch for batch, _ in expected.keys() - found.keys()}
    up, down = (len(re.findall(rf" {said}$", lines, re.MULTILINE)) for said in ("up", "done"))
    assert len(lost) <= up - down, f"bad rows of the batches {sorted(lost)} were not counted"
    last = re.split(r" up$", lines, flags=re.MULTILINE)[-1]
    for skipped, aside in re.findall(r" totals (\d+) (\d+)$", last, re.MULTILINE):
        mine = re.findall(r" counted \d+ \w+ (\d+) (.*)$", last, re.MULTILINE)
        sums = [sum(int(rows) for rows, how in mine if how == said) for said in ASIDE_OR_NOT]
        assert [int(skipped), int(aside)] == sums, "the totals are not what was counted"


def place_of(task: Task, life: Life) -> str:
    """Tell from what is left behind in what a driver was interrupted."""
    if not life.runs:
        return "while starting"
    kept = Path(task.checkpoint)
    batch = done(task)
    offsets, commits = (
        {task.history + number for number in _numbers(kept / "spark" / name)}
        for name in ("offsets", "commits")
    )
    if batch < task.history:
        begun = any(kept.glob(f"state/*/{batch:010}-*"))
        return f"in bounded data, {'with' if begun else 'without'} state written"
    if batch in offsets:
        planned = any(kept.glob(f"plans/{batch:010}*.json"))
        written = any(kept.glob(f"state/*/{batch:010}-*"))
        plan = "the first under a new plan" if planned else "under the plan before"
        return f"in a batch, {plan}, {'with' if written else 'without'} state written"
    if batch > task.history and batch - 1 not in commits:
        return "after a commit, before Spark's"
    return "between batches"


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.glob("*") if path.name.isdigit()}


# Killing.


@dataclass
class Tally:
    """What was killed, and where that fell."""

    drivers: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    plans: int = 0
    again: int = 0
    jobs: int = 0

    def __str__(self) -> str:
        places = [f"    {count:5} {place}" for place, count in self.drivers.most_common()]
        others = [f"{count:5} processes {kind} killed" for kind, count in self.others.items()]
        return "\n".join(
            [
                f"{self.drivers.total():5} drivers killed, each with all its processes:",
                *places,
                *others,
                f"{self.batches:5} batches in {self.jobs} jobs",
                f"{self.plans:5} of them the first under a new plan, {self.again} handed out again",
            ]
        )


def run(
    task: Task,
    kills: int,
    tally: Tally,
    *,
    also: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a job to its end, killing its driver several times, and compare all with the reference.

    Args:
        task: the job.
        kills: how often.
        tally: where to count.
        also: what else is killed all the time: WORKER or EXECUTOR.
        tell: is told of each kill.
    """
    drawn = random.Random(task.seed)  # noqa: S311
    if task.source == "files":
        victim.write_files(task)
    for number in range(kills):
        life = Life(task, number)
        aim = tuple(AIMS)[(task.seed + number) % len(AIMS)]
        with _harassed(life, also, drawn.random(), tally):
            _await(life, aim, drawn)
            if life.over:
                assert life.await_end() == DONE, f"it ended by itself; see {life.log}"
                break
            life.kill()
        batches = check(task)
        place = place_of(task, life)
        tally.drivers[place] += 1
        tell(f"aimed at {aim:6}: killed {place}; {batches} batches done")
    life = Life(task, kills)
    with _harassed(life, also, drawn.random(), tally):
        ended = life.await_end()
    assert ended == DONE, f"it ended with {ended}; see {life.log}"
    batches = check(task, stopped=task.source == "rate")  # which never ends by itself
    assert ends_of(task, batches)[-1] >= task.batches, f"not all is done; see {life.log}"
    _count(task, tally, batches)


def _await(life: Life, aim: str, drawn: random.Random) -> None:
    """Wait until the moment of a kill."""
    earliest, latest = AIMS[aim]
    if aim != "start":
        life.await_that(lambda: life.runs)
    if aim in FOLDERS:
        for _ in range(drawn.randint(1, 4)):
            life.await_new(aim)
    moment = time.monotonic() + drawn.uniform(earliest, latest)
    life.await_that(lambda: time.monotonic() > moment)


@contextmanager
def _harassed(life: Life, also: str | None, seed: float, tally: Tally) -> Iterator[None]:
    """Kill workers or executors of a driver now and then, and the driver at the end."""
    enough = threading.Event()
    drawn = random.Random(seed)  # noqa: S311

    def harass() -> None:
        commits, kills = life.commits, 0
        while also is not None and not enough.wait(drawn.uniform(*PAUSES[also])):
            if life.commits != commits:
                commits, kills = life.commits, 0
            if kills < KILLS_PER_BATCH and life.runs and life.kill_one(also, drawn):
                kills += 1
                tally.others[also] += 1

    thread = threading.Thread(target=harass, daemon=True)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
        if not life.over:
            life.kill()


def _count(task: Task, tally: Tally, batches: int) -> None:
    text = "\n".join(_lines(task))
    under = dict(re.findall(r" batch (\d+) under (\d+)$", text, re.MULTILINE))
    tally.jobs += 1
    tally.batches += batches
    tally.plans += sum(batch == plan for batch, plan in under.items())
    tally.again += len(re.findall(r" again \d+$", text, re.MULTILINE))


# The long run.


def jobs(
    folder: Path, left: Callable[[], int], seed: int
) -> Iterator[tuple[Task, int, str | None]]:
    """Yield jobs of all kinds with how often to kill each, and what else to kill.

    Args:
        folder: for what the jobs write.
        left: tells how many kills are still to be made; a job may be over before it had all of its.
        seed: of all that is drawn.
    """
    kinds = itertools.cycle(
        (
            Task(folder="", job="chain", source="rate", restless=True),
            Task(folder="", job="fork", source="files", meanwhile=True, history=6),
            Task(folder="", job="fork", source="rate", master="local[2,9]", flaky=True),
            Task(folder="", job="chain", source="files", restless=True, history=4),
            Task(folder="", job="fork", source="rate", meanwhile=True, bad=True),
            Task(folder="", job="chain", source="files", restless=True, history=4, bad=True),
            Task(
                folder="",
                job="fork",
                source="rate",
                master="local-cluster[2,1,1024]",
                meanwhile=True,
            ),
        )
    )
    for number, kind in enumerate(kinds):
        mine = min(left(), KILLS_PER_JOB)
        if mine <= 0:
            return
        home = folder / str(number)
        home.mkdir(parents=True)
        history = min(kind.history, mine)  # so that the stream begins before the last kill
        task = replace(
            kind,
            folder=str(home),
            seed=seed + number,
            batches=2 * max(mine, KILLS_PER_JOB // 2),
            history=history,
        )
        # A worker that is killed at rest fails the task that it is given next, so tasks may fail
        # more often than Spark lets them by default.
        also = {"local[2,9]": WORKER, "local-cluster[2,1,1024]": EXECUTOR}.get(kind.master)
        yield task, mine, also


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill streaming jobs, and check what is left.")
    parser.add_argument("--kills", type=int, default=100, help="of drivers (100)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (0)")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="killing-"))
    tally = Tally()
    started = time.monotonic()
    try:
        for task, kills, also in jobs(
            folder, lambda: chosen.kills - tally.drivers.total(), chosen.seed
        ):
            _say(f"{task.job} from {task.source} on {task.master}, in {task.folder}")
            run(task, kills, tally, also=also, tell=lambda line: _say(f"  {line}"))
            # What failed stays, to be looked into; and what a JVM is still tidying up.
            shutil.rmtree(task.folder, ignore_errors=True)
    finally:
        _say(f"{tally}\n{(time.monotonic() - started) / 60:5.0f} minutes")
    shutil.rmtree(folder, ignore_errors=True)
    _say("state of every key and all that was handed out: always as one process has it")
    return 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # what the command is for


if __name__ == "__main__":
    sys.exit(main())
