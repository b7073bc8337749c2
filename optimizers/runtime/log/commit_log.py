"""The records of a checkpoint on disk: its commits and its plans."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from optimizers.errors import CheckpointError, CorruptDataError
from optimizers.plan import Plan
from optimizers.runtime.log.records import Commit, sealed, unsealed
from optimizers.runtime.storage.location import Location
from sketches.values import FrozenMap

T = TypeVar("T")

PLANS = "plans"
COMMITS = "commits"

_COMMIT = re.compile(rf"{COMMITS}/(\d{{10}})(?:-(\d+))?\.json")
_PLAN = re.compile(rf"{PLANS}/(\d{{10}})(?:-(\d+))?\.json")
_END = "\n}\n"
_DECLARED = ',\n  "declared": '


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it was saved.

    Attributes:
        batch: the batch with which it came into force.
        plan: the plan, whole.
        declared: the parallelism of each operator as the job declared it when the plan was saved.
        revision: how many plans were saved for that batch before, and replaced.
    """

    batch: int
    plan: Plan
    declared: Mapping[str, int] = field(default_factory=FrozenMap)
    revision: int = 0

    @property
    def number(self) -> tuple[int, int]:
        """Its identity: its batch and its revision."""
        return self.batch, self.revision

    def says(self, plan: Plan, declared: Mapping[str, int]) -> bool:
        """Return whether it decides the same, for a job with the same declared numbers."""
        return _decisions(self.plan) == _decisions(plan) and self.declared == declared

    def to_json(self) -> str:
        """Write it as a JSON document: that of the plan, with the declared numbers at its end."""
        text = self.plan.to_json().removesuffix(_END)
        return text + _DECLARED + json.dumps(dict(self.declared)) + _END

    @classmethod
    def read(cls, content: bytes, batch: int, revision: int) -> "SavedPlan":
        """Read the sealed document of `to_json`."""
        text = unsealed(content)
        # No line inside a text begins like this, as line breaks are escaped.
        place = text.rfind(_DECLARED.encode())
        if place < 0:
            raise CorruptDataError("it has no declared parallelism, so it is not a saved plan")
        plan = Plan.from_json(text[:place] + _END.encode())
        declared = json.loads(text[place + len(_DECLARED) : -len(_END)])
        return cls(batch, plan, FrozenMap(declared), revision)


@dataclass(frozen=True, slots=True)
class Log:
    """The commits and plans in a folder.

    Attributes:
        location: the folder.
    """

    location: Location

    def commits(self) -> list[tuple[int, int]]:
        """Return batch and revision of each commit."""
        found = map(_COMMIT.fullmatch, self.location.list(COMMITS))
        return [(int(name[1]), int(name[2] or 0)) for name in found if name]

    def commit(self, batch: int, revision: int) -> Commit:
        """Read a commit.

        Raises:
            CheckpointError: it is damaged.
        """
        return read_record(self.location, commit_name(batch, revision), Commit.from_sealed)

    def write_commit(self, record: Commit) -> None:
        """Write a commit that is not there yet."""
        name = commit_name(record.batch, record.revision)
        self.location.write_new(name, sealed(record.to_json()))

    def plans(self) -> list[tuple[int, int]]:
        """Return batch and revision of each plan, in their order."""
        found = map(_PLAN.fullmatch, self.location.list(PLANS))
        return sorted((int(name[1]), int(name[2] or 0)) for name in found if name)

    def plan(self, number: tuple[int, int]) -> SavedPlan:
        """Read a plan.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        if number not in self.plans():
            raise CheckpointError(
                f"the plan of batch {number[0]} is in force, but {plan_name(*number)} is not in "
                "the checkpoint; bring its file back from a copy, or begin with a new checkpoint"
            )
        name = plan_name(*number)
        return read_record(self.location, name, lambda content: SavedPlan.read(content, *number))

    def write_plan(self, saved: SavedPlan) -> None:
        """Write a plan that is not there yet."""
        self.location.write_new(plan_name(*saved.number), sealed(saved.to_json()))

    def plan_in_force(self, batch: int, known: Commit | None = None) -> tuple[int, int] | None:
        """Return batch and revision of the plan that a batch is done under; None without any.

        For a finished batch, its commit says so. Any other plan for it was saved by another driver
        while the batch was being committed, and never came into force.

        Args:
            batch: the batch.
            known: a commit of this folder, which need not be read.
        """
        plans = [number for number in self.plans() if number[0] <= batch]
        commits = self.commits()
        last = max((number for number, _ in commits), default=-1)
        if plans and plans[-1][0] > last:
            return plans[-1]
        same = [number for number in commits if number[0] == min(batch, last)]
        if same:
            newest = max(same)
            if known is not None and known.number == newest:
                return known.saved_plan
            return self.commit(*newest).saved_plan
        return plans[-1] if plans else None


def read_record(location: Location, name: str, build: Callable[[bytes], T]) -> T:
    """Read a record; an error names the record.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    with _telling(location, name):
        return build(location.read_bytes(name))


def commit_name(batch: int, revision: int) -> str:
    """Return the name of the file of a commit."""
    return f"{COMMITS}/{batch:010}" + (f"-{revision}.json" if revision else ".json")


def plan_name(batch: int, revision: int) -> str:
    """Return the name of the file of a plan."""
    return f"{PLANS}/{batch:010}" + (f"-{revision}.json" if revision else ".json")


@contextmanager
def _telling(location: Location, name: str) -> Iterator[None]:
    try:
        yield
    except CorruptDataError as error:
        raise CheckpointError(
            f"{location.path_of(name)} cannot be used: {error}; bring it back from a copy, or "
            "begin with a new checkpoint"
        ) from error


def _decisions(plan: Plan) -> str:
    return replace(plan, notes=()).to_json()
