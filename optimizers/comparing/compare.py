"""`compare`: the door to comparisons. What does the work is imported once it is called."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizers.comparing.comparison import Comparison
from optimizers.error_boundary import front_door
from optimizers.optimizer import Optimizer
from optimizers.topology import Topology

if TYPE_CHECKING:
    from optimizers.spark.engine import SparkEngine

Rows = Any
"""The tuples of a batch: a DataFrame or an Arrow table, or one for each source by its name."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a comparison is.

    Attributes:
        batch: the batch at hand.
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
    engine: "SparkEngine | None" = None,
    warm_up: int = 2,
    title: str = "",
    watch: Callable[[Step], None] | None = None,
) -> Comparison:
    """Run a job under several optimizers, on the same input, and return what came of each.

    Each batch is recorded once. Then every variant runs it, in an order that changes from batch
    to batch, so that other work of the machine slows all of them equally. A sequential run of the
    same batch says what must come out; see `optimizers.comparing.reference`.

    Args:
        topology: the job.
        source: for each batch the rows of each source, by its name; where there is one source,
            its rows alone. Each batch must fit into the driver's memory.
        variants: the optimizers, by the names they are to have in the table; None for none: keys
            are then routed by hash. The first is what the others are measured against.
        engine: how jobs are run; each variant gets a folder of its own in its checkpoint, where it
            stays. By default on Spark on this machine, in a folder that is removed afterwards,
            with a decision every three batches.
        warm_up: how many batches at the beginning are left out of all figures.
        title: what is compared, for reports.
        watch: is called after each step.

    Raises:
        InvalidValueError: there is no variant, or there are not more batches than are left out.
    """
    # What does the work needs Spark and Arrow, which those who only plan need not have loaded.
    from optimizers.comparing.runner import run_contest  # noqa: PLC0415

    return run_contest(
        topology, source, variants, engine=engine, warm_up=warm_up, title=title, watch=watch
    )
