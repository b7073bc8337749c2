"""The paper's reconfigurations, which no engine uses: a change of owners, instance by instance.

An optimizer puts new tables in the place of old ones. For each instance that comes to three
things: the new router, the keys whose state it has to send, each with its recipient, and the keys
whose state it is to receive, each with its sender. Here they are plain arrays, worked out for all
instances in one sort. How a running job gets from one to the other is modelled in
`grouping.migration.protocol`.

References:
    Caneill, El Rheddane, Leroy, De Palma, "Locality-aware routing in stateful streaming
    applications", Middleware 2016, section 3.4.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sketches.checks import weights, whole
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.key_columns import KeyColumn
from sketches.key_identity import distinct
from sketches.keys import as_keys
from sketches.values import ArrayValue, protected

Places: TypeAlias = NDArray[np.intp]


class Assigns(Protocol):
    """Says which of a known number of instances owns a key, such as a routing table."""

    @property
    def instances(self) -> int | None:
        """How many instances share the keys."""

    def assign(self, keys: Any) -> NDArray[np.int32]:
        """Return the owner of each key, from 0 up to ``instances``."""


@dataclass(frozen=True, eq=False)
class Transfer(ArrayValue):
    """The keys that one instance hands to another.

    Attributes:
        sender: the instance that owns them now.
        recipient: the instance that is to own them.
        keys: integers as an int64 array, other keys as objects.
        bytes: how much state they have; None where that is not known.
    """

    sender: int
    recipient: int
    keys: NDArray[Any]
    bytes: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", protected(self.keys))

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class InstanceChange(ArrayValue):
    """What one instance gets: the three parts of the paper's reconfiguration message.

    Attributes:
        instance: which one.
        router: the new owners of all keys.
        send: the keys it has to give away, a transfer for each recipient, in their order.
        receive: the keys it is to get, a transfer for each sender, in their order.
    """

    instance: int
    router: Assigns
    send: tuple[Transfer, ...]
    receive: tuple[Transfer, ...]


@dataclass(frozen=True, eq=False)
class Reconfiguration(ArrayValue):
    """All keys of one operator that change their owner; `reconfigure` makes one.

    Rows are sorted by sender, then recipient, then the code of the key.

    Attributes:
        router: the new owners of all keys.
        instances: how many instances take part: those of the old and of the new owners.
        keys: the keys that move; integers as an int64 array, other keys as objects.
        senders: who owns each of them now.
        recipients: the next owner of each of them.
        sizes: how many bytes of state each of them has; None where that is not known.
    """

    router: Assigns
    instances: int
    keys: NDArray[Any]
    senders: NDArray[np.int32]
    recipients: NDArray[np.int32]
    sizes: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("keys", "senders", "recipients", "sizes"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, protected(array))

    @property
    def moved(self) -> int:
        """How many keys change their owner."""
        return len(self.keys)

    @property
    def bytes(self) -> float | None:
        """How much state moves with them; None where that is not known."""
        return None if self.sizes is None else float(self.sizes.sum())

    def transfers(self) -> tuple[Transfer, ...]:
        """Return all that is sent, by sender and then recipient."""
        pairs = self.senders.astype(np.int64) * self.instances + self.recipients
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        return tuple(
            self._transfer(slice(start, end))
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=False)
        )

    def changes(self) -> tuple[InstanceChange, ...]:
        """Return the message for each instance, in their order; some have nothing to do."""
        send: list[list[Transfer]] = [[] for _ in range(self.instances)]
        receive: list[list[Transfer]] = [[] for _ in range(self.instances)]
        for transfer in self.transfers():  # by sender, so that each list comes out in order
            send[transfer.sender].append(transfer)
            receive[transfer.recipient].append(transfer)
        return tuple(
            InstanceChange(instance, self.router, tuple(send[instance]), tuple(receive[instance]))
            for instance in range(self.instances)
        )

    def _transfer(self, rows: slice) -> Transfer:
        return Transfer(
            int(self.senders[rows.start]),
            int(self.recipients[rows.start]),
            self.keys[rows],
            None if self.sizes is None else float(self.sizes[rows].sum()),
        )


def reconfigure(old: Assigns, new: Assigns, keys: Any, *, sizes: Any = None) -> Reconfiguration:
    """Return what moves when the keys of an operator get new owners.

    The number of instances may change as well: keys of an instance that is to go are sent away,
    and one that is to come receives its keys.

    >>> from grouping.migration.reconfiguration import reconfigure
    >>> class Modulo:
    ...     def __init__(self, instances):
    ...         self.instances = instances
    ...
    ...     def assign(self, keys):
    ...         return (keys.values % self.instances).astype("int32")
    >>> wider = reconfigure(Modulo(2), Modulo(3), [0, 1, 2, 3])
    >>> [(move.sender, move.recipient, move.keys.tolist()) for move in wider.transfers()]
    [(0, 2, [2]), (1, 0, [3])]

    Args:
        old: who owns each key now.
        new: who is to own it.
        keys: every key that has state, each once, in any container that `as_keys` reads.
        sizes: how many bytes of state each of them has, where that is known.

    Raises:
        InvalidKeyError: a key is listed twice, or is not of the kind that an owner was made for.
        InvalidValueError: an owner does not say how many instances there are, or names one
            beyond them; or the sizes do not fit the keys.
    """
    before, after = _instances("old", old), _instances("new", new)
    width = max(before, after)
    column = as_keys(keys, copy=False)
    if sizes is not None:
        sizes = weights("sizes", sizes, len(column))
    # Sorted by code, the answer is the same for any order of the keys.
    by_code = np.argsort(column.codes, kind="stable")
    _refuse_twice(column, by_code)
    senders = _owners("old", old, column, before)
    recipients = _owners("new", new, column, after)
    moving = by_code[(senders != recipients)[by_code]]
    rows = moving[_stable_order(senders[moving].astype(np.int64) * width + recipients[moving])]
    return Reconfiguration(
        new,
        width,
        _as_array(column.take(rows)),
        senders[rows],
        recipients[rows],
        None if sizes is None else sizes[rows],
    )


def _instances(which: str, owners: Assigns) -> int:
    if owners.instances is None:
        raise InvalidValueError(
            f"{which} owners {owners!r} serve any number of instances; "
            "give those of the number there is, such as RoutingTable([], [], 4) for Fields()"
        )
    return whole(f"{which}.instances", owners.instances, at_least=1)


def _owners(which: str, owners: Assigns, column: KeyColumn, instances: int) -> NDArray[np.int32]:
    """Ask for the owner of every key; an owner beyond the instances would lose its state."""
    if not len(column):  # an empty column has no kind, and any table would be right to wonder
        return np.empty(0, np.int32)
    parts = np.asarray(owners.assign(column))
    if parts.shape != (len(column),) or parts.dtype.kind not in "iu":
        raise InvalidValueError(
            f"{which} owners {owners!r} assign an array of {parts.dtype}, {parts.shape}, to "
            f"{len(column)} keys; it must be one integer for each"
        )
    wrong = np.flatnonzero((parts < 0) | (parts >= instances))
    if len(wrong):
        key = column.take(wrong[:1]).objects()[0]
        raise InvalidValueError(
            f"{which} owners {owners!r} give key {key!r} to instance {parts[wrong[0]]}; "
            f"there are {instances}, counted from 0"
        )
    return parts.astype(np.int32, copy=False)


def _refuse_twice(column: KeyColumn, by_code: Places) -> None:
    codes = column.codes[by_code]
    if not (codes[1:] == codes[:-1]).any():
        return
    _, firsts = distinct(column)
    if len(firsts) < len(column):
        twice = np.setdiff1d(by_code, firsts)
        key = column.take(twice[:1]).objects()[0]
        raise InvalidKeyError(
            f"key {key!r} is listed twice; a key has one owner and one state, list it once"
        )


def _stable_order(pairs: NDArray[np.int64]) -> Places:
    """Sort sender-recipient pairs; numpy sorts 16-bit numbers by counting, ten times as fast."""
    narrow = pairs.astype(np.uint16) if pairs.size and pairs.max() <= 0xFFFF else pairs
    return np.argsort(narrow, kind="stable")


def _as_array(column: KeyColumn) -> NDArray[Any]:
    return column.codes.view(np.int64) if column.kind == "int" else column.objects()
