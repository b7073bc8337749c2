"""The drivers that work on a checkpoint: each leaves a file there while it does.

The files tell a person, or a command that would rewrite state, that a driver may be at work. They
guard nothing: the log keeps two drivers from both committing (see `Checkpoint.commit`). So neither
clocks nor the removal of files have to be trusted here.
"""

import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from optimizers.documents import Record, write
from optimizers.errors import CheckpointError
from optimizers.runtime.log.commit_log import read_record
from optimizers.runtime.log.records import read_sealed, sealed
from optimizers.runtime.storage.location import Location
from sketches.checks import whole

FOLDER = "drivers"
_COMPACTS = "compact-"


@dataclass(frozen=True, slots=True)
class Driver:
    """A process that works on a checkpoint, or ended without withdrawing.

    Attributes:
        name: of its file.
        host: the machine, and where processes have numbers of their own (in a container), those.
        pid: the number of the process there.
        begun: when it began, in UTC.
    """

    name: str
    host: str
    pid: int
    begun: str

    @property
    def compacts(self) -> bool:
        """Whether it rewrites the state, and runs no batches."""
        return self.name.startswith(_COMPACTS)

    @property
    def may_live(self) -> bool:
        """Whether it may be at work: True on another machine; on this one, if it is there."""
        return self.host != _host() or _is_there(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host.split('/')[0]}, since {self.begun}"

    def to_json(self) -> str:
        """Write it as a JSON document."""
        return write("driver", {"host": self.host, "pid": self.pid, "begun": self.begun})


def announce(location: Location, *, compacts: bool = False) -> Driver:
    """Note that this process works on a checkpoint, until it withdraws."""
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    name = (_COMPACTS if compacts else "") + secrets.token_hex(8)
    driver = Driver(name, _host(), os.getpid(), begun)
    location.write_once(_file(driver.name), sealed(driver.to_json()))
    return driver


def withdraw(location: Location, driver: Driver) -> None:
    """Note that a driver no longer works on a checkpoint."""
    location.delete(_file(driver.name))


def drivers_at(location: Location) -> list[Driver]:
    """Return all drivers that work on a checkpoint, and did not withdraw; the oldest first."""
    found = []
    for path in location.list(FOLDER):
        name = path.removeprefix(f"{FOLDER}/").removesuffix(".json")
        if not name.startswith("."):
            with suppress(_GoneError):
                found.append(_read(location, name))
    return sorted(found, key=lambda driver: (driver.begun, driver.name))


class _GoneError(Exception):
    """A driver has withdrawn after its file was listed."""


def _read(location: Location, name: str) -> Driver:
    def build(record: Record) -> Driver:
        pid = whole("pid", record.take("pid", int), at_least=1)
        return Driver(name, record.take("host", str), pid, record.take("begun", str))

    try:
        return read_record(location, _file(name), lambda text: read_sealed(text, "driver", build))
    except CheckpointError:
        if location.exists(_file(name)):
            raise
        raise _GoneError from None


def _file(name: str) -> str:
    return f"{FOLDER}/{name}.json"


def _host() -> str:
    """Return an identity of this machine and of its process numbers."""
    namespace = ""
    with suppress(OSError):
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()}/{namespace}"


def _is_there(pid: int) -> bool:
    if os.name == "nt":  # where to ask whether a process is there would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
