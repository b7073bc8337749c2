"""What plans cannot ask of sources: each request is refused by name, and none is ignored."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from optimizers.control.checking import EngineLimits
from optimizers.errors import PlanError
from optimizers.plan import Plan
from optimizers.spark.replay import NAME
from optimizers.spark.sized import Sized
from sketches.values import FrozenMap

_UNSIZED = (
    "source {source!r} is a stream that lets in what its own options say; give it as "
    "Sized(read, rows), or leave it out of admit"
)
_FIXED = (
    "rows are let in by as many tasks as Spark has partitions of them, which no plan changes; "
    "leave source {source!r} out of parallelism"
)

_GIVEN = "bounded data is there already, and nothing comes while a batch waits; leave period out"


def limits_of_bounded(sources: Iterable[str]) -> EngineLimits:
    """Return the limits of the sources of a job on bounded data."""
    fixed = FrozenMap({name: _FIXED.format(source=name) for name in sources})
    return EngineLimits(fixed=fixed, unpaced=_GIVEN, cuts=True)


def limits_of_streams(streams: Mapping[str, DataFrame | Sized]) -> EngineLimits:
    """Return the limits of the sources of a job on streams."""
    unsized = [
        name
        for name, stream in streams.items()
        if not isinstance(stream, Sized) and not is_replay(stream)
    ]
    said = FrozenMap({name: _UNSIZED.format(source=name) for name in unsized})
    return replace(limits_of_bounded(streams), unsized=said, unpaced="", cuts=False)


def is_replay(stream: DataFrame) -> bool:
    """Return whether a stream, or its origin, is played back by `SparkEngine.replay`."""
    frame: Any = stream._jdf  # noqa: SLF001  # PySpark has no other way
    return NAME in str(frame.queryExecution().logical().toString())


def check_in_force(plan: Plan, limits: EngineLimits | None) -> None:
    """Refuse a source that cannot follow the plan in force, which was made for another source.

    Raises:
        PlanError: the plan sizes the source.
    """
    for name, why in (limits or EngineLimits()).unsized.items():
        if name in plan.admit:
            raise PlanError(f"the plan in force has admit[{name!r}]={plan.admit[name]}: {why}")
