"""On which host a task runs, as Spark calls it.

Spark does not tell the Python processes of an executor what it calls their host; several executors
may be on one machine under names of their own. But they come of the executor's process, which was
given the name on its command line. In local mode there is no executor, and nothing to tell apart.
"""

import os
from functools import cache
from pathlib import Path

_PROCESSES = Path("/proc")
_OPTION = b"--hostname"
_MOST = 8  # processes upwards


@cache
def executor_host() -> str | None:
    """Return the host that this process works on for Spark; None where that cannot be known."""
    return host_above(os.getpid(), _PROCESSES)


def host_above(process: int, processes: Path) -> str | None:
    """Return the host that the command line of a process, or of one that it comes of, names.

    Args:
        process: the process.
        processes: the folder in which the system tells of processes, as Linux does.
    """
    for _ in range(_MOST):
        try:
            words = (processes / str(process) / "cmdline").read_bytes().split(b"\0")
            # What is before the last bracket is the name of the program, which may be any text.
            fields = (processes / str(process) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        if _OPTION in words[:-1]:
            return words[words.index(_OPTION) + 1].decode() or None
        process = int(fields[1])
        if process <= 1:
            return None
    return None
