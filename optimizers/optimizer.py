"""The one interface of all strategies."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from optimizers.cluster import Cluster
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology


class Optimizer(ABC):
    """A strategy: it looks at a job and at what was seen of it, and decides.

    To write one, subclass it, keep its settings in a frozen dataclass, and let the suite in
    `optimizers.testing` prove that it keeps the contract.
    """

    @property
    def name(self) -> str:
        """How the strategy is called in notes and reports."""
        return type(self).__name__

    @property
    def observes(self) -> frozenset[Probe]:
        """What has to be observed for it; jobs do not pay for statistics that no strategy reads.

        In a subclass a plain attribute will do: ``observes = frozenset({Probe.OPERATORS})``. Leave
        it without an annotation, which would make it a field of the dataclass.
        """
        return frozenset()

    @property
    def memory(self) -> float:
        """How much an epoch still counts an epoch later, from 0 to 1; see `Statistics.history`."""
        return 0.0

    def note(
        self,
        about: str,
        text: str,
        figures: Mapping[str, float] | Iterable[tuple[str, float]] = (),
    ) -> Note:
        """Return a note by this strategy.

        Args:
            about: the operator, edge or node it is about.
            text: why something is decided, or is not.
            figures: the numbers behind it, by name.
        """
        return Note(self.name, about, text, figures)

    def idle(self, reason: str) -> Plan:
        """Return a plan that decides nothing, with a note that nothing ever could for this job."""
        text = f"can do nothing for this job: {reason}"
        return Plan(notes=(Note(self.name, "the job", text, idle=True),))

    @abstractmethod
    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Decide what should change.

        It is called at the end of every epoch, from any process, perhaps twice for the same
        epoch. The answer must follow from the arguments and the strategy's own settings alone:
        no clock, no random numbers but from a seed among the settings, no Spark, no memory of
        earlier calls. It must not change its arguments.

        Args:
            topology: the job as it runs, with the parallelism and groupings now in force.
            cluster: the machines as they are.
            statistics: what was seen in the last epoch; parts that were not observed are absent.
            current: the plan in force.

        Returns:
            The decisions only: what is not mentioned stays as it is. Where the statistics do
            not say enough to decide by, that is `Plan()`, perhaps with a note, and no error.
        """
