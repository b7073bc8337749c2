"""What a comparison keeps of a batch: figures from the report of the engine."""

from collections import defaultdict

from optimizers.comparing.outcome import BatchFacts
from optimizers.control.summary import BatchSummary
from optimizers.layout import Layout
from optimizers.topology import Topology
from sketches.values import FrozenMap


def batch_facts(summary: BatchSummary, layout: Layout, tuples: int, *, changed: bool) -> BatchFacts:
    """Return what a comparison keeps of a batch.

    Args:
        summary: of the batch.
        layout: the job as it was laid out.
        tuples: how many came in.
        changed: whether another plan came into force with it.
    """
    job = layout.topology
    hops = [
        flow
        for (source, target), flow in summary.edges.items()
        if job.operator(target).keyed and source not in job.sources
    ]
    return BatchFacts(
        batch=summary.batch,
        tuples=tuples,
        seconds=summary.seconds,
        makespan=makespan(summary, layout),
        moved=summary.taken_over,
        changed=changed,
        hops=sum(flow.tuples for flow in hops),
        local=sum(flow.local for flow in hops),
        bytes=sum(flow.bytes for flow in summary.edges.values()),
        remote_bytes=sum(flow.bytes - (flow.local_bytes or 0.0) for flow in summary.edges.values()),
        loads=FrozenMap(_loads(summary, job)),
        latency=None if summary.latency is None else summary.latency.mean,
        time=summary.time,
    )


def _loads(summary: BatchSummary, job: Topology) -> dict[str, tuple[int, ...]]:
    """Return the loads of all operators whose tuples go by a key: to its owner, or by its cost."""
    loads = {}
    for operator in job.operators:
        if operator.keyed:
            loads[operator.name] = summary.loads(operator.name)
        elif operator.parallelism > 1 and any(edge.key for edge in job.inputs(operator.name)):
            loads[operator.name] = _microseconds(summary, operator.name)
    return loads


def _microseconds(summary: BatchSummary, operator: str) -> tuple[int, ...]:
    """Return how long each instance of an operator worked."""
    found: dict[int, float] = defaultdict(float)
    for instance in summary.instances:
        if instance.operator == operator:
            found[instance.number] += instance.seconds
    return tuple(round(1e6 * found[number]) for number in sorted(found))


def makespan(summary: BatchSummary, layout: Layout) -> float:
    """Return the CPU seconds of the busiest instance of each stage, added up.

    That is how long a batch would take if each instance had a core of its own and the network
    were free. An operator without a stage of its own works where those do that feed it.
    """
    job, stages = layout.topology, layout.stage_of
    busy: dict[int, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))
    for instance in summary.instances:
        name = instance.operator
        while name in layout.attached:
            name = job.inputs(name)[0].source
        busy[stages[name]][name, instance.number] += instance.seconds + instance.shipping
    return sum(max(tasks.values()) for tasks in busy.values())
