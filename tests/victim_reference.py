"""What the jobs of `victim` have to come to, done in plain Python, one tuple after the other."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import victim
from victim import ROUND, TOO_MUCH, tuples
from victim_task import Task

from optimizers import OnError

_Row = tuple[int | None, int | None, int]


@dataclass
class Reference:
    """What a job comes to.

    Attributes:
        states: by operator, after each batch, its results by key.
        handed: what each batch hands out.
        bad: the bad rows of each batch: operator, batch, reason, and user, place and spent.
    """

    states: dict[str, list[dict[int, int]]]
    handed: list[list[list[int]]] = field(default_factory=list)
    bad: list[list[list]] = field(default_factory=list)
    _on_error: dict[str, OnError] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, ends: Sequence[int]) -> "Reference":
        """Do the job.

        Args:
            task: the job.
            ends: up to which of its `tuples` each batch went.
        """
        work = _Sequential(task)
        operators = victim.topology(task).operators
        how = {operator.name: operator.on_error for operator in operators}
        found = cls({"by_user": [], "by_place": []}, _on_error=how)
        for batch, (start, end) in enumerate(pairwise([0, *ends])):
            parts = (tuples(part, task.rows, bad=task.bad) for part in range(start, end))
            changed, bad = work.do(row for part in parts for row in _rows(part))
            found.states["by_user"].append(dict(work.spent))
            found.states["by_place"].append(dict(work.seen))
            found.handed.append(sorted([place, work.seen[place]] for place in changed))
            rows = [[name, batch, reason, list(row)] for name, reason, row in bad]
            found.bad.append(sorted(rows, key=json.dumps))
        return found

    def aside(self, batch: int) -> list[list]:
        """Return the bad rows of a batch that are handed aside."""
        return [row for row in self.bad[batch] if self._on_error[row[0]] is OnError.ASIDE]

    def counts(self, batch: int) -> dict[str, tuple[int, str]]:
        """Return by operator how many bad rows a batch has, and what is said to become of them."""
        said = {OnError.ASIDE: "handed aside", OnError.SKIP: "left out"}
        counts = Counter(row[0] for row in self.bad[batch])
        return {name: (number, said[self._on_error[name]]) for name, number in counts.items()}


class _Sequential:
    """The job, and its state."""

    def __init__(self, task: Task) -> None:
        self.spent, self.seen = Counter[int](), Counter[int]()
        self._forks, self._strict = task.job == "fork", task.bad
        self._first = "dear" if self._forks else "clean"
        self._changed: set[int] = set()
        self._bad: list[tuple[str, str, _Row]] = []

    def do(self, rows: Iterator[_Row]) -> tuple[set[int], list[tuple[str, str, _Row]]]:
        """Do a batch; return which places have another count, and which rows were bad."""
        self._changed, self._bad = set(), []
        came: dict[int, list[_Row]] = defaultdict(list)
        for row in rows:
            if self._forks:
                self._visit(row, "in")
            if self._passes(row):
                came[row[0]].append(row)
        for user, mine in came.items():
            self._spend(user, mine)
        return self._changed, self._bad

    def _passes(self, row: _Row) -> bool:
        """Return whether a row comes to by_user."""
        user, _, price = row
        if self._strict and price == TOO_MUCH:
            self._bad.append((self._first, "ValueError: as planned, too much", row))
            return False
        if self._forks and price <= 4:
            return False
        if user is None:
            reason = f"key 'user' is null on edge {self._first} -> by_user"
            self._bad.append(("by_user", reason, row))
        return user is not None

    def _spend(self, user: int, rows: list[_Row]) -> None:
        """Count what a user has spent in a batch, and where."""
        spent = sum(price for _, _, price in rows)
        if self._strict and spent % ROUND == 0:
            reason = "ValueError: as planned, a round sum"
            self._bad.extend(("by_user", reason, row) for row in rows)
            return
        self.spent[user] += spent
        if self.spent[user] % 7 == 0:
            del self.spent[user]
        for row in rows:
            self._visit(row, "by_user")

    def _visit(self, row: _Row, source: str) -> None:
        """Count a tuple that comes to by_place from another operator."""
        place = row[1]
        if place is None:
            reason = f"key 'place' is null on edge {source} -> by_place"
            self._bad.append(("by_place", reason, row))
        else:
            self.seen[place] += 1
            self._changed.add(place)


def ends_of(task: Task, batches: int) -> list[int]:
    """Return up to which of its `tuples` each batch went, as Spark's log of offsets has it.

    Mostly each has one. But a file that Spark had written down when it was killed, though not yet
    that a batch has it, comes with the next one.
    """
    if task.source != "files" or not Path(task.checkpoint, "spark").exists():
        return list(range(1, batches + 1))
    offsets = Path(task.checkpoint, "spark", "offsets")
    bounded = min(batches, task.history)
    streamed = range(batches - bounded)
    lines = ((offsets / str(batch)).read_text().splitlines()[-1] for batch in streamed)
    ends = [bounded + json.loads(line)["logOffset"] + 1 for line in lines]
    return [*range(1, bounded + 1), *ends]


def _rows(table: pa.Table) -> Iterator[_Row]:
    return zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
