"""Values that executors get once: the work under a plan, and the ticket of a large batch."""

import pickle
import secrets

from pyspark import Broadcast, SparkContext, cloudpickle

from optimizers.runtime.work import JobContext, Ticket
from optimizers.spark.tasks import SharedTicket, SharedWork

# Spark itself broadcasts closures of more than 1 MiB, in every stage of every batch, and each time
# leaves a file in the driver's temporary folder.
_LARGE = 1 << 19


class Broadcasts:
    """Sends work and tickets to executors, and removes those that no task can need any more.

    A broadcast that is only unpersisted stays in the driver, in memory and in a file of its
    temporary folder, until the session ends; so it is destroyed.

    Args:
        context: of the session.
        checkpoint: the name of the checkpoint, by which executors look whether they share it.
    """

    def __init__(self, context: SparkContext, checkpoint: str | None = None) -> None:
        self._context = context
        self._checkpoint = checkpoint
        self._run = secrets.token_hex(8)
        self._plans = 0
        self._sent: tuple[JobContext, SharedWork] | None = None
        self._ticket: tuple[Ticket, SharedTicket] | None = None

    def of(self, work: JobContext) -> SharedWork:
        """Return the work as executors get it, once for each plan; earlier work is removed.

        No batch under an earlier plan may still be running.
        """
        if self._sent is None or self._sent[0] is not work:
            self._end_work()
            self._plans += 1
            pickled = self._context.broadcast(_pickled(work))
            self._sent = work, SharedWork(self._run, self._plans, pickled, self._checkpoint)
        return self._sent[1]

    def ticket(self, ticket: Ticket) -> SharedTicket:
        """Return a ticket as tasks get it; that of an earlier batch is removed."""
        if self._ticket is None or self._ticket[0] is not ticket:
            self._end_ticket()
            large = len(pickle.dumps(ticket)) > _LARGE
            self._ticket = ticket, self._context.broadcast(ticket) if large else ticket
        return self._ticket[1]

    def end(self) -> None:
        """Remove all that was sent; it is sent again when asked for."""
        self._end_work()
        self._end_ticket()

    def _end_ticket(self) -> None:
        if self._ticket is not None:
            _, shared = self._ticket
            self._ticket = None
            if isinstance(shared, Broadcast):
                shared.destroy()

    def _end_work(self) -> None:
        if self._sent is not None:
            _, shared = self._sent
            self._sent = None
            shared.pickled.destroy()


def _pickled(work: JobContext) -> bytes:
    """Return the work as bytes; functions of scripts and notebooks go by value."""
    data: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    return data
