"""The manager of the paper's migration protocol, which no engine uses; see `protocol.py`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from grouping.migration.messages import (
    MANAGER,
    Ack,
    Address,
    Begin,
    Body,
    Configuration,
    Decide,
    Decided,
    Done,
    Event,
    GetMetrics,
    Instruction,
    Job,
    Key,
    Message,
    Propagate,
    Save,
    Saved,
    SendMetrics,
    SendReconfiguration,
)
from grouping.migration.reconfiguration import Assigns
from sketches.errors import InvalidValueError
from sketches.values import FrozenMap


class Phase(StrEnum):
    """How far the manager is with a reconfiguration."""

    IDLE = "idle"
    MEASURING = "measuring"
    DECIDING = "deciding"
    SAVING = "saving"
    DISTRIBUTING = "distributing"
    SWITCHING = "switching"


@dataclass(frozen=True, slots=True)
class Manager:
    """The coordinator: has new owners decided and saved, then leads all instances to them.

    >>> from grouping.migration.protocol import Begin, Configuration, Job
    >>> job = Job({"read": 1, "count": 2}, (("read", "count"),))
    >>> manager, asked = Manager.restarted(job, Configuration(0, {}))
    >>> asked
    ()
    >>> manager, asked = manager.handle(Begin())
    >>> [(message.recipient.operator, message.body) for message in asked]
    [('count', GetMetrics(epoch=0)), ('count', GetMetrics(epoch=0)), ('read', GetMetrics(epoch=0))]

    Attributes:
        job: the job.
        configuration: the owners that it saved last, or is about to save.
        phase: how far it is.
        metrics: the metrics of each instance, as far as they have answered.
        acknowledged: the instances that know the new owners.
        done: the instances that have finished.
        again: whether another reconfiguration is wanted after this one.
    """

    job: Job
    configuration: Configuration
    phase: Phase = Phase.IDLE
    metrics: Mapping[Address, Mapping[Key, int]] = FrozenMap()
    acknowledged: frozenset[Address] = frozenset()
    done: frozenset[Address] = frozenset()
    again: bool = False

    @classmethod
    def restarted(cls, job: Job, saved: Configuration) -> tuple["Manager", tuple[Instruction, ...]]:
        """Return a manager that knows only what was saved, and what it has to do first.

        Args:
            job: the job.
            saved: the configuration saved last; at the start of a job that with epoch 0, which
                all instances have from the beginning.
        """
        if not saved.epoch:
            return cls(job, saved), ()
        return cls(job, saved, Phase.SAVING).handle(Saved(saved.epoch))

    def handle(self, event: Event) -> tuple["Manager", tuple[Instruction, ...]]:
        """Return the manager after an event, and what is to be done, in this order.

        Raises:
            InvalidValueError: owners were decided that do not fit the job, or an answer came that
                was not asked for.
        """
        match event:
            case Begin():
                return self._begin()
            case Decided(owners):
                return self._decided(owners)
            case Saved(epoch):
                return self._saved(epoch)
            case Message(sender=sender, body=SendMetrics(epoch, counts)):
                return self._measured(sender, epoch, counts)
            case Message(sender=sender, body=Ack(epoch)):
                return self._acknowledge(sender, epoch)
            case Message(sender=sender, body=Done(epoch)):
                return self._end(sender, epoch)
            case _:
                raise InvalidValueError(f"{event!r} is for an instance, not for the manager")

    def _begin(self) -> tuple["Manager", tuple[Instruction, ...]]:
        if self.phase is not Phase.IDLE:
            return replace(self, again=True), ()
        question = GetMetrics(self.configuration.epoch)
        asking = Manager(self.job, self.configuration, Phase.MEASURING)
        return asking, _to(self.job.addresses, question)

    def _measured(
        self, sender: Address, epoch: int, counts: Mapping[Key, int]
    ) -> tuple["Manager", tuple[Instruction, ...]]:
        if self.phase is not Phase.MEASURING or epoch != self.configuration.epoch:
            return self, ()  # asked for by a manager that crashed
        metrics = FrozenMap({**self.metrics, sender: counts})
        if len(metrics) < len(self.job.addresses):
            return replace(self, metrics=metrics), ()
        return replace(self, phase=Phase.DECIDING, metrics=FrozenMap()), (Decide(metrics),)

    def _decided(
        self, owners: Mapping[str, Assigns] | None
    ) -> tuple["Manager", tuple[Instruction, ...]]:
        self._check_phase(Phase.DECIDING, "a decision")
        if owners is None:
            return _rest(self)
        if set(owners) != set(self.configuration.owners):
            raise InvalidValueError(
                f"owners were decided for {sorted(owners)!r}; "
                f"decide for {sorted(self.configuration.owners)!r}, which keep state"
            )
        decided = Configuration(self.configuration.epoch + 1, owners)
        decided.check(self.job)
        return replace(self, configuration=decided, phase=Phase.SAVING), (Save(decided),)

    def _saved(self, epoch: int) -> tuple["Manager", tuple[Instruction, ...]]:
        self._check_phase(Phase.SAVING, f"that epoch {epoch} was saved")
        return self._distribute()

    def _distribute(self) -> tuple["Manager", tuple[Instruction, ...]]:
        order = SendReconfiguration(self.configuration)
        return replace(self, phase=Phase.DISTRIBUTING), _to(self.job.addresses, order)

    def _acknowledge(
        self, sender: Address, epoch: int
    ) -> tuple["Manager", tuple[Instruction, ...]]:
        if self.phase is not Phase.DISTRIBUTING or epoch != self.configuration.epoch:
            return self, ()
        after = replace(self, acknowledged=self.acknowledged | {sender})
        if not after.acknowledged.issuperset(self.job.addresses):
            return after, ()
        switching = replace(after, phase=Phase.SWITCHING)
        return _rest_if_done(switching, _to(self.job.sources, Propagate(epoch)))

    def _end(self, sender: Address, epoch: int) -> tuple["Manager", tuple[Instruction, ...]]:
        """Note who is done; after a crash that can be before all have acknowledged again."""
        leading = self.phase in (Phase.DISTRIBUTING, Phase.SWITCHING)
        if not leading or epoch != self.configuration.epoch:
            return self, ()
        return _rest_if_done(replace(self, done=self.done | {sender}))

    def _check_phase(self, phase: Phase, news: str) -> None:
        if self.phase is not phase:
            raise InvalidValueError(
                f"the manager hears {news} while it is {self.phase}, not {phase}; "
                "answer only what it asks, once, and not for a manager that crashed"
            )


def _rest_if_done(
    manager: Manager, sent: tuple[Message, ...] = ()
) -> tuple[Manager, tuple[Instruction, ...]]:
    if manager.phase is Phase.SWITCHING and manager.done.issuperset(manager.job.addresses):
        resting, more = _rest(manager)
        return resting, (*sent, *more)
    return manager, sent


def _rest(manager: Manager) -> tuple[Manager, tuple[Instruction, ...]]:
    """Be idle, or begin again if that was wished for in the meantime."""
    resting = Manager(manager.job, manager.configuration)
    return resting.handle(Begin()) if manager.again else (resting, ())


def _to(recipients: Iterable[Address], body: Body) -> tuple[Message, ...]:
    return tuple(Message(MANAGER, recipient, body) for recipient in recipients)
