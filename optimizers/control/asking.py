"""Asking a strategy: it only advises, so its errors must not end the job."""

import logging
import time
from dataclasses import dataclass

from optimizers.control.question import Question
from optimizers.control.resizing import placed_by_traffic
from optimizers.control.stand_ins import renamed
from optimizers.control.surplus import naming_drains
from optimizers.error_boundary import place_of
from optimizers.errors import PlanError, StrategyError, UnknownNameError
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan

_LOG = logging.getLogger(__name__)

_SHOWN = 300  # characters of an error's message
_MOST_LOGGED = 100  # notes; a strategy may word each one differently


@dataclass(frozen=True, slots=True)
class Answer:
    """An optimizer's answer to a question.

    Attributes:
        plan: what it decided; `Plan()` if there was no decision.
        seconds: how many CPU seconds it thought.
        refused: why there was no decision; empty if there was one.
    """

    plan: Plan
    seconds: float = 0.0
    refused: str = ""


def ask(optimizer: Optimizer, question: Question) -> Answer:
    """Ask an optimizer what should change; if it fails, return the reason instead of a decision.

    If it names nodes that others stand in for, those are meant. If it wants fewer nodes than there
    are and names none to drain, they are chosen here. Operators that it resizes are placed by the
    traffic between their key groups, where that was observed. Only exceptions that are to end the
    process are raised, such as `KeyboardInterrupt`.
    """
    started = time.thread_time()
    decided, refused = Plan(), ""
    try:
        decided = decision_of(optimizer, question, name_of(optimizer))
        decided = renamed(decided, question.stand_ins)
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
        who: its name in messages.

    Raises:
        PlanError: it did not return a plan, or its own check of its plan failed.
        UnknownNameError: it asked for an operator, edge or node that does not exist.
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
    """Logs a warning for strategies that can do nothing for a job, once."""

    def __init__(self) -> None:
        self._logged: set[Note] = set()

    def tell(self, plan: Plan) -> None:
        """Log the idle notes of a plan as warnings, if they are new."""
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
    """Return the name of a strategy, or of its class if asking for the name raises."""
    try:
        return str(optimizer.name)
    except Exception:  # noqa: BLE001  # its own code, too
        _LOG.debug("a strategy does not tell its name", exc_info=True)
        return type(optimizer).__name__


def message_of(error: Exception) -> str:
    """Return the message of an error in one line, shortened."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # its own code, too
        text = "its message raises as well"
    return _shortened(text) or "no message"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
