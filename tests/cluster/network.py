"""Hosts with a network between them, on one machine: namespaces of Linux. Needs root.

Each host is a network namespace with an address of its own. One link leads from it to a bridge, and
what goes through the link, either way, can be held to a speed: as a switch with slow ports would.
The driver stays outside and is at the bridge itself, on `DRIVER`.

All is taken down at the end, after an interrupt too. What a run that was killed has left behind is
taken down by the next one, with the processes in there.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from standalone import Host

_T = TypeVar("_T")

DRIVER = "198.18.0.1"
"""The address of the bridge, of a network that is reserved for measurements (RFC 2544)."""

_NAME = "penstock"
_LOCK = Path("/run/penstock-network.lock")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET, of setns(2)
_BURST = "256kb"  # more than what the kernel hands to a link at once
_QUEUED = "50ms"  # what waits longer than that for a slow link is dropped, as switches do
_PORT = 7077


@contextmanager
def network(count: int) -> Iterator["Network"]:
    """Yield hosts, each at the end of a link.

    Raises:
        PermissionError: not by root.
        RuntimeError: another run is using the names.
    """
    if os.geteuid() != 0:
        raise PermissionError("network namespaces are root's to make; run this as root")
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError("another run has set up its network; wait until it ends") from error
        signal.signal(signal.SIGTERM, _interrupt)
        _take_down()
        try:
            _ip("link", "add", _NAME, "type", "bridge")
            _ip("address", "add", f"{DRIVER}/24", "dev", _NAME)
            _ip("link", "set", _NAME, "up")
            for number in range(count):
                _add(number)
            yield Network(count)
        finally:
            _take_down()


class Network:
    """The hosts, and the links that lead to them.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self.hosts = tuple(
            Host(_address(number), (_program("ip"), "netns", "exec", f"{_NAME}-{number}"), _PORT)
            for number in range(count)
        )

    def shape(self, numbers: Sequence[int], megabits: float | None) -> None:
        """Hold links to a number of megabits a second, either way; None for as fast as they go."""
        for number in numbers:
            for inside, device in ((False, f"{_NAME}-{number}"), (True, "uplink")):
                where = self.hosts[number].entered if inside else ()
                _run(*where, _program("tc"), "qdisc", "del", "dev", device, "root", may_fail=True)
                if megabits is not None:
                    limit = ("tbf", "rate", f"{megabits}mbit", "burst", _BURST, "latency", _QUEUED)
                    _run(*where, _program("tc"), "qdisc", "add", "dev", device, "root", *limit)

    def received(self, number: int) -> int:
        """Return how many bytes have come to a host over its link."""
        return int(_statistics(number, "tx_bytes").read_text())  # what this end of it has sent

    def sent(self, number: int) -> int:
        """Return how many bytes have gone from a host over its link."""
        return int(_statistics(number, "rx_bytes").read_text())

    def speed(self, source: int, target: int, seconds: float = 1.0) -> float:
        """Return how many megabits a second get through from host to host, by sending some."""
        listening = _inside(target, lambda: socket.create_server((_address(target), 0)))
        with listening:
            address = listening.getsockname()
            sending = _inside(source, lambda: socket.create_connection(address))
            receiving, _ = listening.accept()
        with receiving:
            sender = threading.Thread(target=_send, args=(sending, 1.5 * seconds), daemon=True)
            sender.start()
            _receive(receiving, 0.5 * seconds)  # what queues hold at first does not count
            started = time.perf_counter()
            received = _receive(receiving, seconds)
            taken = time.perf_counter() - started
            _receive(receiving, 60.0)
            sender.join()
        return received * 8 / taken / 1e6


def _add(number: int) -> None:
    name = f"{_NAME}-{number}"
    within = ("-n", name)
    _ip("netns", "add", name)
    _ip("link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", name)
    _ip("link", "set", name, "master", _NAME, "up")
    _ip(*within, "address", "add", f"{_address(number)}/24", "dev", "uplink")
    _ip(*within, "link", "set", "uplink", "up")
    _ip(*within, "link", "set", "lo", "up")


def _take_down() -> None:
    """Undo what is there of our names, by this run or by one that was killed."""
    listed = _run(_program("ip"), "netns", "list").split("\n")
    for name in (line.split()[0] for line in listed if line.startswith(f"{_NAME}-")):
        # Nothing but what was started there by us is in a namespace of ours.
        for process in _run(_program("ip"), "netns", "pids", name).split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        _ip("netns", "delete", name)
        _run(_program("ip"), "link", "delete", name, may_fail=True)
    _run(_program("ip"), "link", "delete", _NAME, may_fail=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _address(number: int) -> str:
    return f"198.18.0.{number + 2}"


def _statistics(number: int, name: str) -> Path:
    return Path(f"/sys/class/net/{_NAME}-{number}/statistics/{name}")


def _inside(number: int, make: Callable[[], _T]) -> _T:
    """Call a function within a host; a socket that it makes stays there."""
    made: list[_T] = []

    def enter() -> None:
        # A thread may go elsewhere by itself, and this one does not come back.
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/{_NAME}-{number}").open() as namespace:
            if libc.setns(namespace.fileno(), _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), f"host {number} cannot be entered")
        made.append(make())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


def _send(sending: socket.socket, seconds: float) -> None:
    block = bytes(1 << 16)
    deadline = time.perf_counter() + seconds
    with sending:
        while time.perf_counter() < deadline:
            sending.sendall(block)


def _receive(receiving: socket.socket, seconds: float) -> int:
    deadline = time.perf_counter() + seconds
    received = 0
    while time.perf_counter() < deadline:
        block = receiving.recv(1 << 16)
        if not block:
            break
        received += len(block)
    return received


def _ip(*arguments: str) -> None:
    _run(_program("ip"), *arguments)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"there is no program {name!r} here; install iproute2")
    return found


def _run(*command: str, may_fail: bool = False) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
