"""Aeolus where all instances run all the time: instances and batches by what tuples cost."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from batching.calibration import nonnegative_least_squares
from batching.dataflow import Dataflow
from batching.errors import OverloadError
from batching.planner import BATCH_BYTES, TuplePlan, plan_tuples
from batching.tuple_costs import Shipping
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Integers

UNKNOWN = Shipping(message=0.0, byte=0.0)


@dataclass(frozen=True)
class TupleSettings:
    """What a plan for instances that all run is to keep to; see `plan_tuples`."""

    headroom: float
    workers: int | None = None
    latency: float | None = None
    memory: float | None = None
    batch_bytes: int = BATCH_BYTES

    def plan(
        self,
        flow: Dataflow,
        shipping: Shipping,
        *,
        throttle: bool = False,
        keeping: Integers | None = None,
    ) -> TuplePlan:
        """Return the plan of a dataflow."""
        return plan_tuples(
            flow,
            shipping,
            batch_bytes=self.batch_bytes,
            headroom=self.headroom,
            workers=self.workers,
            throttle=throttle,
            latency=self.latency,
            memory=self.memory,
            keeping=keeping,
        )

    def calm(
        self, found: TuplePlan, flow: Dataflow, shipping: Shipping, topology: Topology
    ) -> TuplePlan | None:
        """Return the plan that takes no instance from keyed operators, whose state would move.

        None where `found` takes none, or where there are too few workers to keep them.
        """
        operators = [topology.operator(name) for name in flow.names]
        needed = found.instances.tolist()
        keeping = np.array(
            [
                operator.parallelism if operator.keyed and operator.parallelism > count else 0
                for operator, count in zip(operators, needed, strict=True)
            ]
        )
        if not keeping.any():
            return None
        try:
            return self.plan(flow, shipping, throttle=found.scale < 1, keeping=keeping)
        except OverloadError:
            return None


def measured_shipping(statistics: Statistics, topology: Topology) -> Shipping | None:
    """Return what a message and a byte cost, as senders were seen to work for them.

    None where no sender was seen to work for messages that were counted.
    """
    counted, seconds = [], []
    for name, seen in statistics.operators.items():
        edges = [statistics.edges.get(edge.name) for edge in topology.outputs(name)]
        known = [edge for edge in edges if edge is not None and edge.parcels is not None]
        if seen.shipping is not None and known and len(known) == len(edges):
            parcels = sum(edge.parcels or 0.0 for edge in known)
            if parcels:
                counted.append([parcels, sum(edge.bytes for edge in known)])
                seconds.append(seen.shipping)
    if not any(seconds):
        return None
    message, byte = nonnegative_least_squares(np.array(counted), np.array(seconds)).tolist()
    return Shipping(message, byte)


def as_plan(found: TuplePlan, flow: Dataflow, topology: Topology, current: Plan) -> Plan:
    """Return what changes under a plan: instances of operators, and how their output is cut."""
    parallelism, batch = dict[str, int](), dict[str, int]()
    for place, name in enumerate(flow.names):
        operator = topology.operator(name)
        instances = int(found.instances[place])
        if operator.keyed:
            instances = min(instances, operator.key_groups)
        if name not in topology.sources and instances != operator.parallelism:
            parallelism[name] = instances
        size = int(found.batches[place])
        if topology.outputs(name) and size != current.batch.get(name, 1):
            batch[name] = size
    return Plan(parallelism=parallelism, batch=batch)


def too_few_groups(found: TuplePlan, flow: Dataflow, topology: Topology) -> Mapping[str, str]:
    """Return what is said of operators whose key groups are fewer than the instances they need."""
    texts = {}
    for place, name in enumerate(flow.names):
        operator = topology.operator(name)
        needed = int(found.instances[place])
        if operator.keyed and needed > operator.key_groups:
            texts[name] = (
                f"needs {needed} instances, and has {operator.key_groups} key groups; declare more "
                "in a new job"
            )
    return texts


def work_of(flow: Dataflow) -> float:
    """Return the seconds that all operators work for one tuple of the sources."""
    total = float(flow.rates.sum())
    if not total:
        return 0.0
    return float(flow.arrivals(flow.rates) @ flow.seconds) / total
