"""How many nodes a job needs: a rule that does not flap, on arrays.

It is asked with what nodes would have to do under the plan that balances load best: what balancing
can mend needs no node, and what no number of nodes can mend is said and not tried.

References:
    Madsen, Zhou, Cao, "Integrative dynamic reconfiguration in a parallel stream processing
    engine", ICDE 2017, section III.A.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sketches.arrays import Floats
from sketches.checks import amount, number, whole
from sketches.errors import InvalidValueError

_SAME = 1e-9  # relative differences that rounding makes
_NEARLY = 1.02  # times the least that is possible
_AS_HIGH = 0.9  # times this: a rise that counts as one like it


@dataclass(frozen=True)
class ScalingRule:
    """When nodes are added and given back.

    Usages are shares of what a node can do, 1 for all of it.

    Attributes:
        target: the usage that the busiest node is to have once nodes have come or gone.
        upper: the usage beyond which nodes are added.
        lower: the usage below which nodes are given back.
        patience: how many epochs in a row have to allow for fewer nodes before any is given back.
        settling: how many epochs a change is left to show before the next one.
        brief: how many epochs a rise of load lasts at most that is not worth a node. If all earlier
            ones as high were over within so many, one more is waited for that long; 0 for never.
        least: how many nodes there are at least.
        most: how many nodes there are at most.
    """

    target: float = 0.7
    upper: float = 0.85
    lower: float = 0.55
    patience: int = 3
    settling: int = 2
    brief: int = 2
    least: int = 1
    most: int = 1_000

    def __post_init__(self) -> None:
        for name in ("target", "upper", "lower"):
            object.__setattr__(self, name, number(name, getattr(self, name), above=0, up_to=1))
        if not self.lower < self.target < self.upper:
            raise InvalidValueError(
                f"lower={self.lower}, target={self.target} and upper={self.upper} have to rise: "
                "without room between them nodes would come and go"
            )
        for name in ("patience", "settling", "least", "most"):
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=1))
        object.__setattr__(self, "brief", whole("brief", self.brief, at_least=0))
        if self.least > self.most:
            raise InvalidValueError(
                f"least={self.least} is more than most={self.most}; give two numbers that rise"
            )


@dataclass(frozen=True, eq=False)
class Demand:
    """What a job asks of its nodes.

    Attributes:
        loads: the load of each unit that is placed as a whole, of shape (dimensions, units), as
            shares of a node of capacity 1. Stages that do not overlap are dimensions: what they
            take adds up.
        fixed: by dimension, load that is spread over all nodes.
        capacities: the capacity of each node that stays.
        busiest: the usage of the busiest node under the best plan for these nodes.
        saturated: whether more came than was done, or a node or an instance had no time to spare,
            so that load is not as low as it looks.
        earlier: what the job asked for in earlier epochs, the last one last, as a share of what it
            asks for now.
        pinned: by how much more the busiest node is used by load that cannot move than it would be
            were that spread.
    """

    loads: Floats
    fixed: Floats
    capacities: Floats
    busiest: float
    saturated: bool = False
    earlier: Sequence[float] = ()
    pinned: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "busiest", amount("busiest", self.busiest))

    def usage(self, capacities: Floats, times: float = 1.0) -> float:
        """Return the usage of the busiest of some nodes, were load balanced from scratch."""
        found = 0.0
        for row, fixed in zip(self.loads, self.fixed, strict=True):
            found += _fullest(row, capacities) + float(fixed / capacities.sum())
        return found * times

    @property
    def total(self) -> float:
        """All load together."""
        return float(self.loads.sum() + self.fixed.sum())

    @property
    def indivisible(self) -> float:
        """The usage that no number of nodes like the largest can get below: the heaviest units."""
        return float((self.loads.max(axis=1, initial=0.0) / self.capacities.max()).sum())


@dataclass(frozen=True)
class Scaling:
    """How many nodes there are to be.

    Attributes:
        nodes: how many.
        reason: why.
        expected: the usage of the busiest node that is expected then.
    """

    nodes: int
    reason: str
    expected: float


def scaled(demand: Demand, rule: ScalingRule, *, since: int | None = None) -> Scaling:
    """Return how many nodes there are to be.

    >>> demand = Demand(np.full((1, 40), 0.1), np.zeros(1), np.ones(4), busiest=1.0)
    >>> scaled(demand, ScalingRule())
    Scaling(nodes=6, reason='the busiest node would be in use by 100 %', expected=0.7...)

    Args:
        demand: what the job asks for.
        rule: when nodes are added and given back.
        since: how many epochs ended since nodes were added or given back; None if they never were.
    """
    count = len(demand.capacities)
    if count < rule.least:
        return Scaling(rule.least, f"{rule.least} nodes are the least", demand.busiest)
    # 1. What has changed lately is left to show what it does.
    if since is not None and since < rule.settling:
        text = f"the last change is {since} epoch{'s' if since != 1 else ''} old and has to show"
        return Scaling(count, text, demand.busiest)
    if demand.busiest > rule.upper:
        return _out(demand, rule)
    return _in(demand, rule, since)


def _out(demand: Demand, rule: ScalingRule) -> Scaling:
    """Return how many nodes bring the busiest one to its target, as far as nodes can do that."""
    count = len(demand.capacities)
    here = f"the busiest node would be in use by {100 * demand.busiest:.0f} %"
    if demand.indivisible > rule.upper:
        text = (
            f"{here}, and no number of nodes helps: the heaviest key groups alone take "
            f"{100 * demand.indivisible:.0f} % of the largest node; give larger nodes, or "
            "divide their keys"
        )
        return Scaling(count, text, demand.busiest)
    typical = float(demand.capacities.mean())
    best, expected = count, demand.usage(demand.capacities)
    goal = max(rule.target, demand.indivisible * _NEARLY)
    if expected + demand.pinned <= goal:
        text = f"{here}, and balancing mends that; it takes several epochs"
        return Scaling(count, text, demand.busiest)
    # With fewer than these, not even the mean is as low; with twice as many, all is.
    first = max(count + 1, math.ceil(demand.total / goal / typical) - 1)
    for wanted in range(min(first, rule.most), min(2 * first, rule.most) + 1):
        more = np.full(max(wanted - count, 0), typical)
        usage = demand.usage(np.append(demand.capacities, more))
        if usage < expected * (1 - _SAME):
            best, expected = wanted, usage
        if usage <= goal:
            break
    if best == count:
        allowed = f"; {rule.most} nodes are allowed" if count >= rule.most else ""
        return Scaling(count, f"{here}, and more nodes bring nothing{allowed}", demand.busiest)
    over = _over_within(demand, rule)
    if over:
        text = (
            f"{here}, but earlier rises as high were over after {over} "
            f"epoch{'s' if over != 1 else ''}, before nodes would be of use"
        )
        return Scaling(count, text, demand.busiest)
    if expected > rule.target and best == rule.most:
        here += f"; {rule.most} nodes are allowed, and with them it is {100 * expected:.0f} %"
    return Scaling(best, here, expected)


def _over_within(demand: Demand, rule: ScalingRule) -> int:
    """Return after how many epochs the present rise is over if it is like all earlier ones as high.

    0 if it lasts longer than those already, if one of them was not brief, and if none is known.
    """
    asked = [*demand.earlier, 1.0]
    rises: list[list[float]] = [[]]
    for share in asked:
        if share * demand.busiest > rule.upper:
            rises[-1].append(share)
        elif rises[-1]:
            rises.append([])
    *ended, present = rises
    if asked[0] * demand.busiest > rule.upper:
        return 0  # nobody knows how long the first one had lasted
    alike = [len(rise) for rise in ended if max(rise) >= _AS_HIGH]
    longest = max(alike, default=0)
    return longest if len(present) <= longest <= rule.brief else 0


def _in(demand: Demand, rule: ScalingRule, since: int | None) -> Scaling:
    """Return how many nodes are enough, if fewer have been for some epochs in a row."""
    count = len(demand.capacities)
    if count > rule.most:
        return Scaling(rule.most, f"{rule.most} nodes are allowed", demand.busiest)
    if demand.busiest >= rule.lower or count <= rule.least:
        return Scaling(count, "as many nodes as are needed", demand.busiest)
    if demand.saturated:
        text = "load looks low, but more came than was done, or an instance had no time to spare"
        return Scaling(count, text, demand.busiest)
    recent = list(demand.earlier)[-rule.patience :]
    calm = since is None or since >= rule.settling + rule.patience
    if len(recent) < rule.patience or not calm:
        return Scaling(count, "too few epochs to tell whether load stays low", demand.busiest)
    # 1. Fewer nodes have to do for the most that was asked for in these epochs.
    times = max(1.0, *recent)
    if demand.busiest * times >= rule.lower:
        return Scaling(count, "load was higher a short time ago", demand.busiest)
    # 2. The smallest nodes go first; the rest has to stay balanced without them.
    kept = np.sort(demand.capacities)[::-1]
    best = count
    for fewer in range(count - 1, rule.least - 1, -1):
        if demand.usage(kept[:fewer], times) > rule.target:
            break
        best = fewer
    if best == count:
        return Scaling(count, "with fewer nodes load could not be balanced", demand.busiest)
    text = f"the busiest node would be in use by {100 * demand.busiest:.0f} %"
    return Scaling(best, text, demand.usage(kept[:best]))


def _fullest(loads: Floats, capacities: Floats) -> float:
    """Return the usage of the busiest node with units placed longest first."""
    usage = np.zeros(len(capacities))
    for load in np.sort(loads[loads > 0])[::-1].tolist():
        after = usage + load / capacities
        chosen = int(after.argmin())
        usage[chosen] = after[chosen]
    return float(usage.max(initial=0.0))
