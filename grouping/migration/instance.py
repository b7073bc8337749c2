"""An instance in the paper's migration protocol, which no engine uses; see `protocol.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from grouping.migration.messages import (
    MANAGER,
    Ack,
    Address,
    Body,
    Configuration,
    DataTuple,
    Done,
    GetMetrics,
    History,
    Job,
    Key,
    Message,
    Migrate,
    Propagate,
    SendMetrics,
    SendReconfiguration,
)
from sketches.errors import InvalidValueError
from sketches.values import FrozenMap

Arrival: TypeAlias = tuple[Address, DataTuple]


@dataclass(frozen=True, slots=True)
class ProtocolInstance:
    """One instance of an operator: processes tuples, and hands its keys over when it has to.

    >>> from grouping.migration.protocol import OUTSIDE, Address, Configuration
    >>> from grouping.migration.protocol import DataTuple, Job, Message
    >>> job = Job({"read": 1, "print": 1}, (("read", "print"),))
    >>> reader = ProtocolInstance.fresh(Address("read"), job, Configuration(0, {}))
    >>> reader, sent = reader.handle(Message(OUTSIDE, Address("read"), DataTuple(7, {}), 0))
    >>> [(message.recipient, message.body.number) for message in sent]
    [(Address(operator='print', instance=0), 7)]

    Attributes:
        address: which instance of which operator.
        job: who else there is.
        old: the owners that were in force at the end of the last reconfiguration.
        new: the owners that are to be, or are already, in force; ``old`` when none is under way.
        switched: whether ``new`` is in force here.
        heralds: the senders that have said that they route by ``new``.
        givers: the siblings that have sent all their state that goes here.
        state: the history of each key that is here.
        waiting: tuples whose key's state has not come, in the order they came in.
        received: how many messages came from each process; the next one must have this number.
        sent: how many messages went to each process.
    """

    address: Address
    job: Job
    old: Configuration
    new: Configuration
    switched: bool = False
    heralds: frozenset[Address] = frozenset()
    givers: frozenset[int] = frozenset()
    state: Mapping[Key, History] = FrozenMap()
    waiting: tuple[Arrival, ...] = ()
    received: Mapping[Address, int] = FrozenMap()
    sent: Mapping[Address, int] = FrozenMap()

    @classmethod
    def fresh(cls, address: Address, job: Job, configuration: Configuration) -> "ProtocolInstance":
        """Return an instance as it is when the job starts."""
        return cls(address, job, configuration, configuration)

    def handle(self, message: Message) -> tuple["ProtocolInstance", tuple[Message, ...]]:
        """Return the instance after a message, and what it sends, in this order.

        Raises:
            InvalidValueError: the message cannot have come if the engine keeps its promises and
                all others keep to the protocol.
        """
        turn = _Turn(self)
        if turn.is_new(message):
            turn.react(message.sender, message.body)
        return turn.result()


class _Turn:
    """One step of an instance: what it becomes, and what it sends, one thing after the other."""

    def __init__(self, instance: ProtocolInstance) -> None:
        self.now = instance
        self.posts: list[tuple[Address, Body]] = []

    def result(self) -> tuple[ProtocolInstance, tuple[Message, ...]]:
        """Number the messages, each in its channel."""
        sent = dict(self.now.sent)
        messages = []
        for recipient, body in self.posts:
            number = None if recipient == MANAGER else sent.get(recipient, 0)
            if number is not None:
                sent[recipient] = number + 1
            messages.append(Message(self.now.address, recipient, body, number))
        return replace(self.now, sent=FrozenMap(sent)), tuple(messages)

    def is_new(self, message: Message) -> bool:
        """Count a message, unless it came before or is of the manager, who does not count."""
        if message.number is None:
            return True
        expected = self.now.received.get(message.sender, 0)
        if message.number > expected:
            raise InvalidValueError(
                f"{self.now.address} got message {message.number} of {message.sender}, not "
                f"{expected}; channels must be first in, first out and lose nothing"
            )
        if message.number < expected:
            return False
        self.become(received=FrozenMap({**self.now.received, message.sender: expected + 1}))
        return True

    def react(self, sender: Address, body: Body) -> None:
        match body:
            case DataTuple():
                self.take(sender, body)
            case GetMetrics(epoch):
                counts = {key: len(history) for key, history in self.now.state.items()}
                self.post(MANAGER, SendMetrics(epoch, FrozenMap(counts)))
            case SendReconfiguration(configuration):
                self.prepare(configuration)
            case Propagate(epoch):
                self.hear(sender, epoch)
            case Migrate(epoch, states):
                self.receive(sender, epoch, states)
            case _:
                raise InvalidValueError(
                    f"{body!r} is for the manager, not for {self.now.address}; send it there"
                )

    def take(self, sender: Address, data: DataTuple) -> None:
        """Process a tuple, or let it wait for the state of its key."""
        if self.keeps_state:
            former = self.former_owner(data)
            self.check_owner(sender, data, former)
            if former != self.index and former not in self.now.givers:
                self.become(waiting=(*self.now.waiting, (sender, data)))
                return
        self.process(sender, data)

    def check_owner(self, sender: Address, data: DataTuple, former: int) -> None:
        """Refuse a tuple that no one may send here; after the switch, former owners are past."""
        owners = {self.now.new.owner(self.operator, data.key(self.operator))}
        if not self.now.switched:
            owners.add(former)
        if self.index not in owners:
            raise InvalidValueError(
                f"{sender} sent {data} to {self.now.address}, who does not own its key; "
                "route by the owners of the last epoch that was propagated"
            )

    def process(self, sender: Address, data: DataTuple) -> None:
        """Add a tuple to the state of its key and send it on."""
        if self.keeps_state:
            key = data.key(self.operator)
            history = (*self.now.state.get(key, ()), (data.number, sender))
            self.become(state=FrozenMap({**self.now.state, key: history}))
        routing = self.now.new if self.now.switched else self.now.old
        for successor in self.now.job.successors(self.operator):
            self.post(routing.home(self.now.job, successor, data), data)

    def prepare(self, configuration: Configuration) -> None:
        """Remember the owners to come; a manager that crashed asks again, and is answered again."""
        epoch, ended = configuration.epoch, self.now.old.epoch
        if epoch > ended + 1:
            raise InvalidValueError(
                f"{self.now.address} is asked for epoch {epoch} before it has ended {ended + 1}; "
                "wait until all instances are done"
            )
        self.post(MANAGER, Ack(epoch))
        if epoch <= ended:
            self.post(MANAGER, Done(epoch))
        else:
            self.become(new=configuration)

    def hear(self, sender: Address, epoch: int) -> None:
        """Note who routes by the new owners; switch when all that feed this instance do."""
        if epoch <= self.now.old.epoch or self.now.switched:
            return  # said again by a manager that crashed
        self.check_epoch(sender, epoch)
        self.become(heralds=self.now.heralds | {sender})
        if self.now.heralds.issuperset(self.now.job.feeders(self.operator) or (MANAGER,)):
            self.switch()

    def switch(self) -> None:
        """Route by the new owners, send their keys to them, and pass the word on."""
        new = self.now.new
        leaving: dict[int, dict[Key, History]] = {index: {} for index in self.takers}
        staying: dict[Key, History] = {}
        for key, history in self.now.state.items():
            owner = new.owner(self.operator, key)
            (staying if owner == self.index else leaving[owner])[key] = history
        self.become(switched=True, state=FrozenMap(staying))
        for index, states in leaving.items():
            self.post(Address(self.operator, index), Migrate(new.epoch, FrozenMap(states)))
        for successor in self.now.job.successors(self.operator):
            for address in self.now.job.of(successor):
                self.post(address, Propagate(new.epoch))
        self.finish_if_complete()

    def receive(self, sender: Address, epoch: int, states: Mapping[Key, History]) -> None:
        """Take a former owner's state over, then process the tuples that waited for it."""
        self.check_epoch(sender, epoch)
        waiting = self.now.waiting
        self.become(
            state=FrozenMap({**self.now.state, **states}),
            givers=self.now.givers | {sender.instance},
            waiting=(),
        )
        for origin, data in waiting:
            self.take(origin, data)
        self.finish_if_complete()

    def finish_if_complete(self) -> None:
        """End the reconfiguration here once this instance has switched and has all its state."""
        if self.now.switched and self.now.givers.issuperset(self.givers_to_come):
            self.post(MANAGER, Done(self.now.new.epoch))
            self.become(old=self.now.new, switched=False, heralds=frozenset(), givers=frozenset())

    def check_epoch(self, sender: Address, epoch: int) -> None:
        """Refuse word of a reconfiguration that this instance is not in."""
        if epoch != self.now.new.epoch or epoch == self.now.old.epoch:
            raise InvalidValueError(
                f"{sender} wrote to {self.now.address} of epoch {epoch}, "
                "which is not under way there; switch only when all have acknowledged"
            )

    @property
    def operator(self) -> str:
        return self.now.address.operator

    @property
    def index(self) -> int:
        return self.now.address.instance

    @property
    def keeps_state(self) -> bool:
        return self.operator in self.now.new.owners

    def former_owner(self, data: DataTuple) -> int:
        """Who owned the key of a tuple when the last reconfiguration ended."""
        return self.now.old.owner(self.operator, data.key(self.operator))

    @property
    def takers(self) -> list[int]:
        """The siblings that may own keys of this instance from now on."""
        return self.partners(self.now.old, self.now.new)

    @property
    def givers_to_come(self) -> list[int]:
        """The siblings that may have owned keys that are this instance's from now on."""
        return self.partners(self.now.new, self.now.old)

    def partners(self, mine: Configuration, theirs: Configuration) -> list[int]:
        """The siblings that own keys in one configuration, if this instance does in the other."""
        if not self.keeps_state or mine.owners[self.operator] == theirs.owners[self.operator]:
            return []
        if self.index >= mine.instances(self.operator):
            return []
        return [i for i in range(theirs.instances(self.operator)) if i != self.index]

    def become(self, **changed: Any) -> None:
        self.now = replace(self.now, **changed)

    def post(self, recipient: Address, body: Body) -> None:
        self.posts.append((recipient, body))
