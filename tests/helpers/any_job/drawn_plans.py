"""Plans to draw for a job: one decision, or one after the other."""

import numpy as np
from hypothesis import strategies as st

from any_job.drawn_jobs import SPLITTING
from grouping.groupings import (
    DChoices,
    DistributionAware,
    Fields,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
    WorstCase,
)
from grouping.key_table import KeyTable
from grouping.routing_table import GroupTable, RoutingTable
from optimizers import Cluster, Deployment, Node, Plan
from optimizers.statistics import Probe

NODES = ("node-0", "node-1", "node-2")
CLUSTER = Cluster.uniform(3)


def _keys_for(step, seed):
    """Some keys that may come, for a routing table; None for keys that no table can name."""
    if len(step.key) > 2:
        return None
    random = np.random.default_rng(seed)
    count = int(random.integers(0, 12))
    values = {
        "a": random.permutation(np.arange(-15, 15))[:count].tolist(),
        "b": random.permutation(np.array(["", "ä", *map(str, range(30))]))[:count].tolist(),
        "c": random.permutation(np.arange(-12, 12))[:count].tolist(),
    }
    columns = [values[name] for name in step.key]
    return list(zip(*columns, strict=True)) if len(columns) > 1 else columns[0]


@st.composite
def plans(draw, drawn, parallelism):
    """A decision on a job whose operators have these numbers of instances now."""
    numbers, batch, routing, placement, scheduling = {}, {}, {}, {}, {}
    for operator in drawn.topology.operators:
        name, step = operator.name, drawn.steps[operator.name]
        says = draw(st.integers(0, 31))
        seed = draw(st.integers(0, 1 << 20)) if says else 0
        random = np.random.default_rng(seed)
        instances = parallelism[name]
        if says & 1:
            instances = numbers[name] = int(random.integers(1, 6))
        if says & 2:
            batch[name] = int(random.choice([1, 2, 5, 1000]))
        if says & 4 and operator.keyed and drawn.topology.inputs(name):
            keys = _keys_for(step, seed)
            if operator.partial:
                routing[name] = SPLITTING[int(random.integers(len(SPLITTING)))]
            elif keys is None or random.random() < 0.2:
                routing[name] = Fields()
            else:
                owners = random.integers(0, instances, len(keys))
                table = RoutingTable(keys, owners, instances)
                cells = random.integers(0, instances, 7)
                grouped = random.integers(0, operator.key_groups, len(keys))
                by_group = GroupTable(keys, grouped, operator.key_groups)
                ways = (table, by_group, DistributionAware(table, cells), WorstCase(table))
                routing[name] = ways[int(random.integers(len(ways)))]
        if says & 8:
            homes = tuple(NODES[place] for place in random.integers(0, len(NODES), instances))
            groups = operator.key_groups if operator.keyed else 0
            placement[name] = Deployment(
                homes, tuple(random.integers(0, instances, groups).tolist())
            )
        if says & 16 and not operator.keyed:
            for edge in drawn.topology.inputs(name):
                spread = [Shuffle(), LocalOrShuffle()]
                spread += [] if edge.key is None else [Fields(), PartialKey(), DChoices()]
                scheduling[edge.name] = spread[int(random.integers(len(spread)))]
    adopt = [
        name for name in routing if isinstance(routing[name], KeyTable) and draw(st.booleans())
    ]
    add = (Node("node-9"),) if draw(st.integers(0, 9)) == 9 else ()
    drain = ("node-0",) if draw(st.integers(0, 9)) == 9 else ()
    return Plan(
        parallelism=numbers,
        batch=batch,
        routing=routing,
        placement=placement,
        scheduling=scheduling,
        adopt=tuple(adopt),
        add=add,
        drain=drain,
    )


@st.composite
def scripts(draw, drawn, count, parallelism=None):
    """Decisions, one after the other, from these numbers of instances on."""
    numbers = {op.name: op.parallelism for op in drawn.topology.operators}
    parallelism = {**numbers, **(parallelism or {})}
    made = []
    for _ in range(count):
        plan = draw(plans(drawn, parallelism)) if draw(st.integers(0, 3)) else Plan()
        parallelism |= plan.parallelism
        made.append(plan)
    return made


PROBES = st.sets(st.sampled_from(tuple(Probe)))
