"""The input of a comparison: each batch recorded once, so that every variant gets the same."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from optimizers.control.engine import Harness, Recording
from optimizers.errors import InvalidValueError, TopologyError, UnknownNameError
from optimizers.topology import Topology

_FOREIGN = {"pandas", "polars"}  # whose tables can be iterated over, but not by rows


def recordings(
    harness: Harness, topology: Topology, source: Any, warm_up: int
) -> Iterator[Recording]:
    """Yield each batch, recorded as it is asked for.

    Raises:
        InvalidValueError: there are not more batches than the warm-up takes.
    """
    is_batch = isinstance(source, Mapping) or harness.takes(source)
    batches = iter([source] if is_batch else _iterated(harness, source))
    first = list(islice(batches, warm_up + 1))
    if len(first) <= warm_up:
        raise InvalidValueError(
            f"{len(first)} batches are not more than the warm_up={warm_up} that are left out of "
            "all figures; give more batches, or less warm_up"
        )
    return (harness.record(_by_source(harness, topology, one)) for one in chain(first, batches))


def _by_source(harness: Harness, topology: Topology, batch: Any) -> dict[str, Any]:
    """Return the rows of each source by its name, or say which are missing."""
    if not isinstance(batch, Mapping):
        if len(topology.sources) > 1:
            raise TopologyError(
                f"the job has sources {list(topology.sources)} and a batch has rows for one; "
                "give a dict with rows for each"
            )
        batch = {topology.sources[0]: batch}
    for name, rows in batch.items():
        if name not in topology.sources:
            raise UnknownNameError.among("source", name, topology.sources)
        if not harness.takes(rows):
            raise InvalidValueError(
                f"the rows of source {name!r} are a {type(rows).__name__}; give {harness.wanted}"
            )
    missing = [name for name in topology.sources if name not in batch]
    if missing:
        raise TopologyError(f"source {missing[0]!r} has no rows in a batch; give it a table")
    return {name: batch[name] for name in topology.sources}


def _iterated(harness: Harness, source: Any) -> Iterable[Any]:
    library = type(source).__module__.partition(".")[0]
    if library in _FOREIGN:
        raise InvalidValueError(
            f"source is a {type(source).__name__} of {library}; give {harness.wanted}"
        )
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise InvalidValueError(
            f"source={source!r} has no rows; give {harness.wanted}, or a list of them"
        )
    return source
