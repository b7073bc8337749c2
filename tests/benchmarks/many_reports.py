"""Made-up reports of a job with as many instances as one likes, as they reach the driver.

A source feeds two keyed operators, one after the other, each with ``instances`` instances; every
sender sends to every instance. Each task tells what it tells in a job of that size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from optimizers import Cluster, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.runtime.driver.time_parts import BatchClock, StageClock
from optimizers.runtime.observe.call_sums import call_sums
from optimizers.runtime.observe.observation import Observation, Sighting
from optimizers.runtime.state.file import FileKind, StateFile
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.collecting import collector, passed_on
from optimizers.runtime.task.flows import FLOW, NO_FLOWS, Flows
from optimizers.runtime.task.parcels import Parcel, as_batches
from optimizers.runtime.task.reports import TaskReport
from optimizers.runtime.work import JobContext, Settings
from optimizers.statistics import Probe
from sketches.arrays import Integers

_TUPLES = 10_000  # of an instance in a batch
_BYTES = 100  # of a tuple
_COLUMNS = ("place", "uint64"), ("key_0", "string"), ("value_count", "int64")


@dataclass(frozen=True)
class ManyReports:
    """A job, and what its tasks report.

    Attributes:
        instances: how many each operator has.
        observed: whether all that can be observed is.
        merged: whether tasks merge reports on their way; else all reach the driver as they are.
    """

    instances: int
    observed: bool = False
    merged: bool = True

    @cached_property
    def job(self) -> Topology:
        """The job."""
        groups = max(self.instances, 128)
        first, second = Count(emit=Emit.TUPLES), Count(emit=Emit.NOTHING)
        job = Topology.source("s", parallelism=self.instances)
        job = job.then("a", key="k", parallelism=self.instances, key_groups=groups, apply=first)
        return job.then("b", key="l", parallelism=self.instances, key_groups=groups, apply=second)

    @cached_property
    def cluster(self) -> Cluster:
        """A node for each instance."""
        return Cluster.uniform(self.instances)

    @cached_property
    def work(self) -> JobContext:
        """The job as tasks know it."""
        layout = Layout.of(self.job, self.cluster, Plan())
        observes = frozenset(Probe) if self.observed else frozenset[Probe]()
        return JobContext(layout, {}, Location("/nowhere"), Settings(observes=observes))

    def arriving(self, batch: int) -> list[pa.RecordBatch]:
        """Return what reaches the driver of a batch."""
        layout = self.work.layout
        coming: dict[int, list[Parcel]] = {}
        for stage, name in enumerate(self.job.order):
            following: dict[int, list[Parcel]] = {}
            parcels = [parcel for task in coming for parcel in self._onward(stage, coming[task])]
            parcels += [
                report.to_parcel(collector(layout, stage, report.sender))
                for report in self._reports(stage, name, batch)
            ]
            for parcel in parcels:
                following.setdefault(parcel.task, []).append(parcel)
            coming = following
        return list(as_batches(parcel for parcels in coming.values() for parcel in parcels))

    def _onward(self, stage: int, parcels: list[Parcel]) -> Iterator[Parcel]:
        if self.merged:
            return passed_on(self.work.layout, stage, parcels)
        return iter(parcels)

    @staticmethod
    def clock(stages: Sequence[int]) -> BatchClock:
        """Return when a batch ran, and its stages."""
        clocks = [StageClock(number, number, number + 1.0) for number in stages]
        return BatchClock(len(stages) + 0.1, 0.0, 0.0, clocks, len(stages) + 0.1)

    def _reports(self, stage: int, name: str, batch: int) -> Iterator[TaskReport]:
        """Yield what the instances of an operator tell."""
        edges = [edge.target for edge in self.job.edges]
        into = edges.index(name) if name in edges else None
        out = self.job.outputs(name)
        for number in range(self.instances):
            report = TaskReport(
                operator=name,
                instance=number,
                sender=number,
                tuples=_TUPLES,
                emitted=_TUPLES * len(out),
                seconds=0.1 + number * 1e-6,
                shipping=0.05,
                wall=0.1,
                keeping=0.02,
                clock=f"host-{number}",
                began=float(stage),
                ended=stage + 0.9,
                stage=stage,
                host=f"10.0.0.{number % 100}",
                bytes_out=_TUPLES * _BYTES * len(out),
                remote_out=_TUPLES * _BYTES * len(out),
                received=NO_FLOWS if into is None else self._received(into, number),
                sent=self._sent(self.job.edges.index(out[0]), number) if out else NO_FLOWS,
                observed=tuple(self._seen(name, number)),
            )
            yield report if into is None else self._kept(report, batch)

    def _kept(self, report: TaskReport, batch: int) -> TaskReport:
        """Return the report of an instance that keeps state."""
        name = f"{batch:010}-{report.instance}-0123456789abcdef"
        kind = FileKind.DELTA if batch else FileKind.BASE
        file = StateFile(f"state/{report.operator}/{name}.arrow", batch, 1_000, 10**6, 7, kind)
        known = replace(
            report,
            state=file,
            columns=_COLUMNS,
            hot_keys=np.arange(16) + 16 * report.instance,
            hot_tuples=np.full(16, 100),
            state_size=np.array([10**6, 10**6]),
        )
        if not self.observed:
            return known
        each = np.array([_TUPLES])
        bytes_each = each * float(_BYTES)
        return replace(
            known,
            calls=1,
            call_sums=call_sums([(_TUPLES, 100, 10**6, 0.1)]),
            groups=np.array([report.instance]),
            group_tuples=each,
            group_keys=np.array([100]),
            group_in=bytes_each,
            group_remote_in=bytes_each,
            group_out=bytes_each,
            group_remote_out=bytes_each,
            held_groups=np.array([report.instance]),
            held_bytes=np.array([1e6]),
        )

    def _sent(self, edge: int, sender: int) -> Flows:
        """Return a parcel to each instance; its digest depends on who sends it."""
        flows = self._flows(edge, np.arange(self.instances), 1)
        flows["digest"] += np.uint64(2 * sender + 1)
        home = flows["instance"] == sender
        flows["local_rows"] = flows["rows"] * home
        flows["local_bytes"] = flows["bytes"] * home
        return flows

    def _received(self, edge: int, instance: int) -> Flows:
        """Return one parcel from each sender."""
        flows = self._flows(edge, np.array([instance]), self.instances)
        flows["digest"] += np.uint64(self.instances**2)  # the sum of the first odd numbers
        flows["local_rows"] = flows["rows"] // self.instances
        flows["local_bytes"] = flows["bytes"] // self.instances
        return flows

    def _flows(self, edge: int, instances: Integers, parcels: int) -> Flows:
        rows = _TUPLES // self.instances * parcels
        flows = np.zeros(len(instances), dtype=FLOW)
        flows["edge"], flows["instance"], flows["parcels"] = edge, instances, parcels
        flows["rows"], flows["bytes"] = rows, rows * _BYTES
        flows["digest"] = instances * (1_000_003 * parcels)
        return flows

    def _seen(self, name: str, number: int) -> Iterator[Sighting]:
        """Yield as much as an instance may tell of keys, pairs and groups."""
        if not self.observed or not self.job.operator(name).keyed:
            return
        random = np.random.default_rng(number)
        keys, pairs = self.work.most_keys(name), self.work.most_pairs(name)
        own = _texts(number * keys + np.arange(keys))
        counts = np.arange(keys, 0, -1)
        yield Observation.of("keys", name), pa.table({"key": own, "count": counts})
        if self.job.outputs(name):
            left = _texts(number * keys + random.integers(0, keys, pairs))
            right = _texts(random.integers(0, keys * self.instances, pairs))
            ones = np.ones(pairs, dtype=np.int64)
            told = pa.table({"left": left, "right": right, "count": ones})
            yield Observation.of("pairs", "a", "b"), told
            cells = {"source": np.full(self.instances, number), "target": np.arange(self.instances)}
            traffic = pa.table({**cells, "tuples": np.full(self.instances, 10)})
            yield Observation.of("traffic", "a", "b"), traffic


def _texts(numbers: Integers) -> pa.Array:
    return pa.array([f"user-or-tag-{number:09d}" for number in numbers.tolist()])
