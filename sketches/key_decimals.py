"""Decimals as keys: equal numbers have one form, however many zeros they were written with.

The form is 17 bytes: the digits as a 128-bit integer without zeros at its end, little endian in
two's complement, and how many of the digits stand behind the point.
"""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.errors import InvalidKeyError

WIDTH = 17
LARGEST_SCALE = 38  # and digits; of Arrow's decimal128 and of Spark's decimal


def written(key: Decimal, place: int) -> bytes:
    """Return the form of a number, or say why it has none."""
    if not key.is_finite():
        raise InvalidKeyError(
            f"decimal key {key} at {place} is not a number; filter it out, or give it a key of "
            "its own"
        )
    sign, digits, exponent = key.as_tuple()
    number = int("".join(map(str, digits)))
    scale = -int(exponent)
    if not number:
        scale = 0
    while scale > 0 and not number % 10:
        number, scale = number // 10, scale - 1
    if scale > LARGEST_SCALE or scale < -LARGEST_SCALE:
        raise _too_long(key, place)
    if scale < 0:
        number, scale = number * 10**-scale, 0
    if number >= 10**LARGEST_SCALE:
        raise _too_long(key, place)
    return (-number if sign else number).to_bytes(16, "little", signed=True) + bytes([scale])


def written_words(numbers: NDArray[np.int64], scale: int) -> NDArray[np.uint8]:
    """Return the forms of ``numbers / 10^scale``, one after the other."""
    numbers = numbers.copy()
    scales = np.where(numbers == 0, 0, scale)
    waiting = np.flatnonzero(scales > 0)
    while len(waiting):
        shorter, rest = np.divmod(numbers[waiting], 10)
        waiting, shorter = waiting[rest == 0], shorter[rest == 0]
        numbers[waiting] = shorter
        scales[waiting] -= 1
        waiting = waiting[scales[waiting] > 0]
    forms = np.empty((len(numbers), WIDTH), dtype=np.uint8)
    forms[:, :8] = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)
    forms[:, 8:16] = np.where(numbers < 0, 0xFF, 0)[:, np.newaxis]
    forms[:, 16] = scales
    return forms.reshape(-1)


def as_decimals(forms: NDArray[Any]) -> NDArray[np.object_]:
    """Return the numbers that have these forms."""
    numbers = np.empty(len(forms), dtype=object)
    numbers[:] = [read(form) for form in forms]
    return numbers


def read(form: bytes) -> Decimal:
    """Return the number that has this form."""
    number = int.from_bytes(form[:16], "little", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -form[16]))


def _too_long(key: Decimal, place: int) -> InvalidKeyError:
    return InvalidKeyError(
        f"decimal key {key} at {place} does not fit {LARGEST_SCALE} digits; "
        "round it, or use its text"
    )
