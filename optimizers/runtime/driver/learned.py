"""What the driver has learned of a job from all batches so far, beyond the epoch."""

from optimizers.cluster import Cluster
from optimizers.control.loop import Pasts
from optimizers.runtime.driver.collector import EpochCollector
from optimizers.runtime.driver.state_sizes import StateSizes
from optimizers.runtime.observe.call_models import CallModels
from optimizers.runtime.observe.trials import Trials
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.work import StateFiles
from optimizers.statistics import Statistics


class Learned:
    """What reports told that holds for later batches too.

    Attributes:
        trials: how functions take to being called for few tuples.
        calls: what calls take.
        sizes: how much state instances hold.
    """

    def __init__(self) -> None:
        self.trials = Trials()
        self.calls = CallModels()
        self.sizes = StateSizes()

    def add(self, reports: Reports) -> None:
        """Take in what the tasks of a batch report."""
        self.trials.add(reports)
        self.calls.add(reports)
        self.sizes.add(reports)

    def statistics(
        self, epoch: EpochCollector, state: StateFiles, pasts: Pasts, cluster: Cluster
    ) -> Statistics:
        """Return what was seen in an epoch that is over.

        Args:
            epoch: what its batches reported.
            state: the state that the last of them has left.
            pasts: pairs of the epochs before.
            cluster: the machines.
        """
        held = self.sizes.of(state)
        seen = epoch.statistics(
            held.totals(state), pasts, cluster=cluster, held=held, model_of=self.calls.model
        )
        self.calls.fade()
        return seen
