"""The messages of the paper's migration protocol, which no engine uses, and who takes part.

All are small frozen values. The circled numbers are those of the paper's figure 6; what has none
is not in the paper. `grouping.migration.protocol` says who does what with them.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, TypeAlias

from grouping.migration.reconfiguration import Assigns
from sketches.checks import whole
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.values import FrozenMap, listed, named


class Address(NamedTuple):
    """Who a message is from or for: one instance of an operator, or one of the two below."""

    operator: str
    instance: int = 0


MANAGER = Address("(manager)")
OUTSIDE = Address("(outside)")
"""Where the tuples come from that reach the instances of a source."""

Key: TypeAlias = Hashable
History: TypeAlias = tuple[tuple[int, Address], ...]
"""The state of one key: every tuple it processed, by number, with the instance that sent it.

A count would do for a job. A history shows what is lost, doubled or out of order.
"""


@dataclass(frozen=True, slots=True)
class Job:
    """The operators of a running job, and who feeds whom.

    An operator without an input is a source. The instances are those that take part in a
    reconfiguration: to scale out, start more before it; to scale in, stop some after it.

    >>> job = Job({"read": 1, "count": 2}, (("read", "count"),))
    >>> job.of("count"), job.feeders("count"), job.successors("read")
    ((Address(operator='count', instance=0), Address(operator='count', instance=1)),
     (Address(operator='read', instance=0),), ('count',))
    """

    instances: Mapping[str, int]
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        counts = {
            name: whole(f"instances[{name!r}]", count, at_least=1)
            for name, count in named("instances", self.instances, object).items()
        }
        for name in (MANAGER.operator, OUTSIDE.operator):
            if name in counts:
                raise InvalidValueError(
                    f"an operator is called {name!r}, which is taken; rename it"
                )
        edges = listed("edges", self.edges)
        for edge in edges:
            _check_edge(edge, counts)
        if len(set(edges)) < len(edges):
            raise InvalidValueError(f"edges={edges!r} name an edge twice; name each once")
        graph = {name: [source for source, target in edges if target == name] for name in counts}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            raise InvalidValueError(
                f"operators {error.args[1]!r} feed each other, so each would wait for the others; "
                "leave one of the edges out"
            ) from None
        object.__setattr__(self, "instances", FrozenMap(counts))
        object.__setattr__(self, "edges", edges)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All instances of all operators."""
        return tuple(address for name in self.instances for address in self.of(name))

    @property
    def sources(self) -> tuple[Address, ...]:
        """All instances that no other operator feeds."""
        return tuple(a for a in self.addresses if not self.feeders(a.operator))

    def of(self, operator: str) -> tuple[Address, ...]:
        """Return the instances of an operator."""
        return tuple(Address(operator, index) for index in range(self.instances[operator]))

    def feeders(self, operator: str) -> tuple[Address, ...]:
        """Return the instances that send tuples to an operator."""
        return tuple(
            a for source, target in self.edges if target == operator for a in self.of(source)
        )

    def successors(self, operator: str) -> tuple[str, ...]:
        """Return the operators that an operator sends tuples to."""
        return tuple(target for source, target in self.edges if source == operator)


def _check_edge(edge: object, operators: Mapping[str, int]) -> None:
    match edge:
        case (str(), str()):
            pass
        case _:
            raise InvalidValueError(f"{edge!r} is not an edge; write ('source', 'target')")
    for name in edge:
        if name not in operators:
            raise InvalidValueError(
                f"edge {edge!r}: there is no operator {name!r}; name one of {sorted(operators)!r}"
            )


@dataclass(frozen=True, slots=True)
class DataTuple:
    """One tuple of the stream.

    Attributes:
        number: tells it from all others.
        keys: its key at every operator that keeps state.
    """

    number: int
    keys: Mapping[str, Key]

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", FrozenMap(self.keys))

    def key(self, operator: str) -> Key:
        """Return its key at an operator that keeps state."""
        if operator not in self.keys:
            raise InvalidKeyError(
                f"tuple {self.number} has no key for {operator!r}, which keeps state by it; "
                f"it has keys for {list(self.keys)!r}, give one for each such operator"
            )
        return self.keys[operator]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Who owns which key, of all operators that keep state, from one reconfiguration to the next.

    Attributes:
        epoch: how many reconfigurations there were before.
        owners: for each operator that keeps state, the owners of its keys. An operator that is
            not named keeps none; its tuples are dealt out.
    """

    epoch: int
    owners: Mapping[str, Assigns]

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", FrozenMap(self.owners))

    def check(self, job: Job) -> None:
        """Refuse owners that do not fit the job."""
        for operator, owners in self.owners.items():
            if operator not in job.instances or not job.feeders(operator):
                raise InvalidValueError(
                    f"owners[{operator!r}]: no operator of that name is fed with tuples; "
                    "give owners only to operators that keep state"
                )
            whole(
                f"owners[{operator!r}].instances",
                owners.instances,
                at_least=1,
                at_most=job.instances[operator],
            )

    def instances(self, operator: str) -> int:
        """Return how many instances share the keys of an operator that keeps state."""
        return self.owners[operator].instances or 0

    def owner(self, operator: str, key: Key) -> int:
        """Return which instance owns a key of an operator that keeps state."""
        return int(self.owners[operator].assign([key])[0])

    def home(self, job: Job, operator: str, data: DataTuple) -> Address:
        """Return the instance of an operator that a tuple is to be sent to."""
        if operator not in self.owners:
            return Address(operator, data.number % job.instances[operator])
        return Address(operator, self.owner(operator, data.key(operator)))


@dataclass(frozen=True, slots=True)
class GetMetrics:
    """① From the manager to all: say what you have seen under this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SendMetrics:
    """② To the manager: how many tuples each key of the instance had."""

    epoch: int
    counts: Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class SendReconfiguration:
    """③ From the manager to all: the owners that are to come."""

    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Ack:
    """④ To the manager: the owners of this epoch are known here."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Propagate:
    """⑤ Downstream: no tuple that comes after this from me is routed by earlier owners."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Migrate:
    """⑥ To another instance of the same operator: all the state of mine that is now yours.

    It is sent even when there is none: the recipient may hold tuples back until it comes.
    """

    epoch: int
    states: Mapping[Key, History]


@dataclass(frozen=True, slots=True)
class Done:
    """To the manager: this instance has switched and has all the state that it owns."""

    epoch: int


Body: TypeAlias = (
    DataTuple | GetMetrics | SendMetrics | SendReconfiguration | Ack | Propagate | Migrate | Done
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message on the channel from a sender to a recipient.

    Attributes:
        sender: who says it.
        recipient: the recipient.
        body: what it says.
        number: its place in the channel, by which a recipient knows one that it has had already;
            None to and from the manager, which loses count when it crashes.
    """

    sender: Address
    recipient: Address
    body: Body
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """From outside to the manager, such as every ten minutes: look for better owners."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Asked by the manager: which owners are best, as all instances have seen this?"""

    metrics: Mapping[Address, Mapping[Key, int]]


@dataclass(frozen=True, slots=True)
class Decided:
    """The answer to `Decide`: the owners of all keys; None where the present ones shall stay."""

    owners: Mapping[str, Assigns] | None


@dataclass(frozen=True, slots=True)
class Save:
    """Asked by the manager: keep this where it outlives the manager."""

    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Saved:
    """The answer to `Save`: a manager that restarts from now on is given this epoch."""

    epoch: int


Event: TypeAlias = Begin | Decided | Saved | Message
Instruction: TypeAlias = Decide | Save | Message
