"""The task of a victim, as a document, and what it leaves behind: a journal, and rows by batch."""

import json
import logging
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location

COUNTED = re.compile(
    r"batch (\d+): operator '(\w+)' could not take (\d+) rows, which were (left out|handed aside)"
)
"""How the driver's log counts bad rows."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a victim has to do.

    Attributes:
        folder: where all it writes goes.
        job: which job: "chain" or "fork".
        source: where tuples come from: "rate" or "files".
        master: what runs tasks, as Spark names it.
        batches: how many batches are wanted.
        rows: of each batch.
        seed: of what the optimizer decides.
        flaky: whether tasks fail at their first attempt, some early and some late.
        slow: seconds that some tasks take longer at their first attempt, at least.
        settings: settings of Spark.
        meanwhile: whether batches go on while the optimizer thinks.
        alone: whether executors find nothing on their own but what Spark and Penstock need.
        kept: where the checkpoint is, if not in the folder.
        history: how many of the batches are bounded ones, which are run before the stream begins.
        restless: whether each driver declares other numbers of instances than the one before.
        declared: the parallelism of by_user and of by_place in the code.
        bad: whether keys are missing and functions raise on some rows, which are skipped by some
            operators and handed aside by others.
    """

    folder: str
    job: str = "chain"
    source: str = "rate"
    master: str = "local[2]"
    batches: int = 12
    rows: int = 600
    seed: int = 0
    flaky: bool = False
    slow: float = 0.0
    settings: dict[str, str] = field(default_factory=dict)
    meanwhile: bool = False
    alone: bool = False
    kept: str | None = None
    history: int = 0
    restless: bool = False
    declared: tuple[int, int] = (2, 2)
    bad: bool = False

    @property
    def checkpoint(self) -> str:
        return self.kept or f"{self.folder}/checkpoint"

    @property
    def handed(self) -> Path:
        """Where what is handed out goes, a file for each batch."""
        return Path(self.folder) / "handed"

    @property
    def aside(self) -> Path:
        """Where bad rows that are handed aside go, a file for each batch."""
        return Path(self.folder) / "aside"

    @property
    def attempts(self) -> Path:
        """Where tasks that have troubles tell of themselves: stage, partition, attempt."""
        return Path(self.folder) / "attempts"

    @property
    def journal(self) -> Path:
        return Path(self.folder) / "journal"


def written(task: Task) -> Path:
    """Write a task where a victim reads it."""
    path = Path(task.folder) / "task.json"
    path.write_text(json.dumps(asdict(task)))
    return path


def note(task: Task, text: str) -> None:
    """Add a line to the journal."""
    with task.journal.open("a") as journal:
        journal.write(f"{time.time():.3f} {text}\n")


def note_counts(task: Task) -> None:
    """Add a line to the journal whenever the log counts bad rows of a batch."""

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if found := COUNTED.match(record.getMessage()):
                note(task, "counted {} {} {} {}".format(*found.groups()))

    logger = logging.getLogger("optimizers")
    logger.setLevel(logging.INFO)
    logger.addHandler(Noting())


def keep(task: Task, rows: DataFrame, batch: int) -> None:
    """Keep what was handed out; if a batch comes again, it must be the same."""
    found = sorted([row["place"], row["count"]] for row in rows.toArrow().to_pylist())
    if not _kept(task.handed, batch, found):
        note(task, f"again {batch}")
        return
    commit = Checkpoint.open(Location(task.checkpoint)).last_commit()
    note(task, f"batch {batch} under {commit.plan}")


def keep_aside(task: Task, rows: DataFrame, batch: int) -> None:
    """Keep what was handed aside, likewise."""
    found = []
    for row in rows.toArrow().to_pylist():
        columns = json.loads(row["row"])
        values = [columns[name] for name in ("user", "place", "spent")]
        found.append([row["operator"], row["batch"], row["reason"], values])
    _kept(task.aside, batch, sorted(found, key=json.dumps))


def _kept(folder: Path, batch: int, found: list[Any]) -> bool:
    """Keep what a batch hands out; return False, and look whether it is the same, if it is kept."""
    path = folder / f"{batch:05}.json"
    if path.exists():
        if json.loads(path.read_text()) != found:
            path.with_suffix(".again").write_text(json.dumps(found))
        return False
    folder.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(found))
    temporary.replace(path)
    return True
