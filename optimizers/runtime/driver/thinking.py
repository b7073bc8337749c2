"""Thinking: what an optimizer is asked, and how it can be asked while batches go on."""

from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread

from optimizers.cluster import Cluster
from optimizers.control.asking import Answer, ask, name_of
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Statistics
from optimizers.topology import Topology


@dataclass(frozen=True, slots=True)
class Question:
    """What an optimizer is asked after a batch.

    Attributes:
        after: the batch; -1 for before the first.
        topology: the job as it is now.
        cluster: the machines that are there now.
        statistics: what was seen.
        current: the plan in force.
        local: the share of tuples that stayed on their node, between keyed operators.
    """

    after: int
    topology: Topology
    cluster: Cluster
    statistics: Statistics
    current: Plan
    local: float

    def put_to(self, optimizer: Optimizer) -> Answer:
        """Ask, and wait for the answer."""
        return ask(optimizer, self.topology, self.cluster, self.statistics, self.current)


class Thought:
    """A question to which an optimizer looks for an answer in a thread of its own.

    METIS and most of NumPy let others run meanwhile. The end of the process does not wait for it.

    Args:
        question: what it is asked.
        optimizer: who.
    """

    def __init__(self, question: Question, optimizer: Optimizer) -> None:
        self.question = question
        self._optimizer = optimizer
        self._answer: Future[Answer] = Future()
        Thread(target=self._think, name=f"penstock-{name_of(optimizer)}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether the answer is there."""
        return self._answer.done()

    def answer(self) -> Answer:
        """Wait for the answer, or raise what is to end the process, such as `SystemExit`."""
        return self._answer.result()

    def _think(self) -> None:
        try:
            self._answer.set_result(self.question.put_to(self._optimizer))
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            self._answer.set_exception(error)
