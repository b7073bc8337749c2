"""A driver that runs a job in this process, batch by batch, under given plans."""

import tempfile

import pyarrow as pa

from any_job.drawn_plans import CLUSTER
from optimizers import Optimizer, Plan
from optimizers.control.settings import Asking
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import MARK, Checkpoint
from optimizers.runtime.results import results_of
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings


class Scripted(Optimizer):
    """Decides what it was told to: one plan each time it is asked."""

    def __init__(self, plans, observes=frozenset()):
        self.plans = list(plans)
        self._observes = frozenset(observes)

    @property
    def observes(self):
        return self._observes

    def plan(self, topology, cluster, statistics, current):
        return self.plans.pop(0) if self.plans else Plan()


class Driver:
    """Runs a job in this process, batch by batch."""

    def __init__(
        self,
        folder,
        job,
        plans=(),
        *,
        observes=(),
        every=1,
        drift=None,
        meanwhile=False,
        remember=99,
        cluster=CLUSTER,
        provisioning=None,
        slots=None,
        **settings,
    ):
        self.job = job
        location = Location(str(folder))
        # The seed of a new checkpoint is drawn; a test is to go the same way each time.
        seed = None if location.exists(MARK) else job.seed
        self.checkpoint = Checkpoint.create_or_open(location, job, seed=seed)
        self.optimizer = plans if isinstance(plans, Optimizer) else Scripted(plans, observes)
        self.coordinator = Coordinator(
            job,
            cluster,
            self.optimizer,
            self.checkpoint,
            asking=Asking(every=every, drift=drift, meanwhile=meanwhile, remember=remember),
            settings=Settings(**settings),
            provisioning=provisioning,
            slots=lambda: slots,
        )

    def run(self, tables):
        """Run the tasks of a batch; each table is a partition of its source."""
        self.assigned = self.coordinator.assign()
        return run_batch(self.assigned.work, self.assigned.ticket, partitions(tables))

    def batch(self, tables):
        """Run and commit a batch, and return what happened."""
        reports = self.run(tables)
        return self.coordinator.commit(self.assigned, reports, 2.0)

    def results(self, operator):
        """The results of an operator by key; of keys of one column, by that."""
        table = results_of(self.job, operator, self.checkpoint.read(operator))
        (key,) = self.job.operator(operator).key_columns
        (value,) = [name for name in table.column_names if name != key]
        keys = table.column(key).to_pylist()
        found = dict(zip(keys, table.column(value).to_pylist(), strict=True))
        assert len(found) == len(keys)
        return found


def partitions(tables):
    """The partitions of each source, given its table or several of them."""
    listed = {
        name: [tables_of] if isinstance(tables_of, pa.Table) else tables_of
        for name, tables_of in tables.items()
    }
    return {name: [table.to_batches() for table in found] for name, found in listed.items()}


def results_by(driver, operator):
    """The results of an operator that has a key of several columns, by the values of those."""
    table = results_of(driver.job, operator, driver.checkpoint.read(operator))
    columns = driver.job.operator(operator).key_columns
    (value,) = [name for name in table.column_names if name not in columns]
    return {tuple(row[name] for name in columns): row[value] for row in table.to_pylist()}


def temporary():
    """A folder for as long as it is needed."""
    return tempfile.TemporaryDirectory()
