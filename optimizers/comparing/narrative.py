"""The findings of a comparison, in sentences."""

from collections.abc import Iterator, Mapping, Sequence

from optimizers.comparing.metrics import (
    Measure,
    batches_of,
    local_share,
    mean_latency,
    remote_bytes,
    speed_beside,
)
from optimizers.comparing.outcome import Outcome
from optimizers.statistics import Probe
from sketches.values import FrozenMap

_NONE: Mapping[str, str] = FrozenMap()
_NOTABLE = 0.02  # of all tuples, or bytes; less may be chance

_PAIRS = Probe.PAIRS.value
_APART = ": the keys of this stream do not belong together, or not for long enough to be learned"


def summary(
    variants: Sequence[Outcome],
    span: Sequence[int],
    *,
    imagined: bool,
    failed: Mapping[str, str] = _NONE,
) -> str:
    """Return the findings for these batches.

    Args:
        variants: the outcome of each; the others are compared with the first.
        span: which batches.
        imagined: whether all nodes are one machine.
        failed: the variants that have no figures, and in a line, why.
    """
    ends = [f"{name} FAILED and is left out: {why}." for name, why in failed.items()]
    return " ".join([*_sentences(variants, span, imagined=imagined), *ends])


def _sentences(
    variants: Sequence[Outcome], span: Sequence[int], *, imagined: bool
) -> Iterator[str]:
    yield from _about_strategies(variants)
    yield from _about_locality(variants, span)
    yield from _about_latency(variants, span)
    yield from _about_results(variants)
    if imagined:
        yield (
            "All nodes are one machine here: bytes between nodes are those that would cross a "
            "network, and speeds show what the variants cost, not what they would save there."
        )


def _about_strategies(variants: Sequence[Outcome]) -> Iterator[str]:
    """Name the variants that show nothing here: those that have nothing to do, or fail."""
    for outcome in variants:
        for said in outcome.idle:
            yield f"{outcome.name}: {said}."
        refused = [decision.refused for decision in outcome.decisions if decision.refused]
        if refused:
            yield (
                f"{len(refused)} of {len(outcome.decisions)} decisions of {outcome.name} were "
                f"refused, the first for {refused[0]}."
            )


def _has_looked(outcome: Outcome) -> bool:
    """Return whether a variant has observed key pairs, and decided by them."""
    decided = any(said.after >= 0 and not said.refused for said in outcome.decisions)
    return _PAIRS in outcome.observes and decided


def _about_locality(variants: Sequence[Outcome], span: Sequence[int]) -> Iterator[str]:
    idle = {outcome.name for outcome in variants[1:] if outcome.idle}
    judged = [outcome for outcome in variants if outcome.name not in idle]
    each = {outcome.name: batches_of(outcome, span) for outcome in judged}
    shares = {name: local_share(batches) for name, batches in each.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    first, *others = each
    if first not in known or not others:
        return
    best = max(known, key=known.__getitem__)
    if known[best] < known[first] + _NOTABLE:
        why = _APART if any(map(_has_looked, judged[1:])) else ""
        yield (
            "None of the others keeps notably more tuples on their node than "
            f"{first} ({known[first]:.0%}){why}."
        )
        return
    yield (
        f"{best} keeps {known[best]:.0%} of the tuples between keyed operators on their node, "
        f"{first} {known[first]:.0%};"
    )
    less = _fewer(remote_bytes(each[best]), remote_bytes(each[first]))
    yield f"that is {less}{_speed(speed_beside(each[best], each[first]))}."


def _fewer(here: float | None, there: float | None) -> str:
    """Return a sentence on the bytes saved between nodes; empty where that is not known."""
    if here is None or there is None:
        return ""
    less = f"{1 - here / there:.0%} fewer" if here < (1 - _NOTABLE) * there else "no fewer"
    return f"{less} bytes between nodes, "


def _about_latency(variants: Sequence[Outcome], span: Sequence[int]) -> Iterator[str]:
    """Name the variant with the lowest latency, where that is known."""
    found = {v.name: mean_latency(batches_of(v, span)) for v in variants}
    known = {name: measure.value for name, measure in found.items() if measure is not None}
    if len(known) < len(variants) or len(variants) == 1:
        return
    first, best = next(iter(known)), min(known, key=known.__getitem__)
    if known[best] < (1 - _NOTABLE) * known[first]:
        yield (
            f"A tuple is done after {_duration(known[best])} on average with {best}, after "
            f"{_duration(known[first])} with {first}."
        )
    else:
        yield f"With none of the others a tuple is done notably sooner than with {first}."


def _duration(seconds: float) -> str:
    """Write a time with its unit."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _speed(beside: Measure) -> str:
    """Return a speed in words; a difference that may be chance is not called one."""
    if beside.low <= 1 <= beside.high:
        return f"at about the same speed ({beside.value:.2f} times)"
    return f"at {beside.value:.2f} times the speed"


def _about_results(variants: Sequence[Outcome]) -> Iterator[str]:
    if not all(outcome.checked for outcome in variants):
        yield "Times are simulated, and no results were computed that could be checked."
        return
    wrong = [outcome for outcome in variants if outcome.difference is not None]
    if not wrong:
        every = "All results" if len(variants) > 1 else "Its results"
        yield f"{every} equal those of a sequential run."
    for outcome in wrong:
        yield f"THE RESULTS OF {outcome.name} ARE WRONG: {outcome.difference}."
