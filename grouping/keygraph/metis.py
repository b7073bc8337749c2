"""METIS, the graph partitioner: the one module that imports pymetis.

The paper's problem bounds the load of each operator separately, so a key carries one weight for
each operator and METIS has to balance all of them. pymetis passes a single weight on to METIS,
although METIS itself takes several. Its compiled module carries METIS' own entry points, and this
module calls them directly; where they cannot be found, it falls back to one weight, the sum, and
the caller evens out what is left.

References:
    G. Karypis, V. Kumar, "Multilevel algorithms for multi-constraint graph partitioning",
    SC 1998.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.errors import PartitionError
from grouping.keygraph.metis_output import unprinted
from sketches.arrays import Floats, Integers

_OPTIONS = 40  # METIS_NOPTIONS
_OK = 1  # METIS_OK
_DEFAULT = -1
_SEEDS = 1 << 31  # METIS takes its seed as a signed number, of 32 bits in some builds
_LARGEST_WEIGHT = 1 << 30  # of all vertices together, where METIS counts in 32 bits


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """An undirected graph: vertex ``v`` has the edges ``starts[v]`` to ``starts[v + 1]``.

    Attributes:
        starts: where each vertex' edges begin; one more than there are vertices.
        neighbours: the vertex at the other end of each edge; each edge stands at both its ends.
        weights: how much each edge weighs; positive whole numbers.
    """

    starts: Integers
    neighbours: Integers
    weights: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1


def split(
    graph: Graph, loads: Integers, shares: Floats, tolerances: Floats, *, seed: int = 0
) -> NDArray[np.int32]:
    """Cut a graph into parts so that light edges are cut and the parts are even.

    Args:
        graph: what to cut.
        loads: of shape (vertices, kinds of load); whole numbers of at least 0.
        shares: of shape (kinds of load, parts), what share of it each part should get; all
            positive.
        tolerances: for each kind of load, how many times its share a part may get.
        seed: equal seeds give equal answers.

    Returns:
        The part of each vertex.
    """
    parts = shares.shape[1]
    if parts == 1:
        return np.zeros(len(graph), dtype=np.int32)
    if len(graph) <= parts:
        # METIS complains on the terminal, and leaves most of that many parts empty.
        return np.arange(len(graph), dtype=np.int32)
    some = loads.any(axis=0)  # METIS is not asked to even out a load of 0
    if not some.any():
        loads, some = np.ones_like(loads), some | True
    loads, shares, tolerances = loads[:, some], shares[some], tolerances[some]
    seed %= _SEEDS
    native = _native()
    with unprinted():
        if native is not None:
            return _split_natively(native, graph, loads, shares, tolerances, seed=seed)
        return _split_by_sum(graph, loads, shares, tolerances, seed=seed)


@dataclass(frozen=True, slots=True)
class _Native:
    """METIS' own function for several weights, and its number types."""

    function: Any
    integer: type[ctypes.c_int64 | ctypes.c_int32]
    width: "np.dtype[Any]"
    seed: int


@cache
def _native() -> _Native | None:
    """Return METIS' own function, or None where it cannot be reached."""
    import pymetis  # noqa: PLC0415  # only where keys are divided: it is no part of the contract
    from pymetis import _internal  # noqa: PLC0415

    width = np.dtype(pymetis.zero_copy_dtype())
    try:
        function = ctypes.CDLL(_internal.__file__).METIS_PartGraphKway
        seed = int(_internal.options_indices.SEED)  # type: ignore[attr-defined]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_int
    return _Native(function, ctypes.c_int64 if width.itemsize == 8 else ctypes.c_int32, width, seed)


def _split_natively(  # noqa: PLR0913  # METIS takes no less
    native: _Native,
    graph: Graph,
    loads: Integers,
    shares: Floats,
    tolerances: Floats,
    *,
    seed: int,
) -> NDArray[np.int32]:
    width = native.width
    kinds = loads.shape[1]
    options = np.full(_OPTIONS, _DEFAULT, dtype=width)
    options[native.seed] = seed
    arrays = {
        "starts": graph.starts.astype(width),
        "neighbours": graph.neighbours.astype(width),
        "loads": _fitting(loads, width).reshape(-1),
        "weights": _fitting(graph.weights, width),
        "targets": shares.T.astype(np.float32).reshape(-1),
        "tolerances": tolerances.astype(np.float32),
        "parts": np.zeros(len(graph), dtype=width),
    }
    numbers = {
        name: ctypes.byref(native.integer(value))
        for name, value in (
            ("vertices", len(graph)),
            ("kinds", kinds),
            ("parts", shares.shape[1]),
            ("cut", 0),
        )
    }
    at = {name: array.ctypes.data_as(ctypes.c_void_p) for name, array in arrays.items()}
    status = native.function(
        numbers["vertices"],
        numbers["kinds"],
        at["starts"],
        at["neighbours"],
        at["loads"],
        None,
        at["weights"],
        numbers["parts"],
        at["targets"],
        at["tolerances"],
        options.ctypes.data_as(ctypes.c_void_p),
        numbers["cut"],
        at["parts"],
    )
    if status != _OK:
        raise PartitionError(
            f"METIS refused to cut {len(graph)} keys in {shares.shape[1]} parts (status {status}); "
            "use fewer parts, or fewer pairs"
        )
    return arrays["parts"].astype(np.int32)


def _split_by_sum(
    graph: Graph, loads: Integers, shares: Floats, tolerances: Floats, *, seed: int
) -> NDArray[np.int32]:
    """Balance the sum of all kinds of load: all that pymetis passes on."""
    import pymetis  # noqa: PLC0415  # as above

    options = pymetis.Options(seed=seed, ufactor=max(1, int(1000 * (tolerances.max() - 1))))
    _, parts = pymetis.part_graph(
        shares.shape[1],
        adjacency=pymetis.CSRAdjacency(graph.starts, graph.neighbours),
        vweights=loads.sum(axis=1),
        eweights=graph.weights,
        tpwgts=shares.mean(axis=0).tolist(),
        recursive=False,
        options=options,
    )
    return np.asarray(parts, dtype=np.int32)


def _fitting(weights: Integers, width: np.dtype[Any]) -> NDArray[Any]:
    """Return the weights, scaled down where METIS counts in too few bits for their sum."""
    total = int(weights.sum())
    if width.itemsize == 8 or total < _LARGEST_WEIGHT:
        return weights.astype(width)
    scaled: NDArray[Any] = np.ceil(weights * (_LARGEST_WEIGHT / 2 / total)).astype(width)
    return scaled
