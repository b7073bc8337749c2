"""A job on streams: Spark's query that drives it, begun again where a plan resizes its batches.

Spark's own sources fix how much they let in when a query starts. So if a plan resizes a source that
is `Sized`, the query is stopped at the end of the batch and begun again from the same checkpoint,
with the source read again. Spark allows that: it goes on at the offsets that it has recorded, and
limits of how much is let in may change (Structured Streaming Programming Guide, "Recovery Semantics
after Changes in a Streaming Query"). A batch whose offsets are written down already comes once more
as it was; if it is committed, it is not run again. The job itself, its state and the plan in force
live in our own log and are not touched.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from optimizers.error_boundary import front_door
from optimizers.runtime.task.user_errors import said
from optimizers.spark.current_batch import AtHand
from optimizers.spark.muted_logs import hush_end
from optimizers.spark.run import Run
from optimizers.spark.stopping import be_stopped
from optimizers.spark.stream_errors import as_batch_failed, is_interruption
from optimizers.spark.task_errors import as_penstock_errors
from sketches.checks import amount

_LOG = logging.getLogger(__name__)

_LOOK = 0.02  # seconds between two looks at whether a query is about to end
_LEAST = 0.001  # seconds; Spark waits no shorter
_PATIENCE = 60.0  # seconds that a batch waits for its query to be stopped


class StreamingRun:
    """A job on streams that goes on in the background.

    Args:
        run: the job.
        begin: begins a query that drives it, given the function for each batch and the tuples that
            each sized source lets in.
        sized: the numbers of tuples where no plan says otherwise.
        again: whether the query may begin again.

    Attributes:
        run: the job.
        query: the query of Spark that drives it now.
    """

    def __init__(
        self,
        run: Run,
        begin: Callable[[Callable[[DataFrame, int], None], Mapping[str, int]], Any],
        sized: Mapping[str, int],
        *,
        again: bool = True,
    ) -> None:
        self.run = run
        self._begin = begin
        self._sized = sized
        self._rows = run.admitted(sized)
        self._known = threading.Event()  # whether the query that calls is known
        self._at_hand = AtHand()
        self._restart: threading.Thread | None = None
        self._restarting = threading.Lock()
        self._failure: Exception | None = None
        self._waiting = 0  # how many wait for the end
        self._stopped = False
        self._pausing = threading.Event()  # set once no pause is to be kept any more
        self._again = again and bool(sized)
        self.query = begin(self._batch, self._rows)
        self._known.set()

    @front_door
    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the job has ended, or until a timeout; return whether it has.

        Raises:
            PenstockError: the job was ended by an error of ours.
            Exception: what ended a batch, such as an error of ``each_batch``.
            StreamingQueryException: an error outside of a batch ended the query.
        """
        self._waiting += 1
        try:
            ended = self._wait(None if seconds is None else time.monotonic() + seconds)
        except Exception:
            self.run.rest()
            raise
        finally:
            self._waiting -= 1
        if ended:
            self.run.rest()
        return ended

    def _wait(self, deadline: float | None) -> bool:
        while True:
            query, left = self.query, _left(deadline)
            with as_penstock_errors():
                if not self._ended(query, left) and left is not None:
                    return False
                with self._restarting:
                    restart = self._restart
                if restart is not None:
                    restart.join(_left(deadline))
                if self._failure is not None:
                    raise self._failure
                if restart is not None and restart.is_alive():
                    return False
            if self.query is query:
                return True

    @front_door
    def stop(self, patience: float | None = None) -> None:
        """Stop the job after the present batch, which is handed out as well.

        Called by a function that gets the batch, it returns at once.

        Args:
            patience: how many seconds to wait for that batch, which is cut off after that and
                done again when the job is started again; by default as long as it takes.
        """
        limit = None if patience is None else amount("patience", patience)
        self._stopped = True
        self._pausing.set()
        self._at_hand.no_more()
        if self._at_hand.is_mine:
            threading.Thread(target=self._stop, args=(limit,), daemon=True).start()
        else:
            self._stop(limit)

    def _stop(self, patience: float | None) -> None:
        if not self._at_hand.await_end(patience):
            _LOG.warning("the batch at hand took longer than %s s and is cut off", patience)
        with self._restarting:
            restart = self._restart
        if restart is not None:
            restart.join()
        self._await_note()
        self.query.stop()
        self.run.rest()

    def _await_note(self) -> None:
        """Wait until Spark has recorded that the last batch is done, or goes on to the next.

        Otherwise it would replay that batch when the job is started again.
        """
        deadline = time.monotonic() + _PATIENCE
        last = self._at_hand.last
        while (
            last is not None
            and self.query.isActive
            and not self._at_hand.is_kept_out
            and not self.run.is_noted(last)
            and time.monotonic() < deadline
        ):
            time.sleep(_LOOK)

    def _ended(self, query: Any, seconds: float | None) -> Any:
        """Wait for a query to end; raise the error that ended it."""
        try:
            return query.awaitTermination(seconds)
        except StreamingQueryException:
            if self._failure is None:
                raise
        raise self._failure

    def _batch(self, rows: DataFrame, number: int) -> None:
        """Run a batch, unless the job is being stopped; an error reaches Spark as one line."""
        if not self._at_hand.begin():
            be_stopped(rows)
        begun = time.monotonic()
        try:
            self._run_batch(rows, number)
        except Exception as error:  # noqa: BLE001  # wait() raises it
            if not (self._stopped and is_interruption(error)):
                self._failure = error
            if not is_interruption(error):
                self._known.wait()
                hush_end(rows.sparkSession, self.query)
                if not self._waiting:
                    ended = "batch %d failed, which ends the job: %s; wait() raises it"
                    _LOG.error(ended, number, said(error))
            raise as_batch_failed(error) from None
        finally:
            self._at_hand.end(number)
        self._pause(begun)

    def _pause(self, begun: float) -> None:
        """Wait until the next batch may begin, as the plan says; what comes meanwhile is in it.

        The batch is committed and handed out. That Spark waits costs nothing but its note that the
        batch is done, without which it would replay the batch after a crash, as after any other.
        """
        left = begun + self.run.period - time.monotonic()
        if left > 0 and not self._stopped:
            since = time.monotonic()
            self._pausing.wait(left)
            self.run.paused(time.monotonic() - since)

    def _run_batch(self, rows: DataFrame, number: int) -> None:
        """Run a batch, and begin the query again if the next batches are to have other sizes."""
        self.run.execute_stream(rows, number)
        if not self._again or self._stopped or self.run.admitted(self._sized) == self._rows:
            return
        restart = threading.Thread(target=self._begin_again, daemon=True)
        # The query counts as ended as soon as it is being stopped. A thread that waits for it has
        # to find this one then, begun, and none that is over.
        with self._restarting:
            self._restart = restart
            restart.start()
        # The query must not go on to the next batch: it would be cut off in the middle of it.
        self._known.wait()
        deadline = time.monotonic() + _PATIENCE
        while self.query.isActive and restart.is_alive() and time.monotonic() < deadline:
            time.sleep(_LOOK)

    def _begin_again(self) -> None:
        """Stop the query, and begin another from where it stopped."""
        self._known.wait()
        old = self.query
        try:
            old.stop()  # returns once the present batch has returned
            if self._stopped or old.exception() is not None:
                return
            self._rows = self.run.admitted(self._sized)
            _LOG.info("the query begins again, to let in %s", dict(self._rows))
            self._known.clear()
            self.query = self._begin(self._batch, self._rows)
        except Exception as error:  # noqa: BLE001  # raised where the stream is waited for
            self._failure = error
        finally:
            self._known.set()


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(_LEAST, deadline - time.monotonic())
