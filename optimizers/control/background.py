"""A question that an optimizer answers in the background, while batches go on."""

from concurrent.futures import Future
from threading import Thread

from optimizers.control.asking import Answer, ask, name_of
from optimizers.control.question import Question
from optimizers.optimizer import Optimizer


class BackgroundAnswer:
    """The answer of an optimizer that thinks in a thread of its own.

    METIS and most of NumPy let other threads run. The end of the process does not wait for it.

    Args:
        question: the question.
        optimizer: answers it.
    """

    def __init__(self, question: Question, optimizer: Optimizer) -> None:
        self._question = question
        self._optimizer = optimizer
        self._answer: Future[Answer] = Future()
        Thread(target=self._ask, name=f"penstock-{name_of(optimizer)}", daemon=True).start()

    @property
    def is_there(self) -> bool:
        """Whether the answer is there."""
        return self._answer.done()

    def wait(self) -> Answer:
        """Wait for the answer; raise only what is to end the process, such as `SystemExit`."""
        return self._answer.result()

    def _ask(self) -> None:
        try:
            self._answer.set_result(ask(self._optimizer, self._question))
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            self._answer.set_exception(error)
