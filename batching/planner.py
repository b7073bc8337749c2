"""How many instances and how large a batch, for engines whose tasks run all the time."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from batching.capped import BELOW, greatest_scale
from batching.dataflow import Dataflow
from batching.errors import DataflowError, OverloadError
from batching.least import least_batches, least_instances
from batching.limits import Limits, LimitSearch
from batching.tuple_costs import (
    FULL,
    MOST_INSTANCES,
    Shipping,
    TupleCosts,
    buffer_bytes,
    busy,
    latencies,
    shares,
)
from sketches.arrays import Floats, Integers
from sketches.checks import amount, number, whole
from sketches.errors import InvalidValueError
from sketches.values import ArrayValue, protect

BATCH_BYTES = 65_536
"""What the paper takes as the largest message: a TCP packet."""


@dataclass(frozen=True, eq=False)
class TuplePlan(ArrayValue):
    """How many instances each operator has, and how many tuples it puts into a batch.

    Attributes:
        instances: of each operator.
        batches: how many tuples each operator puts into a batch.
        rates: the tuples a second that come to each operator under this plan.
        busy: the share of its time that the busiest instance of each works at these rates.
        scale: the share of what sources can give that is carried.
        limited_by: the operator because of which not all is carried; None if all is.
        latency: how long a tuple is on its way along the slowest path, on average.
        memory: bytes of all buffers, when they are full.
    """

    instances: Integers
    batches: Integers
    rates: Floats
    busy: Floats
    scale: float
    limited_by: str | None
    latency: float
    memory: float

    def __post_init__(self) -> None:
        protect(self, "instances", "batches", "rates", "busy")


def plan_tuples(  # noqa: PLR0913
    flow: Dataflow,
    shipping: Shipping,
    *,
    batch_bytes: int = BATCH_BYTES,
    headroom: float = 0.0,
    workers: int | None = None,
    throttle: bool = False,
    latency: float | None = None,
    memory: float | None = None,
    keeping: Integers | None = None,
) -> TuplePlan:
    """Return the fewest instances that carry a load, and with them the smallest batches.

    For each operator the pair of both is lexicographically minimal among those with which its
    busiest instance is not always busy. Where a limit on latency or memory asks for more, a search
    raises what helps most for an instance; that is not always the least.

    >>> flow = Dataflow.of(
    ...     ["source", "sink"], [("source", "sink")],
    ...     seconds=[0, 0.003], rates=[1000, 0], sizes=[100])
    >>> plan = plan_tuples(flow, Shipping(message=0.002, byte=1e-6))
    >>> plan.instances.tolist(), plan.batches.tolist()
    ([1, 4], [3, 1])

    Args:
        flow: the operators, and what was measured of them.
        shipping: what a message costs.
        batch_bytes: how many bytes a batch may have; a tuple that is larger is sent on its own.
        headroom: by what share rates may grow before the plan has to change.
        workers: how many instances there may be, those of sources included.
        throttle: where not all can be carried, slow sources down, all of them by one factor (and
            one that its instances cannot give by itself), rather than refuse.
        latency: how long a tuple may be on its way, on average.
        memory: how many bytes full buffers may take.
        keeping: how many instances each operator has at least, needed or not; None for none.

    Raises:
        InvalidValueError: a number is out of range.
        DataflowError: a source without a rate that costs nothing.
        OverloadError: no plan carries the load within these limits.
    """
    batch_bytes = whole("batch_bytes", batch_bytes, at_least=1, at_most=MOST_INSTANCES)
    spare = 1 + amount("headroom", headroom)
    limits = Limits(
        np.inf if latency is None else number("latency", latency, above=0.0),
        np.inf if memory is None else number("memory", memory, above=0.0),
    )
    costs = TupleCosts.of(flow, shipping, batch_bytes)
    # 1. What sources give, and what each operator then has to do, with the largest batches.
    most = _most_of_sources(flow, costs)
    if not throttle:
        _require_sources(flow, most, spare)
    emitted = np.where(flow.sources, np.minimum(flow.rates, most), 0.0)
    rates = flow.arrivals(emitted)
    loads = spare * rates * costs.work(costs.largest)
    # 2. How much of that is carried.
    scale, limit = _scale(flow, loads, workers)
    if limit is not None and not throttle:
        _refuse(flow, loads, workers, scale, limit)
    # 3. The fewest instances, then the smallest batches.
    rates = rates * scale
    planned = np.where(flow.sources, np.minimum(spare * rates, most), spare * rates)
    instances = np.where(
        flow.sources, flow.given, least_instances(planned * costs.work(costs.largest), flow.hottest)
    )
    if keeping is not None:
        instances = _with_kept(flow, instances, np.asarray(keeping), workers)
    batches = least_batches(flow, costs, planned, instances)
    # 4. More of either, where latency or memory ask for it.
    if latency is not None or memory is not None:
        room = MOST_INSTANCES if workers is None else workers
        search = LimitSearch(flow, costs, rates, planned, limits)
        instances, batches = search.found(instances, batches, room)
    return TuplePlan(
        instances=instances,
        batches=batches,
        rates=rates,
        busy=busy(flow, costs, rates, instances, batches),
        scale=scale,
        limited_by=_limiting(flow, most, limit),
        latency=float(latencies(flow, costs, rates, instances, batches).max()),
        memory=buffer_bytes(flow, instances, batches),
    )


def _with_kept(
    flow: Dataflow, instances: Integers, keeping: Integers, workers: int | None
) -> Integers:
    """Return instances with those that are kept though fewer would do."""
    if keeping.shape != instances.shape or (keeping < 0).any():
        raise InvalidValueError(
            f"keeping={keeping} are not {len(instances)} numbers from 0 up; give one for each "
            "operator"
        )
    found = np.where(flow.sources, instances, np.maximum(instances, keeping))
    if workers is not None and found.sum() > workers:
        raise OverloadError(
            f"workers={workers} are fewer than the {found.sum()} with what is kept; keep fewer"
        )
    return found


def _most_of_sources(flow: Dataflow, costs: TupleCosts) -> Floats:
    """Return what the given instances of each source give at most: with the largest batches."""
    with np.errstate(divide="ignore"):
        most = FULL * BELOW / (costs.work(costs.largest) * shares(flow, flow.given))
    endless = np.flatnonzero(flow.sources & np.isinf(flow.rates) & np.isinf(most))
    if len(endless):
        raise DataflowError(
            f"{flow.names[endless[0]]!r} gives as fast as it can, and nothing it does takes time; "
            "give its rate, or what a tuple costs it"
        )
    return most


def _limiting(flow: Dataflow, most: Floats, limit: int | None) -> str | None:
    """Return what limits all of the load, or else a source that is slower than its rate."""
    if limit is not None:
        return flow.names[limit]
    slow = np.flatnonzero(flow.sources & np.isfinite(flow.rates) & (flow.rates > most))
    return flow.names[slow[0]] if len(slow) else None


def _require_sources(flow: Dataflow, most: Floats, spare: float) -> None:
    wanted = flow.rates * spare
    slow = np.flatnonzero(flow.sources & np.isfinite(flow.rates) & (wanted > most))
    if len(slow):
        place = slow[0]
        raise OverloadError(
            f"source {flow.names[place]!r} is to give {wanted[place]:g} tuples a second, but its "
            f"{flow.given[place]} instances send {most[place]:g} at most; give it more instances, "
            "or throttle=True"
        )


def _scale(flow: Dataflow, loads: Floats, workers: int | None) -> tuple[float, int | None]:
    free = np.flatnonzero(~flow.sources)
    left = MOST_INSTANCES
    if workers is not None:
        taken = int(flow.given[flow.sources].sum())
        least = taken + len(free)
        left = whole("workers", workers, at_least=1, at_most=MOST_INSTANCES) - taken
        if left < len(free):
            raise OverloadError(
                f"workers={workers} are too few: {len(free)} operators need one each, and sources "
                f"have {taken}; allow {least}"
            )
    scale, limit = greatest_scale(loads[free], flow.hottest[free], left)
    return scale, None if limit is None else int(free[limit])


def _refuse(
    flow: Dataflow, loads: Floats, workers: int | None, scale: float, limit: int
) -> NoReturn:
    name, share, load = flow.names[limit], float(flow.hottest[limit]), float(loads[limit])
    if share * load > FULL:
        raise OverloadError(
            f"no parallelism carries the load of {name!r}: its hottest key has {share:.1%} of the "
            f"tuples, and so {share * load:.3g} s of work a second for one instance; split the "
            f"key, or carry {scale:.1%} with throttle=True"
        )
    given = f"workers={workers}" if workers is not None else f"{MOST_INSTANCES} instances"
    raise OverloadError(
        f"{given} carry {scale:.1%} of the load ({name!r} limits it); allow more, or throttle=True"
    )
