"""The one interface of all strategies."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from optimizers.cluster import Cluster
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology


class Optimizer(ABC):
    """A strategy: it gets a job and its statistics, and decides what should change.

    To write one, subclass it, keep its settings in a frozen dataclass, and let the suite in
    `optimizers.testing` prove that it keeps the contract.
    """

    @property
    def name(self) -> str:
        """The name of the strategy in notes and reports."""
        return type(self).__name__

    @property
    def observes(self) -> frozenset[Probe]:
        """What has to be observed for it; jobs do not pay for statistics that no strategy reads.

        In a subclass a plain attribute is enough: ``observes = frozenset({Probe.OPERATORS})``.
        Leave it without an annotation, which would make it a field of the dataclass.
        """
        return frozenset()

    @property
    def memory(self) -> float:
        """The weight of an epoch one epoch later, from 0 to 1; see `Statistics.history`."""
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
        """Return an empty plan, with a note that the strategy can never do anything here."""
        text = f"can do nothing for this job: {reason}"
        return Plan(notes=(Note(self.name, "the job", text, idle=True),))

    @abstractmethod
    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Decide what should change.

        It is called at the end of every epoch, from any process, perhaps twice for the same
        epoch. The answer must depend on the arguments and the strategy's own settings alone: no
        clock, no random numbers except from a seed among the settings, no Spark, no memory of
        earlier calls. It must not change its arguments.

        Args:
            topology: the job as it runs, with the parallelism and groupings now in force.
            cluster: the machines as they are.
            statistics: the facts of the last epoch; parts that were not observed are absent.
            current: the plan in force.

        Returns:
            The decisions only; everything else stays as it is. Without enough statistics that is
            `Plan()`, perhaps with a note, and no error.
        """
