"""The scheduler of online shuffle grouping: sends tuples to the instance with the least to do."""

from collections import deque
from enum import Enum

from grouping.feedback import Dispatcher, Message
from grouping.scheduling.online_shuffle.costs import EstimatedCosts, KeyPlaces
from grouping.scheduling.online_shuffle.loads import InstanceLoads
from grouping.scheduling.online_shuffle.messages import LoadAnswer, LoadQuestion, Matrices
from sketches.checks import whole
from sketches.errors import InvalidValueError


class SchedulerState(Enum):
    """What a scheduler does, in the words of the authors' program."""

    ROUND_ROBIN = "deals tuples out in turn, as not all instances have sent matrices"
    SEND_ALL = "asks each instance, with a tuple, how far its estimate is off"
    WAIT_ALL = "sends each tuple to the least estimate, and waits for answers"
    RUN = "sends each tuple to the least estimate"


class OnlineShuffleDispatcher(Dispatcher):
    """Sends each tuple to the instance that it believes to have been given the least work.

    >>> scheduler = OnlineShuffleDispatcher(1, KeyPlaces(width=1, depth=1, seed=0))
    >>> scheduler.dispatch(7, 0.0), scheduler.state.name
    ((0, None), 'ROUND_ROBIN')
    >>> scheduler.receive(Matrices(0, number=1, counts=(2,), costs=(6,), mean=3), 9.0)
    >>> scheduler.dispatch(7, 9.0), scheduler.state.name
    ((0, LoadQuestion(epoch=1, estimate=3.0)), 'WAIT_ALL')
    >>> scheduler.receive(LoadAnswer(0, epoch=1, delta=6.5), 12.0)
    >>> scheduler.estimates, scheduler.state.name
    ([9.5], 'RUN')

    Args:
        instances: how many there are.
        places: where keys have their cells in the instances' matrices.
        sender: the number of this scheduler; it begins with another instance than its siblings.
        window: how many tuples an instance executes between two looks at its costs.
        resync: after how many tuples for each instance estimates are synchronised though costs
            have not changed; None for never.
    """

    def __init__(
        self,
        instances: int,
        places: KeyPlaces,
        *,
        sender: int = 0,
        window: int = 1024,
        resync: int | None = None,
    ) -> None:
        self._places = places
        self._order = [(sender + turn) % instances for turn in range(instances)]
        self._loads = InstanceLoads([0.0] * instances, first=self._order[0])
        self._costs: dict[int, EstimatedCosts] = {}
        self._newest = [0] * instances
        self._state = SchedulerState.ROUND_ROBIN
        self._epoch = 0
        self._to_ask: deque[int] = deque()
        self._answers: dict[int, float] = {}
        # How many tuples are left to send in this state; below zero, any number.
        self._left = -1
        self._patience = window * instances
        self._until_resync = -1 if resync is None else resync * instances

    @property
    def state(self) -> SchedulerState:
        """What it does at the moment."""
        return self._state

    @property
    def epoch(self) -> int:
        """How many synchronisations it has begun."""
        return self._epoch

    @property
    def estimates(self) -> list[float]:
        """The seconds of work that it believes to have given to each instance."""
        return self._loads.all

    def dispatch(self, code: int, now: float) -> tuple[int, Message | None]:
        """Return the instance for a tuple, and the question that is to travel with it, if any.

        Raises:
            InvalidValueError: there is no such code. Nothing was sent.
        """
        if self._state is SchedulerState.SEND_ALL:
            return self._ask(code)
        loads = self._loads
        instance = loads.least
        if self._state is SchedulerState.ROUND_ROBIN:
            loads.give(instance, 0.0)  # all are equal, so the least is whose turn it is
            return instance, None
        loads.give(instance, self._costs[instance][code])
        self._left -= 1
        if not self._left:
            self._end_patience()
        return instance, None

    def receive(self, message: Message, now: float) -> None:
        """Take in matrices or an answer; they may come in any order, and more than once.

        Raises:
            InvalidValueError: no instance here can have sent that. It is as it was.
        """
        if not isinstance(message, LoadAnswer | Matrices):
            raise InvalidValueError(
                f"{message!r} is neither matrices nor an answer; let dispatcher and reporter be of "
                "one grouping"
            )
        whole("instance", message.instance, at_least=0, at_most=len(self._order) - 1)
        if isinstance(message, Matrices):
            self._learn(message)
        else:
            self._hear(message)

    def _learn(self, matrices: Matrices) -> None:
        """Take newer matrices; once there are some of each instance, synchronise."""
        costs = EstimatedCosts(matrices, self._places)
        instance = matrices.instance
        if matrices.number <= self._newest[instance]:
            return
        self._newest[instance] = matrices.number
        self._costs[instance] = costs
        if len(self._costs) == len(self._order):
            self._begin_epoch()

    def _hear(self, answer: LoadAnswer) -> None:
        """Keep the first answer of each instance in this epoch; when all are here, apply them."""
        if answer.epoch != self._epoch or answer.instance in self._answers:
            return
        self._answers[answer.instance] = answer.delta
        if len(self._answers) == len(self._order):
            self._end_epoch()
        elif answer.instance in self._to_ask:  # again, in vain
            self._to_ask.remove(answer.instance)
            self._wait_if_all_are_asked()

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._answers = {}
        self._to_ask = deque(self._order)
        self._state = SchedulerState.SEND_ALL

    def _ask(self, code: int) -> tuple[int, LoadQuestion]:
        """Send a tuple, and a question with it, to the next instance that is to be asked."""
        instance = self._to_ask[0]
        self._loads.give(instance, self._costs[instance][code])
        self._to_ask.popleft()
        self._wait_if_all_are_asked()
        return instance, LoadQuestion(self._epoch, self._loads[instance])

    def _wait_if_all_are_asked(self) -> None:
        if not self._to_ask:
            self._state = SchedulerState.WAIT_ALL
            self._left = self._patience

    def _end_epoch(self) -> None:
        """Correct all estimates at once: corrected one by one, the first would draw all tuples."""
        for instance, delta in self._answers.items():
            self._loads.change(instance, delta)
        self._state = SchedulerState.RUN
        self._left = self._until_resync

    def _end_patience(self) -> None:
        """Synchronise again; or ask those again whose answer does not come."""
        if self._state is SchedulerState.RUN:
            self._begin_epoch()
            return
        self._to_ask = deque(each for each in self._order if each not in self._answers)
        self._state = SchedulerState.SEND_ALL
