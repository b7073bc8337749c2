"""Values: objects that never change after they are made, also when they hold maps or arrays."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from sketches.errors import InvalidValueError

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V], Generic[K, V]):
    """A mapping that cannot change, so that a value may hold it, hash it and send it.

    It equals any mapping of the same items, and iterates in sorted order of its keys: two equal
    maps print and serialise the same, in whichever order they were written.

    >>> FrozenMap({"b": 2, "a": 1})
    FrozenMap({'a': 1, 'b': 2})
    """

    __slots__ = ("_items",)

    _items: dict[K, V]

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        given: Any = {} if items is None else _mapping("items", items)
        object.__setattr__(self, "_items", {key: given[key] for key in sorted(given)})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name!r}: a FrozenMap does not change; make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete {name!r}: a FrozenMap does not change")

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._items == dict(other)

    def __hash__(self) -> int:
        # A hash of names is not the same in every process; nothing is routed or ordered by it.
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"

    def __reduce__(self) -> tuple[type["FrozenMap[K, V]"], tuple[dict[K, V]]]:
        return FrozenMap, (self._items,)


class ArrayValue:
    """Base of frozen dataclasses (``eq=False``) that hold arrays.

    They are compared by content, are not hashable, and pass through their own constructor when
    unpickled or copied, so that arrays stay checked and write-protected on the other side too.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _same(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


def protected(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def protect(value: object, *names: str) -> None:
    """Write-protect arrays that a frozen value was given; for use in its ``__post_init__``."""
    for name in names:
        object.__setattr__(value, name, protected(getattr(value, name)))


def _same(first: object, second: object) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    return type(first) is type(second) and first == second


def named(where: str, values: object, wanted: type[V]) -> FrozenMap[str, V]:
    """Return a map from names to values of one type, or say which entry is not."""
    checked = _mapping(where, values)
    for name, value in checked.items():
        if not isinstance(name, str):
            raise InvalidValueError(f"{where}: {name!r} is not a name; name it by a string")
        _require(f"{where}[{name!r}]", value, wanted)
    return FrozenMap(checked)


def named_by_pair(where: str, values: object, wanted: type[V]) -> FrozenMap[tuple[str, str], V]:
    """Return a map from pairs of names to values of one type, or say which entry is not."""
    checked = _mapping(where, values)
    for pair, value in checked.items():
        if not (
            isinstance(pair, tuple)
            and len(pair) == 2
            and all(isinstance(name, str) for name in pair)
        ):
            raise InvalidValueError(f"{where}: {pair!r} is not an edge; write ('source', 'target')")
        _require(f"{where}[{pair!r}]", value, wanted)
    return FrozenMap(checked)


def listed(where: str, values: object) -> tuple[Any, ...]:
    """Return the members of a list as a tuple, or say why it is not one.

    Text is refused although it iterates, for a single name given in place of a list of names
    would be taken for its letters; a set is, for its order differs from process to process.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidValueError(f"{where}={values!r} is not a list; write [...] around its members")
    if isinstance(values, set | frozenset):
        raise InvalidValueError(f"{where}={values!r} is a set, which has no order; give a list")
    return tuple(values)


def numeric(where: str, values: object) -> NDArray[Any]:
    """Return values as an array of numpy's choice, or say why they are none."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidValueError(
            f"{where}={values!r} is not an array: {error}; give one number for each row"
        ) from error


def _mapping(where: str, values: object) -> Mapping[Any, Any]:
    if not isinstance(values, Mapping):
        raise InvalidValueError(f"{where}={values!r} is not a mapping; write {{name: value}}")
    return values


def _require(where: str, value: object, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise InvalidValueError(f"{where} is {value!r}; give a {wanted.__name__}")
