"""The base of groupings: small frozen values that say how tuples find their instance."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from grouping.feedback import Dispatcher, Reporter, Truth
from grouping.hashing import LARGEST_PARTS
from grouping.routers import Router
from sketches.checks import whole
from sketches.errors import InvalidValueError
from sketches.values import listed


@dataclass(frozen=True, slots=True)
class Grouping(ABC):
    """How to choose an instance for a tuple.

    Attributes:
        kind: the name of this grouping in documents and reports. Outside Penstock it is the import
            path of the class, as in ``"their_package.module:Theirs"``, so that documents find it.
        one_owner: whether all tuples of one key reach one instance, from every sender, so that
            the instance may hold the key's state.
        needs_key: whether it chooses by a key.
        listens: whether it can choose tuple by tuple, by reports of the instances; see
            `dispatcher`. Its router does without reports.
    """

    kind: ClassVar[str]
    one_owner: ClassVar[bool] = False
    needs_key: ClassVar[bool] = False
    listens: ClassVar[bool] = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse a grouping without a kind, such as this base class."""
        if not isinstance(getattr(cls, "kind", None), str):
            raise InvalidValueError(
                f"{cls.__name__} has no kind and spreads nothing; "
                "use one that has, such as Shuffle() or Fields()"
            )
        return object.__new__(cls)

    @property
    def instances(self) -> int | None:
        """How many instances it was made for; None where it serves any number."""
        return None

    def router(self, instances: int, *, sender: int = 0, local: Sequence[int] = ()) -> Router:
        """Return the router for one sender's batches.

        Args:
            instances: how many instances the target has.
            sender: the number of the sending instance. Where the choice is free, senders of
                different numbers begin with different instances.
            local: the target's instances that are on the sender's node.

        Raises:
            InvalidValueError: a number is out of its range, or the grouping was made for another
                number of instances.
        """
        count = self._checked_instances(instances)
        number = whole("sender", sender, at_least=0)
        return self._router(count, number, _local(local, count))

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        """Return a router; the arguments are checked. To be overridden."""
        raise InvalidValueError(
            f"{type(self).__name__} does not say how it routes; define its _router, or plan with "
            "a grouping that has one"
        )

    def dispatcher(
        self, instances: int, *, sender: int = 0, senders: int = 1, truth: Truth | None = None
    ) -> Dispatcher:
        """Return the dispatcher for one sender: it chooses tuple by tuple, and gets reports.

        Args:
            instances: how many instances the target has.
            sender: the number of the sending instance, from 0.
            senders: how many instances send.
            truth: the true state, where it is known, for groupings that need it.

        Raises:
            InvalidValueError: a number is out of its range, the grouping was made for another
                number of instances, needs the truth, or does not listen.
        """
        count = self._checked_instances(instances)
        total = whole("senders", senders, at_least=1)
        number = whole("sender", sender, at_least=0, at_most=total - 1)
        return self._dispatcher(count, number, total, truth)

    def reporter(self, instance: int, *, instances: int, senders: int = 1) -> Reporter:
        """Return the reporter of one instance.

        Args:
            instance: which instance.
            instances: how many there are.
            senders: how many instances send to it.
        """
        count = self._checked_instances(instances)
        number = whole("instance", instance, at_least=0, at_most=count - 1)
        return self._reporter(number, count, whole("senders", senders, at_least=1))

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        """Return a dispatcher; the arguments are checked. To be overridden where one listens."""
        raise self._deaf()

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        """Return a reporter; the arguments are checked. To be overridden where one listens."""
        raise self._deaf()

    def _deaf(self) -> InvalidValueError:
        return InvalidValueError(
            f"a {self.kind} grouping hears nothing from instances; ask it for its router()"
        )

    def _checked_instances(self, instances: int) -> int:
        count = whole("instances", instances, at_least=1, at_most=LARGEST_PARTS)
        if self.instances not in (None, count):
            raise InvalidValueError(
                f"instances={count}, but this {self.kind} grouping was made for {self.instances}; "
                f"make one for {count}, or route to {self.instances}"
            )
        return count

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Grouping":
        """Build it from what `to_dict` returned."""
        return cls(**fields)


def _local(local: Sequence[int], instances: int) -> tuple[int, ...]:
    """Return the local instances in order, or say which one cannot be."""
    numbers = [
        whole(f"local[{place}]", number, at_least=0, at_most=instances - 1)
        for place, number in enumerate(listed("local", local))
    ]
    if len(set(numbers)) < len(numbers):
        raise InvalidValueError(f"local={numbers} names an instance twice; name each once")
    return tuple(sorted(numbers))
