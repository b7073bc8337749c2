"""The records of a checkpoint as they lie on the disk: its commits, and its plans."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from optimizers.errors import CheckpointError, CorruptDataError
from optimizers.plan import Plan
from optimizers.runtime.files import Location
from optimizers.runtime.records import Commit, sealed, unsealed

T = TypeVar("T")

PLANS = "plans"
COMMITS = "commits"

_COMMIT = re.compile(rf"{COMMITS}/(\d{{10}})(?:-(\d+))?\.json")
_PLAN = re.compile(rf"{PLANS}/(\d{{10}})\.json")


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it was saved.

    Attributes:
        batch: the batch with which it came into force.
        plan: the plan, whole.
    """

    batch: int
    plan: Plan


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

    def plans(self) -> list[int]:
        """Return the batches with which plans were to come into force, in their order."""
        found = map(_PLAN.fullmatch, self.location.list(PLANS))
        return sorted(int(name[1]) for name in found if name)

    def plan(self, number: int) -> Plan:
        """Read a plan.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        if number not in self.plans():
            raise CheckpointError(
                f"the plan of batch {number} is in force, but it is not in the checkpoint; "
                "bring its file back from a copy, or begin with a new checkpoint"
            )
        return read_record(self.location, plan_name(number), _unsealed_plan)

    def write_plan(self, number: int, plan: Plan) -> None:
        """Write a plan that is not there yet."""
        self.location.write_new(plan_name(number), sealed(plan.to_json()))

    def plan_in_force(self, batch: int) -> int | None:
        """Return the batch with which the plan of a batch came into force.

        Of a batch that is done its commit tells. A plan for it that is there nevertheless was
        saved by another driver while the batch was being committed, and never came into force.
        """
        plans = [number for number in self.plans() if number <= batch]
        commits = self.commits()
        last = max((number for number, _ in commits), default=-1)
        if plans and plans[-1] > last:
            return plans[-1]
        told_by = max((number for number in commits if number[0] == min(batch, last)), default=None)
        if told_by is not None:
            return self.commit(*told_by).plan
        return plans[-1] if plans else None


def read_record(location: Location, name: str, build: Callable[[bytes], T]) -> T:
    """Read a record, and say which it is if that cannot be done.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    with _telling(location, name):
        return build(location.read_bytes(name))


def commit_name(batch: int, revision: int) -> str:
    """Return the name of the file of a commit."""
    return f"{COMMITS}/{batch:010}" + (f"-{revision}.json" if revision else ".json")


def plan_name(batch: int) -> str:
    """Return the name of the file of a plan."""
    return f"{PLANS}/{batch:010}.json"


@contextmanager
def _telling(location: Location, name: str) -> Iterator[None]:
    try:
        yield
    except CorruptDataError as error:
        raise CheckpointError(
            f"{location.path_of(name)} cannot be used: {error}; bring it back from a copy, or "
            "begin with a new checkpoint"
        ) from error


def _unsealed_plan(content: bytes) -> Plan:
    return Plan.from_json(unsealed(content))
