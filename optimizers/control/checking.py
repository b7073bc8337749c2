"""The rule of refusal: whether a decision can be carried out, before anything is done.

It is the same on all engines, so a plan is refused on all of them in the same words. Facts that
only the engine knows come in as `EngineLimits`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from grouping.grouping import Grouping
from grouping.groupings import GROUPINGS, grouping_from_dict, grouping_to_dict
from grouping.key_batch import KeyBatch
from optimizers.cluster import Cluster
from optimizers.errors import InvalidKeyError, PlanError
from optimizers.layout import Layout
from optimizers.plan import Plan
from optimizers.topology import Topology
from sketches.keys import PairKeys, as_keys
from sketches.values import FrozenMap


def any_change(_old: Topology, _new: Topology) -> None:
    """Allow every change."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What an engine knows about its operators.

    Attributes:
        check_change: raises a `PlanError` if state cannot go from one topology to another.
        key_types: returns the Arrow types of key columns, as they print, by operator, for those
            that have state.
        hears: whether instances can report to senders while these send, as some groupings use.
        unsized: sources whose admission no plan can set, and why.
        fixed: sources whose parallelism no plan can change, and why.
        unpaced: why no plan can say how often a batch begins; empty if one can.
        cuts: whether a batch of which a plan admits less is recorded and cut.
    """

    check_change: Callable[[Topology, Topology], None] = any_change
    key_types: Callable[[], Mapping[str, Sequence[str]]] = FrozenMap
    hears: bool = False
    unsized: Mapping[str, str] = FrozenMap()
    fixed: Mapping[str, str] = FrozenMap()
    unpaced: str = "batches begin when this engine is told to, and none waits; leave period out"
    cuts: bool = False


def check_decision(
    declared: Topology, cluster: Cluster, current: Plan, decision: Plan, limits: EngineLimits
) -> Plan:
    """Return the plan that is in force after a decision, or refuse the decision with the reason.

    All that can be checked without the tuples is checked: once a plan is saved, every later driver
    uses it.

    Args:
        declared: the job as declared.
        cluster: the machines.
        current: the plan in force.
        decision: what is to change.
        limits: what the engine knows.

    Raises:
        PlanError: it cannot be carried out.
        UnknownNameError: it names something that does not exist.
        Exception: a grouping of another package fails, with any error.
    """
    # 1. The plan on its own, and the changes to operators that have state.
    amended = current.amended(decision, cluster)
    amended.check(declared, cluster)
    later = declared.under(amended)
    _check_sources(declared, current, amended, limits)
    limits.check_change(declared.under(current), later)
    _check_key_types(later, limits.key_types())
    # 2. Whether it can be written down and read again.
    for grouping in (*decision.routing.values(), *decision.scheduling.values()):
        _check_travels(grouping)
    # 3. Whether senders can route by it.
    layout = Layout.of(declared, cluster, amended)
    for edge in later.edges:
        layout.owners_on(edge)
        grouping = later.grouping(*edge.name)
        if not (limits.hears and grouping.listens):
            grouping.router(later.operator(edge.target).parallelism)
    return amended


def check_kind(grouping: Grouping, instances: int, types: Sequence[str]) -> None:
    """Refuse a grouping that was made for another kind of keys.

    Args:
        grouping: how tuples are to be spread.
        instances: over how many instances.
        types: the Arrow types of the columns of the key, as they print.

    Raises:
        InvalidKeyError: it names keys of another kind.
    """
    if not grouping.needs_key:
        return
    samples = [as_keys([_sample(kind)]) for kind in types]
    grouping.router(instances).route(1, KeyBatch(reduce(PairKeys, samples)))


def _sample(kind: str) -> Any:
    """Return a key of an Arrow type."""
    if kind.startswith("dictionary"):
        kind = kind.partition("values=")[2]
    if kind.startswith("timestamp"):
        return datetime.fromtimestamp(0, UTC).replace(tzinfo=UTC if "tz=" in kind else None)
    samples = {
        ("int", "uint"): 0,
        ("string", "large_string"): "",
        ("bool",): False,
        ("date",): date.min,
        ("decimal",): Decimal(0),
    }
    return next((key for kinds, key in samples.items() if kind.startswith(kinds)), b"")


def _check_sources(declared: Topology, current: Plan, amended: Plan, limits: EngineLimits) -> None:
    """Refuse decisions that sources cannot follow."""
    for name, why in limits.unsized.items():
        if amended.admit.get(name) != current.admit.get(name):
            raise PlanError(f"admit[{name!r}]={amended.admit[name]}: {why}")
    if limits.unpaced and amended.period and amended.period != current.period:
        raise PlanError(f"period={amended.period:g}: {limits.unpaced}")
    before, after = declared.under(current), declared.under(amended)
    for name, why in limits.fixed.items():
        instances = after.operator(name).parallelism
        if instances != before.operator(name).parallelism:
            raise PlanError(f"parallelism[{name!r}]={instances}: {why}")


def _check_key_types(topology: Topology, key_types: Mapping[str, Sequence[str]]) -> None:
    """Refuse tables whose keys are of another kind than those in state."""
    for name, types in key_types.items():
        grouping = topology.grouping(*topology.inputs(name)[0].name)
        try:
            check_kind(grouping, topology.operator(name).parallelism, types)
        except InvalidKeyError as error:
            raise PlanError(
                f"routing[{name!r}]: operator {name!r} keeps state by keys of type "
                f"{', '.join(types)}, and {error}"
            ) from error


def _check_travels(grouping: Grouping) -> None:
    """Refuse a grouping of another package that the next driver could not read from the plan."""
    if type(grouping) in GROUPINGS:
        return
    back = grouping_from_dict(json.loads(json.dumps(grouping_to_dict(grouping))))
    if back != grouping:
        raise PlanError(
            f"{grouping!r} is {back!r} when it was written as JSON and read; a plan is kept as "
            "JSON, so let its to_dict and from_dict fit"
        )
