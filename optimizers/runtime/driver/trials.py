"""What tasks have tried of functions whose cost is asked for, as far as the driver knows it."""

from collections import defaultdict
from collections.abc import Mapping

from optimizers.runtime.observe.call_mode import Calls, CallTrial
from optimizers.runtime.observe.observation import Seen
from optimizers.runtime.task.reports import Reports, by_sender
from sketches.values import FrozenMap


class Trials:
    """The trials of all operators of a job."""

    def __init__(self) -> None:
        self._trials: dict[str, CallTrial] = defaultdict(CallTrial)

    def add(self, reports: Reports) -> None:
        """Take in what the tasks of a batch have tried."""
        for seen, tables in reports.observed.items():
            if seen.kind is Seen.TRIAL:
                (operator,) = seen.about
                for table in tables:
                    for _, own in by_sender(table):
                        self._trials[operator].add(own)

    @property
    def calls(self) -> Mapping[str, Calls]:
        """How the functions of operators are to be called."""
        return FrozenMap({name: trial.calls for name, trial in self._trials.items()})
