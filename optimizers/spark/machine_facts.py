"""What a machine says of itself: how much memory there is, and what its link carries.

Linux tells both in files. A fact that is not there is not known, and neither is one that may be
wrong: the link of a virtual machine or of a container says what its driver likes to say, or what
its owner shares with others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sketches.values import FrozenMap

_NO_BUS = {"virtio", "vmbus", "xen"}
_NO_DRIVER = {"ena", "gve", "vmxnet3"}  # of clouds and virtual machines, on a bus like any other
_MEGABIT = 125_000  # bytes
_MOST = 16  # folders upwards


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What a process found out about the machine that it runs on.

    Attributes:
        memory: by what sets a bound to the memory of this process, how many bytes that is: the
            machine, and groups of processes that are held to less. What is bounded by one thing
            shares it.
        bandwidth: how many bytes a second the link carries, each way; None where that cannot be
            known.
    """

    memory: Mapping[str, float] = FrozenMap()
    bandwidth: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        return {"memory": dict(self.memory), "bandwidth": self.bandwidth}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "MachineFacts":
        """Build it from what `to_dict` returned."""
        return cls(FrozenMap(told["memory"]), told["bandwidth"])


def facts_here(root: Path = Path("/")) -> MachineFacts:
    """Return what this process finds out about its machine.

    Args:
        root: the folder in which the system tells of itself.
    """
    return MachineFacts(FrozenMap(_memory(root)), _bandwidth(root))


def memory_of_each(machines: Mapping[str, MachineFacts]) -> dict[str, float]:
    """Return how many bytes of memory each host has; those of which it is not known are left out.

    Hosts that are one machine in truth, as containers can be, have an equal part of it each.

    >>> both = MachineFacts({"machine": 64.0}), MachineFacts({"machine": 64.0, "held": 16.0})
    >>> memory_of_each({"x": both[0], "y": both[1]})
    {'x': 32.0, 'y': 16.0}

    Args:
        machines: by host, what a process there found out.
    """
    sharing: dict[str, int] = {}
    for facts in machines.values():
        for bound in facts.memory:
            sharing[bound] = sharing.get(bound, 0) + 1
    return {
        host: min(size / sharing[bound] for bound, size in facts.memory.items())
        for host, facts in machines.items()
        if facts.memory
    }


def bandwidth_of_each(machines: Mapping[str, MachineFacts]) -> dict[str, float]:
    """Return how many bytes a second the link of each host carries, where that is known.

    Hosts that are one machine in truth do not talk to each other by its link, so nothing is known.

    Args:
        machines: by host, what a process there found out.
    """
    found = {}
    for host, facts in machines.items():
        others = {bound for name, each in machines.items() if name != host for bound in each.memory}
        alone = facts.memory and others.isdisjoint(facts.memory)
        if facts.bandwidth is not None and alone:
            found[host] = facts.bandwidth
    return found


def _memory(root: Path) -> dict[str, float]:
    """Return what bounds the memory of this process; nothing if machines cannot be told apart."""
    kernel = _text(root / "proc/sys/kernel/random/boot_id")
    total = [line.split() for line in _text(root / "proc/meminfo").splitlines()]
    sizes = [int(words[1]) for words in total if words[:1] == ["MemTotal:"]]
    if not kernel or not sizes:
        return {}
    bounds = {f"machine {kernel}": float(sizes[0] << 10)}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if not kinds:
            bounds |= _held(kernel, root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in kinds.split(","):
            bounds |= _held(kernel, root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return bounds


def _held(kernel: str, mount: Path, path: str, name: str) -> dict[str, float]:
    """Return the limits of the group of processes at a path, and of those that it is one of.

    In a container the path may be that of the machine outside, of which the end is not there.
    """
    found, folder = {}, mount / path.strip("/")
    for _ in range(_MOST):
        said = _text(folder / name)
        if said.isdigit():  # and not "max"
            # The number of a folder is that of its group, in whichever container it is seen.
            found[f"{name} {folder.stat().st_ino} of {kernel}"] = float(said)
        if folder == mount:
            break
        folder = folder.parent
    return found


def _bandwidth(root: Path) -> float | None:
    """Return what the only link of a machine carries; None if there are several, or none."""
    if not _is_hardware(root):
        return None
    links = {}
    for link in sorted(_folders(root / "sys/class/net")):
        if _text(link / "carrier") == "1" and _is_card(link):
            bond = link / "master"
            # Cards that are bonded are one link, which says what they carry together.
            chosen = bond.resolve() if (bond / "bonding").is_dir() else link
            links[chosen.name] = chosen
    if len(links) != 1:
        return None
    (link,) = links.values()
    speed = _text(link / "speed")
    if not speed.isdigit() or not int(speed) or _text(link / "duplex") != "full":
        return None
    return float(int(speed) * _MEGABIT)


def _is_hardware(root: Path) -> bool:
    """Return whether this is no virtual machine for sure; processors of PCs say so."""
    flags = [
        line.partition(":")[2].split()
        for line in _text(root / "proc/cpuinfo").splitlines()
        if line.startswith("flags")
    ]
    return bool(flags) and not any("hypervisor" in words for words in flags)


def _is_card(link: Path) -> bool:
    """Return whether there is a piece of hardware behind a link."""
    device = link / "device"
    if not device.exists():
        return False
    bus, driver = (device / "subsystem").resolve().name, (device / "driver").resolve().name
    return bus not in _NO_BUS and driver not in _NO_DRIVER


def _folders(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """Return what a file says; nothing if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
