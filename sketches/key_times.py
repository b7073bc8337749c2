"""Keys that are integers underneath: booleans, dates in days, timestamps in microseconds."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.errors import CorruptDataError, InvalidKeyError

BOOLEAN = "bool"
DATE = "date"  # in days since 1970
TIMESTAMP = "timestamp"  # with a zone, in microseconds since 1970
TIMESTAMP_NTZ = "timestamp_ntz"  # without a zone, likewise; both names are Spark's

# What Python's dates can say.
LIMITS = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")
_DAYS = ("Y", "M", "W", "D")
_COARSE = ("h", "m", "s", "ms", "us")


def in_python(kind: str, numbers: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return keys of one of these kinds as Python objects."""
    match kind:
        case "bool":
            return numbers.astype(np.bool_).astype(object)
        case "date":
            return numbers.astype("datetime64[D]").astype(object)
    times = numbers.astype("datetime64[us]").astype(object)
    if kind == TIMESTAMP:
        times[:] = [time.replace(tzinfo=UTC) for time in times]
    return times


def check_numbers(kind: str, numbers: NDArray[np.int64]) -> None:
    """Refuse stored numbers that stand for nothing of this kind."""
    if kind == BOOLEAN:
        wrong = (numbers < 0) | (numbers > 1)
    else:
        unit = "D" if kind == DATE else "us"
        first, last = (time.astype(f"datetime64[{unit}]").astype(np.int64) for time in LIMITS)
        wrong = (numbers < first) | (numbers > last)
    if wrong.any():
        raise CorruptDataError(f"the stored number {numbers[wrong][0]} is no {kind}")


def from_times(array: NDArray[Any], kind: str | None = None) -> tuple[NDArray[np.uint64], str]:
    """Return numpy's times as numbers, and their kind if none is given.

    Raises:
        InvalidKeyError: one is missing, or is no number of microseconds that Python can say.
    """
    unit, _ = np.datetime_data(array.dtype)
    if np.isnat(array).any():
        place = int(np.isnat(array).argmax())
        raise InvalidKeyError(
            f"key at {place} is NaT; filter missing keys out, or fill them with a key of their own"
        )
    if kind is None:
        kind = DATE if unit in _DAYS else TIMESTAMP_NTZ
    for wrong, why in unfit_times(array, as_dates=kind == DATE):
        if wrong.any():
            place = int(wrong.argmax())
            raise InvalidKeyError(
                f"key {array[place]} at {place} {why}; round it, filter it out, or use its text"
            )
    wanted = "datetime64[D]" if kind == DATE else "datetime64[us]"
    return array.astype(wanted).astype(np.int64).view(np.uint64), kind


def unfit_times(array: NDArray[Any], *, as_dates: bool) -> list[tuple[NDArray[np.bool_], str]]:
    """Return which of numpy's times cannot be keys, and why, for each reason there is.

    Args:
        array: times, none of which is missing.
        as_dates: whether they are to be dates.

    >>> times = np.array([0, 253402300800], dtype="datetime64[s]")
    >>> [(wrong.tolist(), why) for wrong, why in unfit_times(times, as_dates=False)][0]
    ([False, True], 'is not from year 1 to 9999')
    """
    unit, _ = np.datetime_data(array.dtype)
    reasons = []
    if unit in _DAYS or unit in _COARSE:  # what is finer has no room for other years
        first, last = (time.astype(array.dtype) for time in LIMITS)
        reasons.append(((array < first) | (array > last), "is not from year 1 to 9999"))
    found = array.astype("datetime64[D]" if as_dates else "datetime64[us]")
    rest = "has parts of a day" if as_dates else "has parts of a microsecond"
    reasons.append((found.astype(array.dtype) != array, rest))
    return reasons


def from_datetimes(keys: Sequence[Any]) -> tuple[NDArray[np.uint64], str]:
    """Return datetimes as numbers, and their kind; either all of them have a zone, or none."""
    zoned = keys[0].tzinfo is not None
    for place, key in enumerate(keys):
        if key != key:  # noqa: PLR0124  # only NaT is not itself
            raise InvalidKeyError(
                f"key at {place} is NaT; "
                "filter missing keys out, or fill them with a key of their own"
            )
        if (key.tzinfo is not None) is not zoned:
            raise InvalidKeyError(
                f"key {key!r} at {place} is with{'out' * zoned} a zone and the first, {keys[0]!r}, "
                f"is with{'' if zoned else 'out'} one; give all of them a zone, or none"
            )
        if getattr(key, "nanosecond", 0):
            raise InvalidKeyError(
                f"key {key!r} at {place} has parts of a microsecond; round it to microseconds"
            )
    plain = [_in_utc(key, place) if zoned else _plain(key) for place, key in enumerate(keys)]
    numbers = np.array(plain, dtype="datetime64[us]").astype(np.int64)
    return numbers.view(np.uint64), TIMESTAMP if zoned else TIMESTAMP_NTZ


def from_dates(keys: Sequence[date]) -> NDArray[np.uint64]:
    """Return dates as numbers."""
    return np.array(keys, dtype="datetime64[D]").astype(np.int64).view(np.uint64)


def _in_utc(key: datetime, place: int) -> datetime:
    try:
        return _plain(key.astimezone(UTC))
    except OverflowError:
        raise InvalidKeyError(
            f"key {key!r} at {place} is not from year 1 to 9999 in UTC; "
            "filter it out, or use its text"
        ) from None


def _plain(key: datetime) -> datetime:
    return datetime(*key.timetuple()[:6], key.microsecond)  # noqa: DTZ001  # it is in UTC, or none
