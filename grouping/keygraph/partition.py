"""Dividing keys among parts, so that keys which occur together are together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.errors import PartitionError
from grouping.keygraph import metis
from grouping.keygraph.division import Task, divide
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.refinement import part_loads
from grouping.routing_table import RoutingTable
from sketches import checks
from sketches.arrays import Floats, Parts
from sketches.values import numeric

_ALMOST_ZERO = 1e-300
_LIGHTEST = 1 / 256  # of a share; lighter keys are never considered alone
_ROUNDING = 1 + 1e-9  # limits that are met exactly must not be missed by a sum's last digit


@dataclass(frozen=True)
class Partition:
    """The part of each key, for one or more operators in order.

    Attributes:
        tables: for each operator, the owner of each key.
        locality: the share of the tuples whose two keys are in one part; 1 without any tuples.
        imbalance: for each operator, the load of the fullest part, in shares.
        moved: the share of the load, of all operators together, that had another owner before; 0
            without any previous owner.
        rack_locality: the share of the tuples whose two keys are in one rack; the locality where
            no racks were given.
    """

    tables: tuple[RoutingTable, ...]
    locality: float
    imbalance: tuple[float, ...]
    moved: float
    rack_locality: float


def partition_keys(  # noqa: PLR0913
    pairs: KeyPairs | KeyGraph,
    parts: int,
    *,
    imbalance: float = 1.03,
    previous: Sequence[RoutingTable] | None = None,
    capacities: Any = None,
    racks: Sequence[Any] | None = None,
    inertia: float = 0.1,
    tries: int = 1,
    seed: int = 0,
) -> Partition:
    """Divide the keys of consecutive operators among parts.

    Each part is one machine, or one instance of each operator; pairs within a part cost no
    network. No part gets more load of any one operator than ``imbalance`` times its share, or
    than the heaviest keys make unavoidable.

    >>> pairs = KeyPairs(["Asia", "Asia", "Oceania"], ["#java", "#ruby", "#python"], [30, 20, 50])
    >>> partition = partition_keys(pairs, 2)
    >>> partition.locality, partition.imbalance
    (1.0, (1.0, 1.0))
    >>> by_place, by_tag = partition.tables
    >>> bool((by_place.assign(["Asia"]) == by_tag.assign(["#java"])).all())
    True

    Args:
        pairs: the pairs of two operators, or a graph of more.
        parts: how many parts there are.
        imbalance: how many times its share of an operator's load a part may get.
        previous: the present owners of keys, a table for each operator. The keys are then not
            divided from scratch but moved as far as it pays, see ``inertia``, which moves much less
            state. If a division from scratch would give the present one, they stay.
        capacities: how much each part can take, relative to the others; or a row of such numbers
            for each operator. Equal if left out.
        racks: the rack of each part. Pairs are kept in a rack where they cannot be in a part.
        inertia: with ``previous``, the price of a move: what share of the tuples of the keys that
            move must become local by it, be it one key or a cluster of them. 0 takes the best
            division found, however much has to move.
        tries: how many times to divide at least, with different seeds; the best is taken.
        seed: equal seeds give equal answers.

    Raises:
        PartitionError: previous tables, capacities or racks do not fit the parts or operators.
    """
    graph = _as_graph(pairs)
    parts = checks.whole("parts", parts, at_least=1)
    imbalance = _checked(imbalance)
    shares = _shares(parts, len(graph.names), capacities)
    rack_of = None if racks is None else _rack_numbers(parts, racks)
    owners = None if previous is None else _owners(graph, previous)
    task = Task(
        graph,
        shares,
        reachable_limits(graph, shares, imbalance),
        # Keys of an owner that is gone have no home.
        None if owners is None else np.where(owners < parts, owners, np.int32(-1)),
        checks.amount("inertia", inertia, up_to=1.0),
        checks.whole("tries", tries, at_least=1),
        checks.seed(seed),
    )
    divided = divide(task) if rack_of is None else _by_rack(task, rack_of, imbalance)
    return _as_partition(graph, divided, shares, owners, rack_of)


def partition_as_published(
    pairs: KeyPairs | KeyGraph, parts: int, *, imbalance: float = 1.03, seed: int = 0
) -> Partition:
    """Divide keys as in the paper: METIS once, on the sum of all operators' loads.

    It balances the load of all operators together, so a single operator may be further off.

    References:
        Caneill et al., "Locality-aware routing in stateful streaming applications", Middleware
        2016, section 3.3.
    """
    graph = _as_graph(pairs)
    imbalance = _checked(imbalance)
    shares = _shares(checks.whole("parts", parts, at_least=1), len(graph.names), None)
    loads = graph.whole_loads.sum(axis=1, keepdims=True)
    seed = checks.seed(seed)
    divided = metis.split(graph.whole, loads, shares[:1], np.array([imbalance]), seed=seed)
    return _as_partition(graph, divided, shares, None, None)


def reachable_limits(graph: KeyGraph, shares: Floats, imbalance: float) -> Floats:
    """Return the most load each part may get of each operator, of shape (operators, parts).

    That is ``imbalance`` times its share, but no less than what the heaviest keys need: a limit
    that cannot be kept would only make METIS cut pairs in vain.
    """
    limits = np.zeros_like(shares)
    for operator in range(len(graph.names)):
        loads = graph.loads[graph.span(operator)]
        if loads.any():
            needed = _fullest_share(loads, shares[operator][shares[operator] > 0], imbalance)
            limits[operator] = max(imbalance, needed) * shares[operator] * loads.sum()
    return limits * _ROUNDING


def _fullest_share(loads: Floats, shares: Floats, imbalance: float) -> float:
    """Return how full the fullest part gets, in shares, with the heaviest keys dealt out first.

    Each goes to the part that is the least full with it. Keys so light that any of them fits
    between a share and the imbalance fill up what is left and need no place of their own.
    """
    unit = shares * loads.sum()
    light = max(imbalance - 1, _LIGHTEST) * unit.max()
    levels = np.zeros(len(shares))
    for load in np.sort(loads[loads > light])[::-1].tolist():
        filled = levels + load / unit
        part = int(filled.argmin())
        levels[part] = filled[part]
    return float(levels.max())


def _shares(parts: int, operators: int, capacities: Any) -> Floats:
    """Return the share of each part in each operator's load, of shape (operators, parts)."""
    if capacities is None:
        return np.full((operators, parts), 1 / parts)
    given = numeric("capacities", capacities)
    if given.shape not in ((parts,), (operators, parts)):
        raise PartitionError(
            f"capacities of shape {given.shape} do not fit {parts} parts; "
            f"give one number for each, or a row of them for each of {operators} operators"
        )
    flat = checks.weights("capacities", given.reshape(-1), given.size)
    table = np.broadcast_to(flat.reshape(given.shape), (operators, parts))
    totals = table.sum(axis=1, keepdims=True)
    if not totals.all():
        raise PartitionError(f"capacities {given.tolist()} leave an operator without any part")
    return np.asarray(table / totals)


def _by_rack(task: Task, rack_of: Parts, imbalance: float) -> Parts:
    """Divide among racks first, then the keys of each rack among its parts."""
    number = int(rack_of.max()) + 1
    members = (rack_of == np.arange(number)[:, np.newaxis]).astype(np.float64)
    shares = task.shares @ members.T
    # A rack filled to the brim would leave nothing to choose among its parts.
    half = reachable_limits(task.graph, shares, (1 + imbalance) / 2)
    limits = np.minimum(task.limits @ members.T, half)
    homes = None if task.homes is None else np.where(task.homes < 0, -1, rack_of[task.homes])
    racks = divide(replace(task, shares=shares, limits=limits, homes=homes))
    parts = np.zeros(len(task.graph), dtype=np.int32)
    for rack in range(number):
        kept = racks == rack
        mine = np.flatnonzero(rack_of == rack).astype(np.int32)
        parts[kept] = mine[divide(_inside(task, kept, mine))]
    return parts


def _inside(task: Task, kept: NDArray[np.bool_], mine: Parts) -> Task:
    """Return the task of dividing some of the keys among some of the parts."""
    shares = task.shares[:, mine]
    homes = None
    if task.homes is not None:
        places = np.full(task.parts, -1, dtype=np.int32)
        places[mine] = np.arange(len(mine))
        homes = np.where(task.homes[kept] < 0, np.int32(-1), places[task.homes[kept]])
    return replace(
        task,
        graph=task.graph.subgraph(kept),
        shares=shares / np.maximum(shares.sum(axis=1, keepdims=True), _ALMOST_ZERO),
        limits=task.limits[:, mine],
        homes=homes,
    )


def _as_graph(pairs: KeyPairs | KeyGraph) -> KeyGraph:
    if isinstance(pairs, KeyPairs):
        return KeyGraph.of({("left", "right"): pairs})
    if not isinstance(pairs, KeyGraph):
        raise PartitionError(f"{pairs!r} are not pairs of keys; give KeyPairs or a KeyGraph")
    return pairs


def _checked(imbalance: float) -> float:
    if checks.number("imbalance", imbalance, above=0.0) < 1:
        raise PartitionError(
            f"imbalance={imbalance!r} would leave some of the load without a part; give 1 or more"
        )
    return float(imbalance)


def _rack_numbers(parts: int, racks: Sequence[Any]) -> Parts:
    if len(racks) != parts:
        raise PartitionError(f"{len(racks)} racks are given for {parts} parts; name one for each")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(rack, len(numbers)) for rack in racks], dtype=np.int32)


def _owners(graph: KeyGraph, previous: Sequence[RoutingTable]) -> Parts:
    """Return the present owner of each key."""
    if len(previous) != len(graph.names):
        raise PartitionError(
            f"{len(previous)} previous tables are given for {len(graph.names)} operators; "
            f"give one for each of {list(graph.names)}"
        )
    for table in previous:
        if not isinstance(table, RoutingTable):
            raise PartitionError(f"previous holds {table!r}, which is not a RoutingTable")
    owners = [table.assign(column) for table, column in zip(previous, graph.columns, strict=True)]
    return np.concatenate(owners) if owners else np.empty(0, dtype=np.int32)


def _as_partition(
    graph: KeyGraph,
    divided: Parts,
    shares: Floats,
    owners: Parts | None,
    rack_of: Parts | None,
) -> Partition:
    number = shares.shape[1]
    loads = part_loads(graph, divided, number)
    fullness = loads / np.maximum(shares * loads.sum(axis=1, keepdims=True), _ALMOST_ZERO)
    locality = _share(graph.within(divided), graph.total, otherwise=1.0)
    near = locality
    if rack_of is not None:
        near = _share(graph.within(rack_of[divided]), graph.total, otherwise=1.0)
    moved = 0.0
    if owners is not None:
        moved = _share(graph.loads[owners != divided].sum(), graph.loads.sum(), otherwise=0.0)
    return Partition(
        tuple(
            RoutingTable(column, divided[graph.span(operator)], number)
            for operator, column in enumerate(graph.columns)
        ),
        locality,
        tuple(fullness.max(axis=1).tolist()),
        moved,
        near,
    )


def _share(part: float, whole: float, *, otherwise: float) -> float:
    return float(part / whole) if whole else otherwise
