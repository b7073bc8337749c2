"""What decisions were expected to bring, and what they brought, as figures with names.

Strategies say in their notes what they expect, by figures of these names:

* ``local now``: the share of tuples that will stay on their node, between keyed operators;
* ``seconds of a batch``: how long a batch will take.

The control loop adds the load of the busiest node where it follows from what groups cost, and finds
each figure again in the epoch that follows.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from optimizers.notes import Note

LOCAL = "local"
SECONDS = "seconds of a batch"
BUSIEST = "busiest node"

_STATED = {"local now": LOCAL, SECONDS: SECONDS}


def expected_by(notes: Iterable[Note], loads: Mapping[str, float]) -> dict[str, float]:
    """Return what is expected of a decision, by the names of figures.

    Of a figure for which notes state different numbers, as steps of a chain may, nothing is known.

    >>> expected_by([Note("Locality", "a and b", "worth it", {"local now": 0.75})], {})
    {'local': 0.75}

    Args:
        notes: those of the decision.
        loads: the CPU seconds a second that each node is expected to have.
    """
    stated: dict[str, set[float]] = defaultdict(set)
    for note in notes:
        for name, value in note.figures:
            if name in _STATED and value >= 0:
                stated[_STATED[name]].add(value)
    known = {name: next(iter(values)) for name, values in stated.items() if len(values) == 1}
    return {**known, **({BUSIEST: max(loads.values())} if loads else {})}


def found_in(
    local: float, batches: int, seconds: float, busy: Mapping[str, float]
) -> dict[str, float]:
    """Return the same figures of an epoch, as far as they are known.

    Args:
        local: the share of tuples that stayed on their node, between keyed operators.
        batches: how many batches it had.
        seconds: how long it lasted; 0 where that is not known.
        busy: by node, for how many CPU seconds instances were busy, see `PastEpoch.nodes`.
    """
    found = {LOCAL: local}
    if seconds and batches:
        found[SECONDS] = seconds / batches
    if seconds and busy:
        found[BUSIEST] = max(busy.values()) / seconds
    return found


def told(expected: Mapping[str, float], found: Mapping[str, float]) -> str:
    """Return both in words; empty if nothing was expected.

    >>> told({"local": 0.74, "busiest node": 0.5}, {"local": 0.71})
    '; expected busiest node 0.5, local 0.74; found local 0.71'
    """
    if not expected:
        return ""
    parts = [("expected", expected), ("found", found)]
    figures = [
        f"{word} " + ", ".join(f"{name} {given[name]:.3g}" for name in sorted(given))
        for word, given in parts
        if given
    ]
    return "; " + "; ".join(figures)
