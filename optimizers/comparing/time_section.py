"""Where each variant's time went, as a part of the table."""

from collections.abc import Sequence

import numpy as np

from optimizers.batch_time import BatchTime
from optimizers.comparing.outcome import Outcome
from optimizers.comparing.table import Line, Section
from optimizers.control.run_summary import NOTHING


def time_section(variants: Sequence[Outcome], span: Sequence[int]) -> Section | None:
    """Return where the time of some batches went, in median seconds.

    None where the engine knows it for no batch. Nothing is marked as best: a part may be short at
    the cost of another.
    """
    each = [_times(outcome, span) for outcome in variants]
    known = [time for times in each for time in times]
    if not known:
        return None
    parts = [part for part in known[0].parts if any(time.parts[part] for time in known)]
    lines = [
        _line(part, [[time.parts[part] for time in times] for times in each]) for part in parts
    ]
    lines.append(_line("all of it", [[time.seconds for time in times] for times in each]))
    return Section("where a batch's seconds go", tuple(lines))


def _times(outcome: Outcome, span: Sequence[int]) -> list[BatchTime]:
    return [time for batch in outcome.batches if batch.first in span for time in batch.times]


def _line(label: str, each: Sequence[Sequence[float]]) -> Line:
    cells = [f"{float(np.median(values)):.3g}" if values else NOTHING for values in each]
    return Line(label, tuple(cells), (False,) * len(cells))
