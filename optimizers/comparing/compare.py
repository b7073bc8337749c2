"""`compare`: runs a comparison. The modules that do the work are imported when it is called."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from optimizers.comparing.comparison import Comparison
from optimizers.control.engine import Engine, check_engine
from optimizers.error_boundary import front_door
from optimizers.optimizer import Optimizer
from optimizers.plugins import default_engine
from optimizers.topology import Topology

Rows = Any
"""The tuples of a batch: a DataFrame or an Arrow table, or one for each source by its name."""


@dataclass(frozen=True, slots=True)
class ComparedBatch:
    """How far a comparison is.

    Attributes:
        batch: the present batch.
        variant: the variant that has just done it; empty for the reference.
        seconds: how long that took.
    """

    batch: int
    variant: str
    seconds: float


@front_door
def compare(  # noqa: PLR0913
    topology: Topology,
    source: Iterable[Rows] | Rows,
    variants: Mapping[str, Optimizer | None],
    *,
    engine: Engine | None = None,
    warm_up: int = 2,
    title: str = "",
    watch: Callable[[ComparedBatch], None] | None = None,
) -> Comparison:
    """Run a job under several optimizers, on the same input, and return the results of each.

    Each batch is recorded once. Then every variant runs it, in an order that changes from batch
    to batch, so that other work of the machine slows all of them equally. A sequential run of the
    same batch gives the expected results; see `optimizers.comparing.reference`.

    Args:
        topology: the job.
        source: for each batch the rows of each source, by its name; where there is one source,
            its rows alone. Each batch must fit into the driver's memory. The simulation takes
            streams as well.
        variants: the optimizers, by their names in the table; None routes keys by hash. The others
            are compared with the first.
        engine: runs the jobs. On Spark, each variant gets a folder of its own in the engine's
            checkpoint, where it stays; a simulation computes no results that could be checked. By
            default on Spark on this machine, in a folder that is removed afterwards, with a
            decision every three batches.
        warm_up: how many batches at the beginning are left out of all figures.
        title: what is compared, for reports.
        watch: is called after each step.

    Raises:
        InvalidValueError: there is no variant, or there are not more batches than are left out.
    """
    # The work needs Arrow, which planning alone need not load.
    from optimizers.comparing.runner import check_variants, run_comparison  # noqa: PLC0415

    check_variants(variants, warm_up)
    if engine is not None:
        check_engine(engine)
    with default_engine() if engine is None else nullcontext(engine) as given:
        return run_comparison(
            topology, source, variants, engine=given, warm_up=warm_up, title=title, watch=watch
        )
