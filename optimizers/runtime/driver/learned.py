"""What the driver has learned about a job from all batches so far, beyond the epoch."""

from optimizers.cluster import Cluster
from optimizers.control.loop import Pasts
from optimizers.runtime.driver.collector import EpochCollector
from optimizers.runtime.driver.state_sizes import StateSizes
from optimizers.runtime.driver.trials import Trials
from optimizers.runtime.observe.call_models import CallModels
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.work import StateFiles
from optimizers.statistics import Statistics


class Learned:
    """Facts from reports that stay true for later batches.

    Attributes:
        trials: how functions are best called where costs are measured.
        calls: the costs of calls.
        sizes: how much state instances hold.
    """

    def __init__(self) -> None:
        self.trials = Trials()
        self.calls = CallModels()
        self.sizes = StateSizes()

    def add(self, reports: Reports, state: StateFiles) -> None:
        """Take in the reports of a batch, and the state after it."""
        self.trials.add(reports)
        self.calls.add(reports)
        self.sizes.add(reports, state)

    def statistics(
        self, epoch: EpochCollector, state: StateFiles, pasts: Pasts, cluster: Cluster
    ) -> Statistics:
        """Return the statistics of a finished epoch.

        Args:
            epoch: the reports of its batches.
            state: the state after the last of them.
            pasts: pairs of the epochs before.
            cluster: the machines.
        """
        held = self.sizes.of(state)
        seen = epoch.statistics(pasts, cluster=cluster, held=held, model_of=self.calls.model)
        self.calls.fade()
        return seen
