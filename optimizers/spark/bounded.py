"""Bounded data, batch by batch: which batches are done, and which are still to run."""

import logging
from collections.abc import Iterable, Iterator, Sized

from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.origins import Bounded, Progress
from optimizers.spark.sources import Sources
from sketches.values import listed

_LOG = logging.getLogger(__name__)


def to_be_run(
    batches: Iterable[Sources],
    done: Progress,
    *,
    names: Iterable[str] | None,
    resume: bool,
    skipped: list[str],
) -> Iterator[tuple[Sources, str | None]]:
    """Yield the batches that are to be run, with their names.

    Args:
        batches: all batches that are given.
        done: how far the job has come.
        names: the names of the batches; those that are done are skipped.
        resume: whether the batches begin with all bounded ones that are done.
        skipped: gets the name, or else the place, of each skipped batch.

    Raises:
        CheckpointError: it is not known whether batches are done, or some that are done are not
            among them.
        InvalidValueError: the names do not fit.
    """
    if names is not None:
        if resume:
            raise InvalidValueError(
                "names= and resume=True are given; give one of them: of batches with names it is "
                "known which are done"
            )
        yield from _by_name(batches, done, _checked(names, batches), skipped)
        return
    yield from _by_place(batches, done, resume=resume, skipped=skipped)


def _by_name(
    batches: Iterable[Sources], done: Progress, names: tuple[str, ...], skipped: list[str]
) -> Iterator[tuple[Sources, str | None]]:
    known, reported, number = frozenset(done.names), 0, 0
    begun = done.begun
    for number, batch in enumerate(batches, 1):
        if number > len(names):
            raise InvalidValueError(
                f"batch {number} has no name, for {len(names)} names are given; give one for each"
            )
        if names[number - 1] in known:
            skipped.append(names[number - 1])
            continue
        reported = _report(skipped, reported)
        if begun is not None and begun.name != names[number - 1]:
            raise _begun_error(begun, f"batch {names[number - 1]!r} comes")
        begun = None
        yield batch, names[number - 1]
    _report(skipped, reported)
    if number < len(names):
        raise InvalidValueError(
            f"{len(names)} names are given, and {number} batches; give a name for each"
        )


def _by_place(
    batches: Iterable[Sources], done: Progress, *, resume: bool, skipped: list[str]
) -> Iterator[tuple[Sources, str | None]]:
    number = -1
    for number, batch in enumerate(batches):
        if done.begun is not None and not resume:
            raise _begun_error(done.begun, "a batch without a name comes")
        if done.bounded and not resume:
            raise CheckpointError(
                f"{done.bounded} bounded batches are done on this checkpoint already, and without "
                "names it is not known whether these are others: give resume=True if the batches "
                "begin with those, which are then skipped, or names=[...] with a name for each, of "
                "which those that are done are skipped and others are added"
            )
        if number < done.bounded:
            skipped.append(str(number))
            continue
        if number == done.bounded:
            _report(skipped, 0)
        yield batch, None
    if resume and number + 1 < done.bounded:
        raise CheckpointError(
            f"{number + 1} batches are given with resume=True, and {done.bounded} are done on this "
            "checkpoint already: give all of those and then the new ones, or names=[...]"
        )
    if resume and number + 1 == done.bounded:
        _report(skipped, 0)


def _begun_error(begun: Bounded, comes: str) -> CheckpointError:
    rows = ", ".join(f"{count} rows of {name!r}" for name, count in begun.done.items())
    return CheckpointError(
        f"{begun} was cut, {rows} of it are done, and {comes} before the rest: give {begun} first, "
        "by names=[...] or all batches with resume=True"
    )


def _checked(names: Iterable[str], batches: Iterable[Sources]) -> tuple[str, ...]:
    found = listed("names", names)
    for name in found:
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"names holds {name!r}; name each batch by a text")
        if found.count(name) > 1:
            raise InvalidValueError(f"names has {name!r} twice; give each batch a name of its own")
    if isinstance(batches, Sized) and len(batches) != len(found):
        raise InvalidValueError(
            f"{len(found)} names are given, and {len(batches)} batches; give a name for each"
        )
    return found


def _report(skipped: list[str], reported: int) -> int:
    """Log which batches were skipped since the last report; return how many there are by now."""
    if len(skipped) > reported:
        _LOG.warning(
            "%d batches are done already and were skipped: %s",
            len(skipped) - reported,
            ", ".join(skipped[reported:]),
        )
    return len(skipped)
