"""What tasks have tried of functions whose cost is asked for, as far as the driver knows it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from optimizers.runtime.observe.call_mode import CallMode, CallTrial
from optimizers.runtime.observe.observation import Observation, Seen
from optimizers.runtime.task.reports import TaskReport
from sketches.values import FrozenMap


class Trials:
    """The trials of all operators of a job."""

    def __init__(self) -> None:
        self._trials: dict[str, CallTrial] = defaultdict(CallTrial)

    def add(self, reports: Iterable[TaskReport]) -> None:
        """Take in what the tasks of a batch have tried."""
        for report in reports:
            for table in report.observed.get(Observation(Seen.TRIAL, (report.operator,)), ()):
                self._trials[report.operator].add(table)

    @property
    def ways(self) -> Mapping[str, CallMode]:
        """How tuples are to be handed to the functions of operators."""
        return FrozenMap({name: trial.way for name, trial in self._trials.items()})
