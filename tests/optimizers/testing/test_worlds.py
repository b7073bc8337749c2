"""The worlds that the suite asks strategies about."""

from optimizers import (
    Cluster,
    Node,
    Probe,
    Statistics,
    Topology,
)
from optimizers.past import Past
from optimizers.testing import (
    World,
    example_statistics,
    example_worlds,
    only,
)


def test_the_worlds_are_such_as_occur():
    seen = set()
    for world in example_worlds():
        world.statistics.check(world.topology)
        world.current.check(world.topology)
        assert {*world.current.add} <= {*world.cluster.nodes}
        seen |= {part for part in ("forks", "joins") if _has(part, world.topology)}
        seen |= {"draining"} if world.cluster.draining else set()
        seen |= {"uneven"} if len({node.capacity for node in world.cluster.nodes}) > 1 else set()
        seen |= {"racks"} if len({node.rack for node in world.cluster.nodes}) > 1 else set()
        seen |= {"under way"} if world.current else set()
        seen |= {"unobserved"} if not world.statistics else set()
        seen |= {"several sources"} if len(world.topology.sources) > 1 else set()

    assert {
        "forks",
        "joins",
        "draining",
        "uneven",
        "racks",
        "under way",
        "unobserved",
        "several sources",
    } == seen


def _has(part, topology):
    neighbours = topology.outputs if part == "forks" else topology.inputs
    return any(len(neighbours(name)) > 1 for name in topology.order)


def test_example_statistics_observe_everything_of_any_size():
    topology = Topology.source("op0", key="k")
    for place in range(1, 120):
        topology = topology.then(f"op{place}", key="k")
    statistics = example_statistics(topology)

    statistics.check(topology)
    for probe in Probe:
        assert only(statistics, [probe])
    assert statistics == only(statistics, Probe)
    # How the engine runs the job and what came before is told in any case.
    always = Statistics(
        epoch=3, seconds=10.0, execution=statistics.execution, past=Past(statistics.past.epochs)
    )
    assert always == only(statistics, [])
    assert statistics == example_statistics(topology)
    assert statistics != example_statistics(topology, seed=8)


def test_a_world_differs_by_what_is_in_it():
    topology = Topology.source("in")
    world = World(topology, Cluster((Node("a"),)), Statistics())

    assert world == World(topology, Cluster((Node("a"),)), Statistics())
    assert world != World(topology, Cluster((Node("b"),)), Statistics())
