"""What a task gets: the job under the plan in force, and the present batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from grouping.owners import Handover
from optimizers.control.collectors import last_keyed
from optimizers.errors import PlanError, TopologyError
from optimizers.folds.aggregates import Count
from optimizers.folds.fold import Emit, Fold
from optimizers.folds.together import Together
from optimizers.layout import Layout
from optimizers.operators import EdgeName, Operator
from optimizers.runtime.observe.call_mode import Calls
from optimizers.runtime.running_totals import check_totals
from optimizers.runtime.state.file import StateFile
from optimizers.runtime.storage.location import Location
from optimizers.statistics import Probe
from optimizers.topology import Topology
from sketches.checks import whole
from sketches.values import FrozenMap

PACKED_AT_ONCE = 1 << 16
"""How many tuples are routed and packed at a time: as many as stay in the cache."""

StateFiles = Mapping[str, tuple[tuple[StateFile, ...], ...]]
"""The state of each keyed operator: for each instance its files, oldest first."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How tasks work.

    Attributes:
        observes: what to observe.
        looked_at: the most tuples, of the first `PACKED_AT_ONCE`, that are sampled to count pairs;
            each then stands for several. Of later ones half as many are; with many instances each
            samples fewer.
        most_keys: the most keys that a task reports, the heaviest; fewer with many instances.
        parcel: the most tuples in a parcel, unless the plan says otherwise.
        parcel_bytes: how many bytes of tuples fill a parcel, by the mean size of those that are
            packed with them.
        shared_batches: whether consumers that are not alike share parcels, see
            `optimizers.runtime.task.shared_parcels`. What arrives is the same; as it takes more
            CPU time, the default is that they do not.
        keep_output: whether the output of operators that feed no other is kept in files.
        resident: how many bytes of state the processes of one executor together keep in memory from
            batch to batch, to save reading it again. 0 for none.
        sharing: how many processes of an executor share that; the engine sets it.
    """

    observes: frozenset[Probe] = frozenset()
    looked_at: int = 1 << 11
    most_keys: int = 1 << 12
    parcel: int = 1 << 16
    parcel_bytes: int = 64 << 20
    shared_batches: bool = False
    keep_output: bool = True
    resident: int = 1 << 30
    sharing: int = 1

    def __post_init__(self) -> None:
        whole("parcel", self.parcel, at_least=1)
        whole("parcel_bytes", self.parcel_bytes, at_least=1)
        whole("resident", self.resident, at_least=0)
        whole("sharing", self.sharing, at_least=1)

    @property
    def resident_each(self) -> int:
        """How many bytes of state one process keeps in memory."""
        return self.resident // self.sharing


_ALL_LOOKED_AT = 1 << 17
_ALL_KEYS = 1 << 17
_ALL_PAIRS = 1 << 17
"""The most tuples that all instances of an operator together sample, of those that each packs at
once; and the most keys of an operator, and pairs of a hop, that they report in a batch."""

_LEAST = 16  # of each instance, for any number of instances


@dataclass(frozen=True)
class JobContext:
    """All that a task must know about the job, while one plan is in force.

    Attributes:
        layout: the job as laid out.
        batch: how many tuples an operator emits at once, where the plan says so.
        location: where state and output are kept.
        settings: settings of tasks.
        handovers: the keys that change hands in the first batch, by operator.
    """

    layout: Layout
    batch: Mapping[str, int]
    location: Location
    settings: Settings
    handovers: Mapping[str, Handover] = field(default_factory=FrozenMap)

    @property
    def topology(self) -> Topology:
        """The job."""
        return self.layout.topology

    def fold(self, operator: str) -> Fold:
        """Return the fold of a keyed operator."""
        return fold_of(self.topology, operator)

    def looked_at(self, operator: str) -> int:
        """Return how many of the tuples that it packs at once an instance samples, at most."""
        return min(self.settings.looked_at, self._share(_ALL_LOOKED_AT, operator))

    def most_keys(self, operator: str) -> int:
        """Return how many keys an instance reports at most."""
        return min(self.settings.most_keys, self._share(_ALL_KEYS, operator))

    def most_pairs(self, operator: str) -> int:
        """Return how many pairs of keys an instance reports at most, of those that it sends."""
        return self._share(_ALL_PAIRS, operator)

    def _share(self, together: int, operator: str) -> int:
        return max(_LEAST, together // self.topology.operator(operator).parallelism)

    @cached_property
    def hops(self) -> dict[EdgeName, tuple[str, ...]]:
        """For each edge into a keyed operator, the last keyed operators that its tuples passed."""
        return {
            edge.name: tuple(
                first
                for first, second in self.topology.keyed_hops
                if second == edge.target and first in last_keyed(self.topology, edge.source)
            )
            for edge in self.topology.edges
            if self.topology.operator(edge.target).keyed
        }


@dataclass(frozen=True)
class Ticket:
    """One batch.

    Attributes:
        batch: its number.
        first: whether it is the first under this plan, so that keys have to be taken over.
        state: the state after the batch before.
        calls: how functions are called whose costs are measured by tuple, as far as that is known.
    """

    batch: int
    first: bool
    state: StateFiles
    calls: Mapping[str, Calls] = field(default_factory=FrozenMap)


def check_work(topology: Topology) -> None:
    """Refuse a job with operators that cannot apply their functions."""
    folds = {}
    for operator in topology.operators:
        if not operator.keyed:
            stateless_function(operator)
        elif not topology.inputs(operator.name):
            raise TopologyError(
                f"operator {operator.name!r} is a source with a key; let the source have none, and "
                "put a keyed operator after it"
            )
        else:
            folds[operator.name] = fold_of(topology, operator.name)
    check_totals(topology, folds)


def fold_of(topology: Topology, name: str) -> Fold:
    """Return the fold of a keyed operator; by default it counts its tuples by key.

    Raises:
        TopologyError: its function is not a fold.
    """
    operator = topology.operator(name)
    function = operator.function()
    if function is None:
        return Count(emit=Emit.TUPLES if topology.outputs(name) else Emit.CHANGES)
    if not isinstance(function, Fold):
        raise TopologyError(
            f"operator {name!r} keeps state by {', '.join(operator.key_columns)}, but "
            f"apply={function!r} is not a fold; use one of optimizers.folds, such as Count(), or "
            "EachKey(function) for a function of your own"
        )
    return function


def can_merge(fold: Fold) -> bool:
    """Return whether parts of one key's state can be merged."""
    if isinstance(fold, Together):
        return all(can_merge(part) for _, part in fold.folds)
    return type(fold).merge is not Fold.merge


def check_change(old: Topology, new: Topology) -> None:
    """Refuse to remove an instance if no other can merge its parts of keys.

    Raises:
        PlanError: a partial operator gets fewer instances, and its fold cannot merge.
    """
    for operator in new.operators:
        before = old.operator(operator.name).parallelism
        if operator.partial and operator.parallelism < before:
            fold = fold_of(new, operator.name)
            if not can_merge(fold):
                raise PlanError(
                    f"parallelism[{operator.name!r}]={operator.parallelism} is less than the "
                    f"{before} instances that hold parts of keys, and {fold!r} cannot put parts "
                    f"together; plan {before} at least, or use a fold that has merge"
                )


def stateless_function(operator: Operator) -> Any:
    """Return the function of an operator without a key; None if it has none.

    Raises:
        TopologyError: it is a fold, and there is no key to keep its state by.
    """
    function = operator.function()
    if isinstance(function, Fold):
        raise TopologyError(
            f"operator {operator.name!r} has no key to keep the state of {function!r} by; "
            "give it a key, or a function on record batches"
        )
    return function
