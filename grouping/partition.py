"""Dividing keys among parts, so that keys which occur together are together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grouping import metis
from grouping.errors import PartitionError
from grouping.key_graph import KeyGraph
from grouping.key_pairs import KeyPairs
from grouping.matching import best_matching
from grouping.refinement import Parts, part_loads, refine, repair
from grouping.routing_table import RoutingTable
from sketches import checks

Numbers: TypeAlias = NDArray[np.float64]

# METIS is asked for a little less than what is allowed: its limits are of single precision, and
# the room that is left lets refinement exchange keys.
_SAFETY = 0.002
_LEAST_TOLERANCE = 1.001
_LEAST_SHARE = 1e-4  # METIS divides by shares; whatever it puts there is moved out again
_ALMOST_ZERO = 1e-300


@dataclass(frozen=True, eq=False)
class Partition:
    """Which part owns which key, of one or more operators in order.

    Attributes:
        tables: for each operator, the owner of each key.
        locality: the share of the tuples whose two keys are in one part; 1 without any tuples.
        imbalance: for each operator, how many times its share the fullest part has.
        moved: the share of the load, of all operators together, whose owner was another one
            before; 0 without any previous owner.
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
    inertia: float = 0.02,
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
        previous: who owns the keys now, a table for each operator. The keys are then not divided
            anew but moved as far as it pays, see ``inertia``, which moves much less state.
        capacities: how much each part can take, relative to the others; or a row of such numbers
            for each operator. Equal if left out.
        racks: the rack of each part. Pairs are kept in a rack where they cannot be in a part.
        inertia: with ``previous``, the price of a move: what share of a key's tuples must become
            local by it. 0 takes the best division, whatever has to move.
        tries: how many times to divide, with different seeds; the best is taken.
        seed: equal seeds give equal answers.

    Raises:
        PartitionError: previous tables, capacities or racks do not fit the parts or operators.
    """
    graph = pairs if isinstance(pairs, KeyGraph) else KeyGraph.of({("left", "right"): pairs})
    parts = checks.whole("parts", parts, at_least=1)
    shares = _shares(parts, len(graph.names), capacities)
    limits = reachable_limits(graph, shares, checks.number("imbalance", imbalance, above=0.0))
    tries = checks.whole("tries", tries, at_least=1)
    rack_of = None if racks is None else _rack_numbers(parts, racks)
    owners = None if previous is None else _owners(graph, previous)
    divided = _anew(graph, shares, limits, rack_of, tries=tries, seed=seed)
    if owners is not None:
        divided = _from_before(graph, shares, limits, owners, divided, inertia)
    return _as_partition(graph, divided, shares, owners, rack_of)


def partition_as_published(
    pairs: KeyPairs | KeyGraph, parts: int, *, imbalance: float = 1.03, seed: int = 0
) -> Partition:
    """Divide keys as the paper has it: METIS once, on the sum of all operators' loads.

    It balances the load of all operators together, so a single operator may be further off.

    References:
        Caneill et al., "Locality-aware routing in stateful streaming applications", Middleware
        2016, section 3.3.
    """
    graph = pairs if isinstance(pairs, KeyGraph) else KeyGraph.of({("left", "right"): pairs})
    shares = _shares(checks.whole("parts", parts, at_least=1), len(graph.names), None)
    loads = graph.whole_loads.sum(axis=1, keepdims=True)
    divided = metis.split(graph.whole, loads, shares[:1], np.array([imbalance]), seed=seed)
    return _as_partition(graph, divided, shares, None, None)


def reachable_limits(graph: KeyGraph, shares: Numbers, imbalance: float) -> Numbers:
    """Return the most load each part may get of each operator, of shape (operators, parts).

    That is ``imbalance`` times its share, but no less than what the heaviest keys need: a limit
    that cannot be kept would only make METIS cut pairs in vain.
    """
    if imbalance < 1:
        raise PartitionError(
            f"imbalance={imbalance!r} would leave some of the load without a part; give 1 or more"
        )
    limits = np.zeros_like(shares)
    for operator in range(len(graph.names)):
        loads = graph.loads[graph.span(operator)]
        if loads.any():
            needed = _fullest_share(loads, shares[operator][shares[operator] > 0])
            limits[operator] = max(imbalance, needed) * shares[operator] * loads.sum()
    return limits


def _fullest_share(loads: Numbers, shares: Numbers) -> float:
    """Return how full the fullest part gets, in shares, with the heaviest keys dealt out first.

    Each goes to the part that is the least full with it. Keys of less than an eighth of a share
    fill up what is left and need no place of their own.
    """
    unit = shares * loads.sum()
    levels = np.zeros(len(shares))
    for load in np.sort(loads[loads > unit.min() / 8])[::-1].tolist():
        filled = levels + load / unit
        part = int(filled.argmin())
        levels[part] = filled[part]
    return float(levels.max())


def _shares(parts: int, operators: int, capacities: Any) -> Numbers:
    """Return the share of each part in each operator's load, of shape (operators, parts)."""
    if capacities is None:
        return np.full((operators, parts), 1 / parts)
    given = np.asarray(capacities)
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


def _from_before(  # noqa: PLR0913, PLR0917
    graph: KeyGraph,
    shares: Numbers,
    limits: Numbers,
    owners: Parts,
    anew: Parts,
    inertia: float,
) -> Parts:
    """Change owners as far as it pays: begin with those of now, or with a division made anew.

    Whichever leaves more pairs together, less what its moves cost.
    """
    parts = shares.shape[1]
    # An owner that is gone leaves its keys to one that is there; they may move on from it.
    homes = owners % np.int32(parts)
    candidates = []
    for start in (repair(graph, homes, limits), _renamed(graph, shares, homes, anew)):
        divided = refine(graph, start, limits, home=homes, inertia=inertia)
        moved = float(graph.loads[divided != owners].sum())
        candidates.append((graph.within(divided) - inertia * moved, divided))
    (worth, kept), (other, divided) = candidates
    return divided if other > worth else kept


def _renamed(graph: KeyGraph, shares: Numbers, homes: Parts, anew: Parts) -> Parts:
    """Give new parts the names of those old ones, of the same size, that hold most of them."""
    parts = shares.shape[1]
    pairs = homes * np.int64(parts) + anew
    overlap: Any = np.bincount(pairs, graph.loads, parts * parts).reshape(parts, parts)
    different = (shares[:, :, np.newaxis] != shares[:, np.newaxis, :]).any(axis=0)
    overlap[different] = -graph.loads.sum() - 1  # never worth it, so only equals are exchanged
    names = np.empty(parts, dtype=np.int32)
    names[best_matching(overlap)] = np.arange(parts)
    return names[anew]


def _anew(  # noqa: PLR0913
    graph: KeyGraph,
    shares: Numbers,
    limits: Numbers,
    rack_of: Parts | None,
    *,
    tries: int,
    seed: int,
) -> Parts:
    if rack_of is None:
        return _divide(graph, shares, limits, tries=tries, seed=seed)
    return _by_rack(graph, shares, limits, rack_of, tries=tries, seed=seed)


def _divide(graph: KeyGraph, shares: Numbers, limits: Numbers, *, tries: int, seed: int) -> Parts:
    """Divide with METIS, keep to the limits, and improve; take the best of some tries."""
    best, most = np.zeros(len(graph), dtype=np.int32), -1.0
    for attempt in range(tries):
        divided = _metis(graph, shares, limits, seed + attempt)
        divided = refine(graph, repair(graph, divided, limits), limits)
        within = graph.within(divided)
        if within > most:
            best, most = divided, within
    return best


def _metis(graph: KeyGraph, shares: Numbers, limits: Numbers, seed: int) -> Parts:
    loads = [graph.loads[graph.span(operator)].sum() for operator in range(len(graph.names))]
    allowed = limits.max(axis=1) / np.maximum(shares.max(axis=1) * loads, _ALMOST_ZERO)
    tolerances = np.maximum(allowed - _SAFETY, _LEAST_TOLERANCE)
    targets = np.maximum(shares, _LEAST_SHARE)
    targets /= targets.sum(axis=1, keepdims=True)
    return metis.split(graph.whole, graph.whole_loads, targets, tolerances, seed=seed)


def _by_rack(  # noqa: PLR0913
    graph: KeyGraph, shares: Numbers, limits: Numbers, rack_of: Parts, *, tries: int, seed: int
) -> Parts:
    """Divide among racks first, then the keys of each rack among its parts."""
    number = int(rack_of.max()) + 1
    members = rack_of == np.arange(number)[:, np.newaxis]
    racks = _divide(graph, shares @ members.T, limits @ members.T, tries=tries, seed=seed)
    parts = np.zeros(len(graph), dtype=np.int32)
    for rack in range(number):
        mine = np.flatnonzero(members[rack]).astype(np.int32)
        kept = racks == rack
        inner = shares[:, mine] / np.maximum(shares[:, mine].sum(axis=1, keepdims=True), 1e-9)
        divided = _divide(graph.subgraph(kept), inner, limits[:, mine], tries=tries, seed=seed)
        parts[kept] = mine[divided]
    return parts


def _rack_numbers(parts: int, racks: Sequence[Any]) -> Parts:
    if len(racks) != parts:
        raise PartitionError(f"{len(racks)} racks are given for {parts} parts; name one for each")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(rack, len(numbers)) for rack in racks], dtype=np.int32)


def _owners(graph: KeyGraph, previous: Sequence[RoutingTable]) -> Parts:
    """Return who owns each key now."""
    if len(previous) != len(graph.names):
        raise PartitionError(
            f"{len(previous)} previous tables are given for {len(graph.names)} operators; "
            f"give one for each of {list(graph.names)}"
        )
    owners = [table.assign(column) for table, column in zip(previous, graph.columns, strict=True)]
    return np.concatenate(owners) if owners else np.empty(0, dtype=np.int32)


def _as_partition(
    graph: KeyGraph,
    divided: Parts,
    shares: Numbers,
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
