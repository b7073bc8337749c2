"""Bounded data, batch by batch: which batches are done, and which are still to run."""

import logging
from collections.abc import Iterable, Iterator, Sized

from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.origins import Bounded, Progress
from optimizers.spark.sources import Sources
from sketches.values import listed

_LOG = logging.getLogger(__name__)


def to_be_run(  # noqa: PLR0913
    batches: Iterable[Sources],
    done: Progress,
    *,
    names: Iterable[str] | None,
    resume: bool = False,
    append: bool = False,
    skipped: list[str],
) -> Iterator[tuple[Sources, str | None]]:
    """Yield the batches that are to be run, with their names.

    Args:
        batches: all batches that are given.
        done: how far the job has come.
        names: the names of the batches; those that are done are skipped.
        resume: whether the batches begin with all bounded ones that are done.
        append: whether batches with names that are not done are further input, though others are
            done without a name.
        skipped: gets the name, or else the place, of each skipped batch.

    Raises:
        CheckpointError: it is not known whether batches are done, or some that are done are not
            among them.
        InvalidValueError: the names do not fit.
    """
    if resume and (append or names is not None):
        other = "append=True" if append else "names="
        raise InvalidValueError(
            f"{other} and resume=True are given; give one of them: resume=True tells by their "
            "places which batches are done, and names tell it by themselves"
        )
    if append and names is None:
        raise InvalidValueError(
            "append=True is given, and no names; give names=[...] as well, so that no batch is "
            "added twice if the job is run again"
        )
    if names is None:
        yield from _by_place(batches, done, resume=resume, skipped=skipped)
        return
    checked = _checked(names, batches)
    if not append:
        _check_known(checked, done)
    yield from _by_name(batches, done, checked, skipped)


def _check_known(names: tuple[str, ...], done: Progress) -> None:
    """Refuse batches that may have been done without their names.

    Raises:
        CheckpointError: there are some.
    """
    nameless = done.bounded - len(done.names)
    begun = None if done.begun is None else done.begun.name
    new = [name for name in names if name not in {*done.names, begun}]
    if not nameless or not new:
        return
    raise CheckpointError(
        f"{nameless} bounded batches are done on this checkpoint without a name, and batch "
        f"{new[0]!r} may be one of them, which would count twice: if none of them is given, add "
        "append=True; else give all batches from the first on, with resume=True in place of names"
    )


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
                f"begin with those, which are then skipped, or {_by_names(done)}"
            )
        if number < done.bounded:
            skipped.append(str(number))
            continue
        if number == done.bounded:
            _report(skipped, 0)
        cut = done.begun if number == done.bounded else None
        yield batch, cut.name if cut else None  # what is cut keeps its name
    if resume and number + 1 < done.bounded:
        raise CheckpointError(
            f"{number + 1} batches are given with resume=True, and {done.bounded} are done on this "
            "checkpoint already: give all of those and then the new ones, or "
            f"{_by_names(done)}"
        )
    if resume and number + 1 == done.bounded:
        _report(skipped, 0)


def _by_names(done: Progress) -> str:
    """Return how to give batches by name."""
    if len(done.names) == done.bounded:
        return "names=[...] with a name for each, of which those that are done are skipped"
    return "names=[...] and append=True if none of these is done"


def _begun_error(begun: Bounded, comes: str) -> CheckpointError:
    rows = ", ".join(f"{count} rows of {name!r}" for name, count in begun.done.items())
    first = f"give {begun} first, by names=[...], or " if begun.name else "give "
    return CheckpointError(
        f"{begun} was cut, {rows} of it are done, and {comes} before the rest: {first}all batches "
        "from the first on with resume=True"
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
