"""The present batch: whether there is one, and whether there may be another."""

import threading


class AtHand:
    """Lets batches begin until they are stopped, and lets others wait for the end of one.

    Attributes:
        last: the number of the last batch that has ended.
        is_kept_out: whether a batch was kept from beginning.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: int | None = None  # the thread of the batch
        self._closed = False
        self.last: int | None = None
        self.is_kept_out = False

    @property
    def is_mine(self) -> bool:
        """Whether this thread runs the present batch."""
        return self._owner == threading.get_ident()

    def begin(self) -> bool:
        """Begin a batch; return whether it may begin."""
        with self._changed:
            self.is_kept_out = self._closed
            if not self._closed:
                self._owner = threading.get_ident()
            return not self._closed

    def end(self, number: int) -> None:
        """Note that the batch has ended, in any way."""
        with self._changed:
            self._owner, self.last = None, number
            self._changed.notify_all()

    def no_more(self) -> None:
        """Let no further batch begin."""
        with self._changed:
            self._closed = True

    def await_end(self, seconds: float | None = None) -> bool:
        """Wait until no batch is running, or until a timeout; return whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._owner is None, seconds)
