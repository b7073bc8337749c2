"""The work under the plan in force, as executors get it: sent once, and forgotten with the plan."""

import secrets

from pyspark import SparkContext, cloudpickle

from optimizers.runtime.work import Work
from optimizers.spark.tasks import SharedWork


class Sharing:
    """Sends work to executors, and takes back what no task can need any more.

    A broadcast of Spark that is only unpersisted stays in the driver, in memory and in a file of
    its temporary folder, for as long as the session lives; so it is destroyed.

    Args:
        context: of the session.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._run = secrets.token_hex(8)
        self._plans = 0
        self._sent: tuple[Work, SharedWork] | None = None

    def of(self, work: Work) -> SharedWork:
        """Return the work as executors get it, once for each plan; earlier work is taken back.

        No batch under an earlier plan may still be running.
        """
        if self._sent is None or self._sent[0] is not work:
            self.end()
            self._plans += 1
            pickled = self._context.broadcast(_pickled(work))
            self._sent = work, SharedWork(self._run, self._plans, pickled)
        return self._sent[1]

    def end(self) -> None:
        """Take back what was sent; asked for once more, it is sent once more."""
        if self._sent is not None:
            _, shared = self._sent
            self._sent = None
            shared.pickled.destroy()


def _pickled(work: Work) -> bytes:
    """Return the work as bytes; functions of scripts and notebooks go by value."""
    data: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    return data
