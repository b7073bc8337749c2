"""Keys as JSON types, and back."""

import base64
import binascii
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sketches.errors import CorruptDataError


def key_to_json(key: Any) -> Any:
    """Return a key as JSON types: bytes in base64, pairs as lists, times as ISO 8601 has them."""
    match key:
        case bytes():
            return {"base64": base64.b64encode(key).decode("ascii")}
        case datetime():
            return {"timestamp": key.isoformat()}
        case date():
            return {"date": key.isoformat()}
        case Decimal():
            return {"decimal": str(key)}
        case (left, right):
            return [key_to_json(left), key_to_json(right)]
        case _:
            return key


def key_from_json(key: Any) -> Any:
    """Return the key that was written so; one that is none is refused by its table."""
    match key:
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise CorruptDataError(f"key {key!r} is not in base64: {error}") from error
        case {"timestamp": str(text), **rest} if not rest:
            return _parsed(datetime.fromisoformat, text, key)
        case {"date": str(text), **rest} if not rest:
            return _parsed(date.fromisoformat, text, key)
        case {"decimal": str(text), **rest} if not rest:
            return _parsed(Decimal, text, key)
        case [left, right]:
            return key_from_json(left), key_from_json(right)
        case _:
            return key


def _parsed(parse: Callable[[str], Any], text: str, key: object) -> Any:
    try:
        return parse(text)
    except (ValueError, InvalidOperation):
        raise CorruptDataError(f"key {key!r} cannot be read; write it as Penstock does") from None
