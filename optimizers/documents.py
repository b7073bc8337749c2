"""Values as JSON documents: an envelope that says what it is, and strict reading.

A document is a JSON object whose ``"penstock"`` names the kind of value and whose ``"version"``
is the version of that kind. Reading refuses unknown fields, so that a typo in a hand-written plan
is an error and never a decision that is silently left out.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from optimizers.errors import CorruptDataError, PenstockError

T = TypeVar("T")

_VERSION = 1
_REQUIRED = object()


def write(kind: str, body: Mapping[str, Any]) -> str:
    """Write a document of this kind, one top-level entry to a line; equal values, equal text."""
    entries: dict[str, Any] = {"penstock": kind, "version": _VERSION, **body}
    lines = [f"{json.dumps(name)}: {_compact(value)}" for name, value in entries.items()]
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def read(text: str | bytes, kind: str, build: "Callable[[Record], T]") -> T:
    """Read a document of this kind and build its value.

    Raises:
        CorruptDataError: it is not JSON, not of this kind, of another version, or not a valid
            value of its kind.
    """
    try:
        return _built(_parsed(text, kind), kind, build)
    except RecursionError as error:
        raise CorruptDataError(f"this {kind} is nested too deeply to be one of ours") from error


def _parsed(text: str | bytes, kind: str) -> object:
    if not isinstance(text, str | bytes):
        raise CorruptDataError(f"a {kind} is read from text, not from {_shown(text)}")
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
        )
    except ValueError as error:
        raise CorruptDataError(f"this {kind} is not JSON: {error}") from error


def _built(document: object, kind: str, build: "Callable[[Record], T]") -> T:
    record = Record(document, kind)
    found = record.take("penstock", str)
    if found != kind:
        raise CorruptDataError(f"this document is a {found!r}, not a {kind!r}")
    version = record.take("version", int)
    if version != _VERSION:
        raise CorruptDataError(
            f"this {kind} is of version {version}, and this Penstock reads version {_VERSION}; "
            "read it with the version that wrote it"
        )
    return record.into(build)


class Record:
    """The fields of one JSON object, each to be taken once and none to be left over."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise CorruptDataError(f"{where}: expected an object, found {_shown(data)}")
        self._data: dict[str, Any] = dict(data)
        self._where = where

    def take(self, name: str, wanted: type[T], default: object = _REQUIRED) -> T:
        """Take the field, which must be of the wanted JSON type."""
        if name not in self._data and default is not _REQUIRED:
            return default  # type: ignore[return-value]
        if name not in self._data:
            raise CorruptDataError(f"{self._where}: {name!r} is missing")
        value = self._data.pop(name)
        number = wanted is float and isinstance(value, int)
        if isinstance(value, bool) is not (wanted is bool) or not (
            number or isinstance(value, wanted)
        ):
            raise CorruptDataError(
                f"{self._where}: {name!r} is {_shown(value)}, "
                f"where the type {wanted.__name__} is expected"
            )
        if not number:
            return value  # type: ignore[no-any-return]
        try:
            return float(value)  # type: ignore[return-value]
        except OverflowError:
            raise CorruptDataError(f"{self._where}: {name!r} is too large a number") from None

    def optional(self, name: str, wanted: type[T]) -> T | None:
        """Take the field, or return None where it is absent or null."""
        if self._data.get(name) is None:
            self._data.pop(name, None)
            return None
        return self.take(name, wanted)

    def each(self, name: str, build: "Callable[[Record], T]") -> list[T]:
        """Build a value from each object of a list; an absent list is empty."""
        return [
            Record(item, f"{self._where}: {name}[{place}]").into(build)
            for place, item in enumerate(self.take(name, list, []))
        ]

    def mapping(self, name: str, build: Callable[[Any, str], T]) -> dict[str, T]:
        """Build a value from each value of an object; an absent object is empty."""
        items = self.take(name, dict, {})
        return {
            key: build(value, f"{self._where}: {name}[{key!r}]") for key, value in items.items()
        }

    def strings(self, name: str) -> tuple[str, ...]:
        """Take a list of strings; an absent list is empty."""
        return self._list(name, str)

    def optional_strings(self, name: str) -> tuple[str, ...] | None:
        """Take a list of strings, or return None where it is absent or null."""
        if self._data.get(name) is None:
            self._data.pop(name, None)
            return None
        return self.strings(name)

    def integers(self, name: str) -> tuple[int, ...]:
        """Take a list of integers; an absent list is empty."""
        return self._list(name, int)

    def floats(self, name: str) -> tuple[float, ...]:
        """Take a list of numbers; one that is absent or null is empty."""
        if self._data.get(name) is None:
            self._data.pop(name, None)
            return ()
        return tuple(float(value) for value in self._list(name, (int, float)))

    def into(self, build: "Callable[[Record], T]") -> T:
        """Build a value, which must take every field and find it valid."""
        try:
            value = build(self)
        except CorruptDataError:
            raise
        except PenstockError as error:
            raise CorruptDataError(f"{self._where}: {error}") from error
        if self._data:
            unknown = ", ".join(map(repr, sorted(self._data)))
            raise CorruptDataError(f"{self._where}: unknown field {unknown}; correct or remove it")
        return value

    def _list(self, name: str, wanted: type[T] | tuple[type[T], ...]) -> tuple[T, ...]:
        values = self.take(name, list, [])
        for place, value in enumerate(values):
            if not isinstance(value, wanted) or isinstance(value, bool):
                raise CorruptDataError(
                    f"{self._where}: {name}[{place}] is {_shown(value)}, "
                    f"where the type {_type_name(wanted)} is expected"
                )
        return tuple(values)


def _type_name(wanted: type | tuple[type, ...]) -> str:
    return wanted[-1].__name__ if isinstance(wanted, tuple) else wanted.__name__


def _compact(value: object) -> str:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: no file could hold it but escaped
        return json.dumps(value, allow_nan=False)
    return text


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON knows")


def _refuse_duplicates(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in entries:
        if name in found:
            raise ValueError(f"{_shown(name)} is given twice in one object; keep one")
        found[name] = value
    return found


def _shown(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"
