"""LeastWork: each tuple goes to the instance that will finish it first."""

import base64
import binascii
import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.feedback import Dispatcher, Reporter, Truth
from grouping.grouping import Grouping
from grouping.key_batch import KeyBatch
from grouping.routers import KeyRouter, RoundRobinRouter, Router
from grouping.scheduling.least_work.costs import InstanceCosts
from grouping.scheduling.least_work.dispatcher import WorkDispatcher
from grouping.scheduling.least_work.reporter import WorkReporter
from grouping.scheduling.longest_first import longest_first
from sketches.arrays import Parts
from sketches.checks import number, whole
from sketches.cost_sketch import CostSketch
from sketches.errors import CorruptDataError, InvalidValueError
from sketches.values import listed

_DIGITS = 20  # binary digits of a mean cost
_AT_ONCE = 1 << 12  # tuples that fit the cache as Python objects
_LARGEST_WHOLE = 1 << 53  # up to here all whole numbers are floats


@dataclass(frozen=True, slots=True, eq=False)
class LeastWork(Grouping):
    """Send each tuple to the instance that will finish it first, by the costs of its key.

    >>> costs = CostSketch(width=55, depth=4, exact=10)
    >>> costs.update(["cheap", "costly"], [1.0, 3.0])
    >>> router = LeastWork(costs=costs).router(2)
    >>> router.route(5, ["costly", "cheap", "cheap", "cheap", "cheap"]).tolist()
    [0, 1, 1, 1, 0]

    If the instances report, it learns costs and the real progress of each instance as it goes. If
    they do not, as inside a batch on Spark, it uses ``costs`` and the tuples that it has sent;
    without costs it deals tuples out in turn.

    Attributes:
        messages: the most reports per tuple.
        tolerance: by how many average costs an instance and its sender may differ about its queue
            before it reports.
        keys: how many keys have a mean of their own, at each sender.
        costs: the costs known at the start.
        paces: for each instance, how many times as long as usual it takes; empty if all take as
        long.
        longest_first: whether a router may send the costliest tuples of each batch first, which
            divides it more evenly. Where tuples go then depends on how the stream is cut.

    References:
        N. Rivetti, E. Anceaume, Y. Busnel, L. Querzoni, B. Sericola, "Online scheduling for
        shuffle grouping in distributed stream processing systems", Middleware 2016.
    """

    messages: float = 0.05
    tolerance: float = 1.0
    keys: int = 4096
    costs: CostSketch | None = None
    paces: tuple[float, ...] = ()
    longest_first: bool = False
    kind = "least_work"
    needs_key = True
    listens = True

    def __post_init__(self) -> None:
        messages = number("messages", self.messages, above=0.0, up_to=1.0)
        tolerance = number("tolerance", self.tolerance, above=0.0)
        paces = tuple(
            number(f"paces[{place}]", pace, above=0.0)
            for place, pace in enumerate(listed("paces", self.paces))
        )
        if self.costs is not None and not isinstance(self.costs, CostSketch):
            raise InvalidValueError(f"costs={self.costs!r} is not a CostSketch; give one, or None")
        if not isinstance(self.longest_first, bool):
            raise InvalidValueError(
                f"longest_first={self.longest_first!r} is not a bool; give True or False"
            )
        object.__setattr__(self, "messages", messages)
        object.__setattr__(self, "tolerance", tolerance)
        object.__setattr__(self, "keys", whole("keys", self.keys, at_least=1))
        object.__setattr__(self, "paces", paces)
        # A copy, as the caller may go on counting in the sketch.
        object.__setattr__(self, "costs", None if self.costs is None else self.costs.copy())

    @property
    def instances(self) -> int | None:
        """How many instances it was made for; None where it serves any number."""
        return len(self.paces) or None

    def __eq__(self, other: object) -> bool:
        return type(other) is LeastWork and self._fields() == other._fields()

    def __hash__(self) -> int:
        fields = self.to_dict()
        return hash((fields.pop("costs"), *map(str, fields.values())))

    def __repr__(self) -> str:
        known = "nothing known" if self.costs is None else f"{self.costs.total:g} tuples known"
        paces = f", paces={self.paces}" if self.paces else ""
        return f"LeastWork({known}{paces}, messages={self.messages:g})"

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.messages,
            self.tolerance,
            self.keys,
            self.costs,
            self.paces,
            self.longest_first,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        written = None if self.costs is None else base64.b64encode(self.costs.to_bytes()).decode()
        return {
            "messages": self.messages,
            "tolerance": self.tolerance,
            "keys": self.keys,
            "costs": written,
            "paces": list(self.paces),
            "longest_first": self.longest_first,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "LeastWork":
        """Build it from what `to_dict` returned."""
        written = fields.get("costs")
        if written is None:
            return cls(**fields)
        try:
            stored = base64.b64decode(written, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise CorruptDataError(f"costs of a {cls.kind} grouping: {error}") from error
        return cls(**{**fields, "costs": CostSketch.from_bytes(stored)})

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        if self.costs is None or not self.costs.total:
            return RoundRobinRouter(instances, among=range(instances), start=sender)
        return WorkRouter(
            instances,
            self.costs,
            paces=self.paces,
            start=sender,
            longest_first=self.longest_first,
        )

    def _dispatcher(
        self, instances: int, sender: int, senders: int, truth: Truth | None
    ) -> Dispatcher:
        known = InstanceCosts(instances, self.keys, costs=self.costs, paces=self.paces)
        return WorkDispatcher(known, instances, sender=sender)

    def _reporter(self, instance: int, instances: int, senders: int) -> Reporter:
        return WorkReporter(
            instance, senders=senders, messages=self.messages, tolerance=self.tolerance
        )


class WorkRouter(KeyRouter):
    """Sends each tuple to the instance that it has sent least work to, by the costs of keys.

    Args:
        instances: how many instances there are.
        costs: what tuples of each key cost.
        paces: for each instance, how many times as long as usual it takes; empty if all take as
        long.
        start: which instance is the first among equals; counted in turn beyond the last.
        longest_first: whether to begin with the costliest tuples of each batch.
    """

    def __init__(
        self,
        instances: int,
        costs: CostSketch,
        *,
        paces: tuple[float, ...] = (),
        start: int = 0,
        longest_first: bool = False,
    ) -> None:
        super().__init__(instances)
        self._costs = costs
        self._paces = np.array(paces or [1.0] * instances)
        self._uniform = bool((self._paces == self._paces[0]).all())
        self._longest_first = longest_first
        self._order = (np.arange(instances) + start) % instances
        self._loads = np.zeros(instances)  # in the order above
        # Of instances of one pace, loads and costs are counted in whole units, so that sums are
        # exact and each fits a float together with the place it is of.
        _, exponent = math.frexp(costs.mean)
        self._unit = math.ldexp(1.0, exponent - _DIGITS)

    def _route(self, batch: KeyBatch) -> Parts:
        costs = batch.spread(self._costs.estimate(batch.column))
        if self._longest_first:
            places = longest_first(
                costs, self.instances, loads=self._loads, speeds=1.0 / self._paces[self._order]
            )
            work = costs * self._paces[self._order][places]
            self._loads += np.bincount(places, work, self.instances)
        elif self._uniform:
            places = self._by_heap(np.rint(costs / self._unit))
        else:
            places = self._by_scan(costs, self._paces[self._order])
        return self._order[places].astype(np.int32)

    def _by_heap(self, units: NDArray[np.float64]) -> Parts:
        """Choose one after the other, where a tuple takes as long anywhere."""
        places = 1 << (self.instances - 1).bit_length()
        self._loads -= self._loads.min()
        if (self._loads.max() + units.sum()) * places > _LARGEST_WHOLE:
            return self._by_scan(units, np.ones(self.instances))
        heap = (self._loads * places + np.arange(self.instances)).tolist()
        heapq.heapify(heap)
        replace = heapq.heapreplace
        least = np.empty(len(units))
        units = units * places
        for start in range(0, len(units), _AT_ONCE):
            some = units[start : start + _AT_ONCE].tolist()
            least[start : start + len(some)] = [replace(heap, heap[0] + cost) for cost in some]
        left = np.array(heap).astype(np.int64)
        self._loads[left & (places - 1)] = left // places
        chosen: Parts = (least.astype(np.int64) & (places - 1)).astype(np.int32)
        return chosen

    def _by_scan(self, costs: NDArray[np.float64], paces: NDArray[np.float64]) -> Parts:
        """Choose one after the other, where instances are of different pace."""
        chosen = np.empty(len(costs), dtype=np.int32)
        for row, cost in enumerate(costs.tolist()):
            done = self._loads + cost * paces
            place = chosen[row] = int(done.argmin())
            self._loads[place] = done[place]
        return chosen
