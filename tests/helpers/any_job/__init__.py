"""Any job, any stream and any plan, drawn by Hypothesis; and what must come out of it.

`Reference` is the judge: plain Python on dicts, one row after the other, which shares no code with
what it judges.
"""

from any_job.drawn_jobs import jobs, with_parallelism
from any_job.drawn_plans import CLUSTER, NODES, PROBES, plans, scripts
from any_job.drawn_streams import empty, rows_in, rows_of, streams
from any_job.driver import Driver, Scripted, results_by, temporary
from any_job.operators import few, few_row, lean, moved, odd, twice
from any_job.reference import Reference, counted, outputs_of, results
from any_job.shuffled import dealt, run_shuffled

__all__ = [
    "CLUSTER",
    "NODES",
    "PROBES",
    "Driver",
    "Reference",
    "Scripted",
    "counted",
    "dealt",
    "empty",
    "few",
    "few_row",
    "jobs",
    "lean",
    "moved",
    "odd",
    "outputs_of",
    "plans",
    "results",
    "results_by",
    "rows_in",
    "rows_of",
    "run_shuffled",
    "scripts",
    "streams",
    "temporary",
    "twice",
    "with_parallelism",
]
