"""What METIS prints: it goes nowhere, for standard output is the user's."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

_LOCK = Lock()


@contextmanager
def unprinted() -> Iterator[None]:
    """Let nothing through that code in C prints in the meantime.

    METIS complains on standard output of graphs that it divides all the same. What Python prints,
    in any thread, does not go by C's `stdout` and is let through. Where the C library is another
    than glibc, all is let through.
    """
    library, nowhere = _nowhere() if platform.libc_ver()[0] == "glibc" else (None, None)
    if library is None or not nowhere:
        yield
        return
    stdout = ctypes.c_void_p.in_dll(library, "stdout")
    with _LOCK:
        before, stdout.value = stdout.value, nowhere
        try:
            yield
        finally:
            stdout.value = before


@cache
def _nowhere() -> tuple[ctypes.CDLL, int | None]:
    """Return the C library, and a stream of it that leads nowhere; None if it cannot be opened."""
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    stream: int | None = library.fopen(os.devnull.encode(), b"w")
    return library, stream
