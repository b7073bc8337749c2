"""The log of a checkpoint: the batches that are done, their plans, and where their state is.

::

    penstock.json                       which job this is of, and the seed of its hashes
    plans/0000000007.json               the plan that came into force with batch 7; a driver that
                                        finds it, but batch 7 not done, may put 0000000007-1.json
                                        in its place
    commits/0000000007.json             what batch 7 left behind; 0000000007-1.json is the same
                                        state, rewritten
    state/count/0000000007-3-x.arrow    what attempt x of instance 3 of operator count wrote
    output/...                          files of output, named likewise
    drivers/...                         a file of each driver that is at work
    recorded/, admitted/                streams that are played back
    spark/                              Spark's own

A batch is done once its commit is there, and all that a commit refers to is written before it.
Files of lost attempts stay until they are cleaned up, and are never read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from optimizers.errors import CheckpointError
from optimizers.plan import Plan
from optimizers.runtime.log import live_drivers as drivers
from optimizers.runtime.log.commit_log import Log, SavedPlan
from optimizers.runtime.log.inspection import Description, check_files, described, operator_state
from optimizers.runtime.log.job_identity import Identity
from optimizers.runtime.log.live_drivers import Driver, drivers_at
from optimizers.runtime.log.mark import MARK, Mark, make, read_mark
from optimizers.runtime.log.records import Commit
from optimizers.runtime.log.tidying import compact, unneeded
from optimizers.runtime.state.file import LARGEST_BATCH
from optimizers.runtime.storage.location import Location
from optimizers.topology import Topology
from sketches.checks import whole
from sketches.values import FrozenMap

__all__ = ["MARK", "Checkpoint", "SavedPlan"]

T = TypeVar("T")

_NOTHING: Mapping[str, int] = FrozenMap()
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The memory of a job: all that it needs to go on where it stopped, at any point.

    >>> import tempfile
    >>> from optimizers import Plan, Topology
    >>> job = Topology.source("words").then("count", key="word")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint.create_or_open(Location(folder), job)
    ...     _ = checkpoint.save_plan(0, Plan(parallelism={"count": 8}))
    ...     checkpoint.commit(Commit(0, plan=0, tuples=1000))
    ...     again = Checkpoint.create_or_open(Location(folder), job)
    ...     print(again.last_commit().tuples, again.plan_of(1).plan)
    1000 Plan(parallelism={'count': 8})

    Attributes:
        location: the folder it is in.
        mark: the record of how it was made.
    """

    location: Location
    mark: Mark

    @classmethod
    def create_or_open(
        cls, location: Location, topology: Topology, *, seed: int | None = None
    ) -> "Checkpoint":
        """Open the checkpoint of this job; make one if there is nothing yet.

        Args:
            location: the folder.
            topology: the job.
            seed: of the hashes of keys; by default one is drawn for a new checkpoint.

        Raises:
            CheckpointError: it is of another job, format or seed, or is damaged, or other files
                are in its folder; the message says what differs, or which file it is.
        """
        wanted = Identity.of(topology)
        if not location.exists(MARK):
            make(location, Mark.drawn(wanted, seed))
        checkpoint = cls.open(location)
        if seed is not None and seed != checkpoint.seed:
            raise CheckpointError(
                f"seed={seed!r} is given, and the checkpoint {location} was made with seed "
                f"{checkpoint.seed}, by which its keys lie; leave the seed out"
            )
        differences = wanted.differences(checkpoint.identity)
        if differences:
            raise CheckpointError(
                f"the checkpoint {location} is of another job: {'; '.join(differences)}; give "
                "this job a folder of its own, or run the job that the checkpoint is of"
            )
        return checkpoint

    @classmethod
    def open(cls, location: Location) -> "Checkpoint":
        """Open a checkpoint of any job to read it.

        Raises:
            CheckpointError: there is none, or its newest commit is damaged.
        """
        if not location.exists(MARK):
            raise CheckpointError(f"there is no checkpoint at {location}: {MARK} is missing")
        checkpoint = cls(location, read_mark(location))
        checkpoint._of_newest(lambda last: check_files(location, last) if last else None)
        return checkpoint

    @property
    def identity(self) -> Identity:
        """The job it is of."""
        return self.mark.identity

    @property
    def seed(self) -> int:
        """The seed of the hashes of its keys."""
        return self.mark.seed

    def last_commit(self) -> Commit | None:
        """Return the newest commit; None before the first.

        Commits appear whole or not at all. A torn one means that the disk has lost data that it had
        promised to keep; going on from an older one would do its batch twice.

        Raises:
            CheckpointError: the newest commit is damaged.
        """
        numbers = self._log.commits()
        while numbers:
            newest = max(numbers)
            try:
                return self._log.commit(*newest)
            except CheckpointError:
                numbers = self._log.commits()
                if newest in numbers:
                    raise
        return None

    def batches(self) -> tuple[int, ...]:
        """Return the batches whose commits are kept, oldest first."""
        return tuple(sorted({batch for batch, _ in self._log.commits()}))

    def commit_of(self, batch: int) -> Commit:
        """Return the commit of a batch.

        Raises:
            CheckpointError: its commit is no longer kept, or damaged, or was never made.
        """
        numbers = [number for number in self._log.commits() if number[0] == batch]
        if not numbers:
            kept = ", ".join(map(str, self.batches())) or "none"
            raise CheckpointError(
                f"the checkpoint {self.location} keeps no commit of batch {batch}; kept: {kept}"
            )
        return self._log.commit(*max(numbers))

    def commit(self, record: Commit, *, after: Commit | None = None) -> None:
        """Commit a batch, after all files that it refers to are written.

        Args:
            record: the commit.
            after: the commit that the batch began from, where that is known; if another one is the
                newest now, the batch was done for nothing.

        Raises:
            CheckpointError: the batch is not the next one, the plan is not the one in force, or
                others have committed since: two drivers work on this checkpoint.
        """
        last = max(self._log.commits(), default=None)
        self._check_newest(f"batch {record.batch}", after, last)
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
        # The newest commit is the one that the batch began from, and lists the files of all
        # instances: it is not read again.
        in_force = self._log.plan_in_force(record.batch, after)
        if record.saved_plan != in_force:
            raise CheckpointError(
                f"batch {record.batch} was done under the plan of {_plan_text(record.saved_plan)}, "
                f"but that of {_plan_text(in_force)} is in force; save a plan before the work that "
                "it is for, and see that one driver only works on this checkpoint"
            )
        self._log.write_commit(record)
        # While this driver was asleep, another may have gone on, and cleaning may have freed the
        # name.
        newest, _ = max(self._log.commits())
        if newest > record.batch:
            raise CheckpointError(
                f"batch {record.batch} is done already in {self.location}, where batch {newest} "
                "was the last; another driver works on this checkpoint: stop one of the two"
            )

    def plan_of(self, batch: int) -> SavedPlan | None:
        """Return the plan that is in force in a batch; None if none was saved so far.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        number = self._log.plan_in_force(batch)
        return None if number is None else self._log.plan(number)

    def save_plan(
        self,
        batch: int,
        plan: Plan,
        *,
        declared: Mapping[str, int] = _NOTHING,
        after: Commit | None = None,
        instead_of: SavedPlan | None = None,
    ) -> SavedPlan:
        """Save the plan that comes into force with a batch, before any of its work is done.

        Saving it again changes nothing.

        Args:
            batch: the batch.
            plan: the plan, whole.
            declared: the parallelism of each operator as the job declares it.
            after: the commit that the batch begins from, where that is known.
            instead_of: the plan that was saved for this batch before, and must not come into force:
                a driver that has done the batch under it can no longer commit it.

        Raises:
            CheckpointError: another plan was saved for this batch, or the batch is done already.
        """
        number = whole("batch", batch, at_least=0, at_most=LARGEST_BATCH)
        last = max(self._log.commits(), default=None)
        self._check_newest(f"the plan of batch {number}", after, last)
        saved = self.plan_of(number)
        replaced = -1 if instead_of is None else instead_of.revision
        if saved is not None and saved.batch == number and saved.revision != replaced:
            if not saved.says(plan, declared):
                raise CheckpointError(
                    f"another plan is saved for batch {number} in {self.location}, and may have "
                    "been acted on; use the one that plan_of returns, and save yours for the next "
                    "batch"
                )
            return saved
        if last is not None and number <= last[0]:
            raise CheckpointError(
                f"batch {number} is done already, and batch {last[0]} as well; save the plan for "
                f"batch {last[0] + 1}"
            )
        wanted = SavedPlan(number, plan, FrozenMap(declared), replaced + 1)
        self._log.write_plan(wanted)
        return wanted

    def clean(self, keep: int = 2, *, alone: bool = False) -> int:
        """Remove files that no batch needs any more, and return their number.

        The newest commits stay with all that they refer to, and so do files of later batches, as
        their tasks may be running.

        Args:
            keep: how many batches stay readable.
            alone: whether no driver works on the checkpoint. If not, the newest batch keeps all
                its files, also those that were rewritten since: a driver may go on from them.
        """
        names = unneeded(self._log, whole("keep", keep, at_least=1), alone=alone)
        for name in names:
            self.location.delete(name)
        return len(names)

    def compact(self, check: Callable[[], object] = lambda: None) -> Commit | None:
        """Rewrite the state of each instance as one file, and return the commit of that.

        It belongs to the same batch: the state that is read does not change. A driver that works
        meanwhile goes on with the old files, which stay until they are cleaned up, and is stopped
        by its next commit.

        Args:
            check: is called just before the commit; if it raises, nothing is committed.

        Raises:
            CheckpointError: another batch was committed meanwhile.
        """
        return compact(self._log, self.last_commit(), check)

    def check_newest(self, commit: Commit) -> None:
        """Refuse to go on from a commit that is not the newest any more.

        Raises:
            CheckpointError: others have committed since, or rewritten its state.
        """
        last = max(self._log.commits(), default=None)
        self._check_newest(f"batch {commit.batch + 1}", commit, last)

    def announce(self, *, compacts: bool = False) -> Driver:
        """Note that this process works on the checkpoint, until it withdraws.

        Args:
            compacts: whether it rewrites the state, and runs no batches.
        """
        return drivers.announce(self.location, compacts=compacts)

    def withdraw(self, driver: Driver) -> None:
        """Note that a driver no longer works on the checkpoint."""
        drivers.withdraw(self.location, driver)

    def drivers(self) -> list[Driver]:
        """Return the drivers that work on the checkpoint, or ended without withdrawing."""
        return drivers_at(self.location)

    def describe(self) -> Description:
        """Describe the checkpoint by its log, without reading state."""
        return described(self.batches(), self.last_commit())

    def read(self, operator: str, batch: int | None = None) -> pa.Table:
        """Return the state of an operator, one row a key; see `inspection.operator_state`.

        Args:
            operator: the operator.
            batch: the batch that left it, if that is still kept; by default the last one.
        """
        if batch is not None:
            return operator_state(self.location, self.identity, self.commit_of(batch), operator)

        def state(last: Commit | None) -> pa.Table:
            if last is None:
                raise CheckpointError(f"no batch is done in {self.location}; there is no state yet")
            return operator_state(self.location, self.identity, last, operator)

        return self._of_newest(state)

    @property
    def _log(self) -> Log:
        return Log(self.location)

    def _of_newest(self, use: Callable[[Commit | None], T]) -> T:
        """Return the result of a function of the newest commit.

        If the job goes on and cleans up meanwhile, files may be gone while they are read. They then
        belong to an old commit, and there is a newer one.
        """
        last = self.last_commit()
        for _ in range(_TRIES):
            try:
                return use(last)
            except CheckpointError:
                before, last = last, self.last_commit()
                if _number(before) == _number(last):
                    raise
        raise CheckpointError(
            f"{self.location} was cleaned up {_TRIES} times while its state was read; have more "
            "batches kept, by SparkEngine(keep=...), or read while the job rests"
        )

    def _check_newest(self, what: str, after: Commit | None, last: tuple[int, int] | None) -> None:
        """Refuse to write if the newest commit is not the one that the driver went on from."""
        if after is None or last == after.number:
            return
        if last is None or last < after.number:
            found = "is not there any more: files of the checkpoint were removed or replaced"
        elif last[0] == after.batch:
            found = "was rewritten since, by penstock state --compact"
        else:
            found = f"is not the last: batch {last[0]} is done already, by another driver"
        raise CheckpointError(
            f"{what} is refused in {self.location}: the state of batch {after.batch}, which this "
            f"driver began from, {found}; see that only one works on this checkpoint, then start "
            "the job again"
        )


def _number(commit: Commit | None) -> tuple[int, int] | None:
    return None if commit is None else commit.number


def _plan_text(number: tuple[int, int] | None) -> str:
    if number is None:
        return "batch None"
    return f"batch {number[0]}" + (f", revision {number[1]}" if number[1] else "")
