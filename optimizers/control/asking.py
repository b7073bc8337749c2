"""Asking a strategy: it advises, so that no error of its own may end the job it is asked about."""

import logging
import time
from dataclasses import dataclass

from optimizers.control.question import Question
from optimizers.control.resizing import placed_by_traffic
from optimizers.control.surplus import naming_drains
from optimizers.error_boundary import place_of
from optimizers.errors import PlanError, StrategyError, UnknownNameError
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan

_LOG = logging.getLogger(__name__)

_SHOWN = 300  # characters of an error's message
_MOST_LOGGED = 100  # notes; a strategy may say it in other words each time


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question to an optimizer.

    Attributes:
        plan: what it decided; `Plan()` if there was no decision.
        seconds: how many CPU seconds it thought.
        refused: why there was no decision; empty if there was one.
    """

    plan: Plan
    seconds: float = 0.0
    refused: str = ""


def ask(optimizer: Optimizer, question: Question) -> Answer:
    """Ask an optimizer what should change; where it fails, say why in place of a decision.

    Where it wants fewer nodes than there are and does not name those to leave, they are chosen.
    Operators that it resizes are placed by what goes between their key groups, where that was seen.
    Only what is to end the process is raised, such as `KeyboardInterrupt`.
    """
    started = time.thread_time()
    decided, refused = Plan(), ""
    try:
        decided = decision_of(optimizer, question, name_of(optimizer))
        decided = naming_drains(decided, question.topology, question.cluster, question.current)
        decided = placed_by_traffic(
            decided, question.topology, question.cluster, question.statistics, question.current
        )
    except Exception as error:  # noqa: BLE001  # a strategy may raise anything
        refused = reason(error)
    return Answer(decided, time.thread_time() - started, refused)


def decision_of(optimizer: Optimizer, question: Question, who: str) -> Plan:
    """Return what a strategy decides.

    Args:
        optimizer: the strategy.
        question: what it is asked.
        who: how it is called in messages.

    Raises:
        PlanError: it decided what is no plan, or its own check of its plan failed.
        UnknownNameError: it looked for an operator, edge or node that is not there.
        StrategyError: it raised anything else.
    """
    try:
        decision = optimizer.plan(
            question.topology, question.cluster, question.statistics, question.current
        )
    except (PlanError, UnknownNameError, StrategyError):
        raise
    except Exception as error:
        place = place_of(error)
        where = f", at {place}" if place else ""
        message = f"{who} raised {type(error).__name__}: {message_of(error)}{where}"
        raise StrategyError(message) from error
    if not isinstance(decision, Plan):
        raise PlanError(
            f"{who} decided {_shortened(repr(decision))}, which is not a Plan; "
            "return Plan() for nothing"
        )
    return decision


class Idleness:
    """Warns of strategies that can do nothing for a job: once, and not each time they are asked."""

    def __init__(self) -> None:
        self._logged: set[Note] = set()

    def tell(self, plan: Plan) -> None:
        """Warn of what a plan's notes say, if they did not say it before."""
        for note in plan.notes:
            if note.idle and note not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(note)
                _LOG.warning("%s %s", note.by, note.text)


def reason(error: Exception) -> str:
    """Return in one line why a decision is refused; the whole trace goes to the log at DEBUG."""
    _LOG.debug("a decision is refused, for this was raised", exc_info=error)
    if isinstance(error, PlanError | UnknownNameError | StrategyError):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {message_of(error)}"


def name_of(optimizer: Optimizer) -> str:
    """Return how a strategy is called; by its class if it fails to say so itself."""
    try:
        return str(optimizer.name)
    except Exception:  # noqa: BLE001  # its own code, too
        _LOG.debug("a strategy does not tell its name", exc_info=True)
        return type(optimizer).__name__


def message_of(error: Exception) -> str:
    """Return what an error says, in one line that is not too long."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # its own code, too
        text = "its message raises as well"
    return _shortened(text) or "no message"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
