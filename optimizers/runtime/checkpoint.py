"""The log of a checkpoint: which batches are done, under which plan, and where their state is.

::

    penstock.json                       which job this is of
    plans/0000000007.json               the plan that came into force with batch 7
    commits/0000000007.json             what batch 7 left behind; 0000000007-1.json is the same
                                        state, written anew
    state/count/0000000007-3-x.arrow    what attempt x of instance 3 of operator count wrote
    output/...                          files of output, named likewise
    spark/                              Spark's own

A batch is done once its commit is there, and all that a commit refers to is written before it.
Files of lost attempts lie around until they are cleaned up, and are never looked at.
"""

import secrets
from dataclasses import dataclass, replace

import pyarrow as pa

from optimizers.errors import CheckpointError
from optimizers.plan import Plan
from optimizers.runtime.cleaning import cut_off, garbage
from optimizers.runtime.files import Location
from optimizers.runtime.inspection import Description, check_files, described, operator_state
from optimizers.runtime.log import (
    COMMITS,
    PLANS,
    Log,
    SavedPlan,
    commit_name,
    plan_name,
    read_record,
)
from optimizers.runtime.records import Commit, Identity, sealed
from optimizers.runtime.state_file import FOLDER as STATE
from optimizers.runtime.state_file import (
    LARGEST_BATCH,
    Attempt,
    Kind,
    StateFile,
    read_states,
    write_state,
)
from optimizers.topology import Topology
from sketches.checks import whole

__all__ = ["MARK", "Checkpoint", "SavedPlan"]

MARK = "penstock.json"
OUTPUT = "output"
SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The memory of a job: everything it needs to go on where it stopped, and to stop anywhere.

    >>> import tempfile
    >>> from optimizers import Plan, Topology
    >>> job = Topology.source("words").then("count", key="word")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint.create_or_open(Location(folder), job)
    ...     checkpoint.save_plan(0, Plan(parallelism={"count": 8}))
    ...     checkpoint.commit(Commit(0, plan=0, tuples=1000))
    ...     again = Checkpoint.create_or_open(Location(folder), job)
    ...     print(again.last_commit().tuples, again.plan_of(1).plan)
    1000 Plan(parallelism={'count': 8})

    Attributes:
        location: the folder it is in.
        identity: the job it is of.
    """

    location: Location
    identity: Identity

    @classmethod
    def create_or_open(cls, location: Location, topology: Topology) -> "Checkpoint":
        """Open the checkpoint of this job; make one if there is nothing yet.

        Raises:
            CheckpointError: it is of another job or format, or is damaged; the message says what
                differs, or which file it is.
        """
        wanted = Identity.of(topology)
        if not location.exists(MARK):
            _create(location, wanted)
        checkpoint = cls.open(location)
        differences = wanted.differences(checkpoint.identity)
        if differences:
            raise CheckpointError(
                f"the checkpoint {location} is of another job: {'; '.join(differences)}; give "
                "this job a folder of its own, or run the job that the checkpoint is of"
            )
        return checkpoint

    @classmethod
    def open(cls, location: Location) -> "Checkpoint":
        """Open a checkpoint to look into it, whatever job it is of.

        Raises:
            CheckpointError: there is none, or its newest commit is damaged.
        """
        if not location.exists(MARK):
            raise CheckpointError(f"there is no checkpoint at {location}: {MARK} is missing")
        checkpoint = cls(location, read_record(location, MARK, Identity.from_sealed))
        last = checkpoint.last_commit()
        if last is not None:
            check_files(location, last)
        return checkpoint

    def last_commit(self) -> Commit | None:
        """Return what the newest batch that is done left behind; None before the first.

        Commits appear whole or not at all. One that is torn means that the disk has lost what it
        had promised to keep; to go on from an older one would do its batch twice.

        Raises:
            CheckpointError: the newest commit is damaged.
        """
        numbers = self._log.commits()
        return self._log.commit(*max(numbers)) if numbers else None

    def batches(self) -> tuple[int, ...]:
        """Return the batches whose commits are kept, oldest first."""
        return tuple(sorted({batch for batch, _ in self._log.commits()}))

    def commit_of(self, batch: int) -> Commit:
        """Return what a batch left behind.

        Raises:
            CheckpointError: its commit is not kept any more, or damaged, or was never made.
        """
        numbers = [number for number in self._log.commits() if number[0] == batch]
        if not numbers:
            kept = ", ".join(map(str, self.batches())) or "none"
            raise CheckpointError(
                f"the checkpoint {self.location} keeps no commit of batch {batch}; kept: {kept}"
            )
        return self._log.commit(*max(numbers))

    def commit(self, record: Commit) -> None:
        """Say that a batch is done, once all that it refers to is written.

        Raises:
            CheckpointError: the batch is not the next one, the plan is not the one in force, or
                somebody else has committed it: two drivers work on this checkpoint.
        """
        last = max(self._log.commits(), default=None)
        if last is not None and record.batch <= last[0]:
            raise CheckpointError(
                f"batch {record.batch} is done already in {self.location}, where batch {last[0]} "
                "was the last; another driver works on this checkpoint: stop one of the two"
            )
        if last is not None and record.batch > last[0] + 1:
            raise CheckpointError(
                f"batch {record.batch} cannot be committed after batch {last[0]}: what came "
                f"between would be lost; go on with batch {last[0] + 1}"
            )
        in_force = self._log.plan_in_force(record.batch)
        if record.plan != in_force:
            raise CheckpointError(
                f"batch {record.batch} was done under the plan of batch {record.plan}, but that "
                f"of batch {in_force} is in force; save a plan before the work that it is for"
            )
        self._log.write_commit(record)

    def plan_of(self, batch: int) -> SavedPlan | None:
        """Return the plan that is in force in a batch; None if none was saved so far.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        number = self._log.plan_in_force(batch)
        if number is None:
            return None
        return SavedPlan(number, self._log.plan(number))

    def save_plan(self, batch: int, plan: Plan) -> None:
        """Save the plan that comes into force with a batch, before any of its work is done.

        To save it again changes nothing.

        Raises:
            CheckpointError: another plan was saved for this batch, or the batch is done already.
        """
        number = whole("batch", batch, at_least=0, at_most=LARGEST_BATCH)
        saved = self.plan_of(number)
        if saved is not None and saved.batch == number:
            if _decisions(saved.plan) != _decisions(plan):
                raise CheckpointError(
                    f"another plan is saved for batch {number} in {self.location}, and may have "
                    "been acted on; use the one that plan_of returns, and save yours for the next "
                    "batch"
                )
            return
        last = max(self._log.commits(), default=None)
        if last is not None and number <= last[0]:
            raise CheckpointError(
                f"batch {number} is done already, and batch {last[0]} as well; save the plan for "
                f"batch {last[0] + 1}"
            )
        self._log.write_plan(number, plan)

    def clean(self, keep: int = 2) -> int:
        """Remove what no batch needs any more, and return how many files it was.

        The newest commits stay with all that they refer to, as do files of batches after them,
        for their tasks may be running.

        Args:
            keep: how many batches stay readable.
        """
        whole("keep", keep, at_least=1)
        numbers = self._log.commits()
        if not numbers:
            return 0
        newest = dict(sorted(numbers))
        kept = sorted(newest)[-keep:]
        records = [self._log.commit(batch, newest[batch]) for batch in kept]
        needed = frozenset().union(*(record.files for record in records))
        plans = {record.plan for record in records}
        unwanted = [
            commit_name(*number)
            for number in sorted(numbers)
            if number[0] not in kept or number[1] != newest[number[0]]
        ]
        unwanted += [
            plan_name(number)
            for number in self._log.plans()
            if number <= kept[-1] and number not in plans
        ]
        # Records go first: one that is left never refers to a file that is gone.
        for folder in (COMMITS, PLANS):
            unwanted += cut_off(self.location.list(folder), up_to=kept[-1])
        for folder in (STATE, OUTPUT):
            unwanted += garbage(self.location.list(folder), needed, up_to=kept[-1])
        for name in unwanted:
            self.location.delete(name)
        return len(unwanted)

    def compact(self) -> Commit | None:
        """Write the state of each instance anew, in one file, and return the commit of that.

        It belongs to the same batch: nothing that the job would notice changes. Do it while no
        engine works on the checkpoint, for it would still read the files that are replaced; they
        go with the next `clean`.
        """
        last = self.last_commit()
        if last is None or all(len(files) < 2 for _, _, files in last.instances()):
            return last
        name = f"compact-{secrets.token_hex(8)}"
        state = {
            operator: tuple(
                self._in_one(files, Attempt(operator, instance, last.batch, name))
                for instance, files in enumerate(instances)
            )
            for operator, instances in last.state.items()
        }
        compacted = replace(last, state=state, revision=last.revision + 1)
        self._log.write_commit(compacted)
        return compacted

    def describe(self) -> Description:
        """Return what the checkpoint holds, as far as the log tells without reading state."""
        return described(self.batches(), self.last_commit())

    def read(self, operator: str, batch: int | None = None) -> pa.Table:
        """Return the state of an operator, one row a key; see `inspection.operator_state`.

        Args:
            operator: the operator.
            batch: as which batch left it, if that is still kept; the last one without it.
        """
        commit = self.last_commit() if batch is None else self.commit_of(batch)
        if commit is None:
            raise CheckpointError(f"no batch is done in {self.location}; there is no state yet")
        return operator_state(self.location, self.identity, commit, operator)

    @property
    def _log(self) -> Log:
        return Log(self.location)

    def _in_one(self, files: tuple[StateFile, ...], attempt: Attempt) -> tuple[StateFile, ...]:
        if len(files) < 2:
            return files
        rows = read_states(self.location, files)
        return (write_state(self.location, attempt, rows, kind=Kind.BASE),)


def _create(location: Location, identity: Identity) -> None:
    for folder in (COMMITS, PLANS, STATE, OUTPUT, SPARK):
        if location.list(folder):
            raise CheckpointError(
                f"{location} has files in {folder}/ but no {MARK}, so it is not known which job "
                "they are of; bring that file back, or give the job an empty folder"
            )
    for folder in (COMMITS, PLANS, STATE, OUTPUT):
        location.make_folder(folder)
    location.write_new(MARK, sealed(identity.to_json()))


def _decisions(plan: Plan) -> str:
    return replace(plan, notes=()).to_json()
