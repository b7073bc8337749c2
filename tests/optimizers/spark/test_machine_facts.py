"""What Linux tells of a machine, in files as it writes them: known and true, or not known."""

import json
import os
from pathlib import Path

import pytest

from optimizers.spark.machine_facts import (
    MachineFacts,
    bandwidth_of_each,
    facts_here,
    memory_of_each,
)

KERNEL = "5a1c-b007"
GIB = 1 << 30


class Machine:
    """A folder in which a system tells of itself: by default a PC with one card and 64 GiB."""

    def __init__(self, root):
        self.root = Path(root)
        self.write("proc/sys/kernel/random/boot_id", KERNEL + "\n")
        self.write("proc/meminfo", f"MemTotal:       {64 << 20} kB\nMemFree:        1024 kB\n")
        self.write("proc/self/cgroup", "0::/\n")
        self.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme sse2\n")
        self.link("lo", device=False, carrier="1", speed="")
        self.link("eth0")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, name, bus="pci", driver="ixgbe", *, device=True, **said):
        """Put a link there, with a card behind it; or change one."""
        home = f"sys/class/net/{name}"
        for fact, text in {"carrier": "1", "speed": "10000", "duplex": "full", **said}.items():
            self.write(f"{home}/{fact}", f"{text}\n")
        if device:
            card = self.root / f"sys/devices/{name}"
            card.mkdir(parents=True, exist_ok=True)
            for kind, target in (("subsystem", f"sys/bus/{bus}"), ("driver", f"sys/drv/{driver}")):
                (self.root / target).mkdir(parents=True, exist_ok=True)
                (card / kind).unlink(missing_ok=True)
                (card / kind).symlink_to(self.root / target)
            (self.root / home / "device").unlink(missing_ok=True)
            (self.root / home / "device").symlink_to(card)

    def bond(self, name, *links, **said):
        self.link(name, device=False, **said)
        (self.root / f"sys/class/net/{name}/bonding").mkdir()
        for link in links:
            (self.root / f"sys/class/net/{link}/master").symlink_to(
                self.root / f"sys/class/net/{name}"
            )

    @property
    def facts(self):
        return facts_here(self.root)

    @property
    def memory(self):
        return memory_of_each({"x": self.facts}).get("x")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


class TestMemory:
    def test_is_that_of_the_machine(self, machine):
        assert 64 * GIB == machine.memory

    @pytest.mark.parametrize(
        ("told", "name", "path"),
        [
            ("0::/app/one\n", "memory.max", "sys/fs/cgroup/app/one"),
            ("0::/app/one\n", "memory.max", "sys/fs/cgroup/app"),
            ("0::/\n", "memory.max", "sys/fs/cgroup"),
            # A container, which is told its path on the machine outside, and sees its end only.
            ("0::/pods/7/here\n", "memory.max", "sys/fs/cgroup"),
            (
                "9:cpu:/\n4:memory:/app\n0::/\n",
                "memory.limit_in_bytes",
                "sys/fs/cgroup/memory/app",
            ),
            ("4:hugetlb,memory:/app\n", "memory.limit_in_bytes", "sys/fs/cgroup/memory"),
        ],
    )
    def test_is_what_the_group_of_the_process_is_held_to(self, machine, told, name, path):
        machine.write("proc/self/cgroup", told)
        machine.write(f"{path}/{name}", f"{3 * GIB}\n")

        assert 3 * GIB == machine.memory

    @pytest.mark.parametrize("said", ["max", str((1 << 63) - 4096)])
    def test_is_not_bounded_by_a_group_that_has_no_bound(self, machine, said):
        machine.write("sys/fs/cgroup/memory.max", said)

        assert 64 * GIB == machine.memory

    def test_of_other_groups_is_not_ours(self, machine):
        machine.write("proc/self/cgroup", "4:cpu:/app\n0::/app\n")
        machine.write("sys/fs/cgroup/other/memory.max", "1")
        machine.write("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "1")  # of a kind not told

        assert 64 * GIB == machine.memory

    @pytest.mark.parametrize("lacks", ["proc/meminfo", "proc/sys/kernel/random/boot_id"])
    def test_is_not_known_where_the_system_does_not_tell(self, machine, lacks):
        (machine.root / lacks).unlink()

        assert machine.memory is None

    def test_of_one_machine_is_shared_by_the_hosts_that_are_there(self, machine, tmp_path):
        other = Machine(tmp_path / "other")
        other.write("proc/sys/kernel/random/boot_id", "another")
        hosts = {"x": machine.facts, "y": machine.facts, "z": other.facts}

        assert {"x": 32 * GIB, "y": 32 * GIB, "z": 64 * GIB} == memory_of_each(hosts)

    def test_that_containers_are_held_to_is_their_own(self, machine):
        pods = {}
        for name in ("one", "two"):
            machine.write("proc/self/cgroup", f"0::/{name}\n")
            machine.write(f"sys/fs/cgroup/{name}/memory.max", str(8 * GIB))
            pods[name] = machine.facts
        assert {"one": 8 * GIB, "two": 8 * GIB} == memory_of_each(pods)

        # Two hosts in one container share what it has.
        assert {"a": 4 * GIB, "b": 4 * GIB} == memory_of_each({"a": pods["one"], "b": pods["one"]})

    def test_that_is_not_known_of_one_host_is_known_of_another(self, machine):
        hosts = {"x": machine.facts, "y": MachineFacts()}

        assert {"x": 64 * GIB} == memory_of_each(hosts)


class TestBandwidth:
    def test_is_the_speed_of_the_only_card(self, machine):
        assert 1.25e9 == machine.facts.bandwidth

    @pytest.mark.parametrize(
        "said",
        [
            {"speed": "-1"},
            {"speed": "0"},
            {"speed": ""},
            {"duplex": "half"},
            {"carrier": "0"},
            {"bus": "virtio"},
            {"bus": "vmbus"},
            {"bus": "xen"},
            {"driver": "vmxnet3"},
            {"driver": "ena"},
            {"driver": "gve"},
        ],
    )
    def test_is_not_known_of_a_card_that_does_not_tell_or_is_none(self, machine, said):
        machine.link("eth0", **said)

        assert machine.facts.bandwidth is None

    def test_is_not_known_of_links_without_a_card(self, machine):
        (machine.root / "sys/class/net/eth0/device").unlink()  # as of a container's

        assert machine.facts.bandwidth is None

    @pytest.mark.parametrize("flags", ["flags : fpu hypervisor sse2", "Features : fp asimd"])
    def test_is_not_known_where_the_machine_is_or_may_be_a_virtual_one(self, machine, flags):
        machine.write("proc/cpuinfo", f"processor : 0\n{flags}\n")

        assert machine.facts.bandwidth is None

    def test_is_not_known_of_two_cards_unless_one_is_not_plugged_in(self, machine):
        machine.link("eth1", speed="1000")
        assert machine.facts.bandwidth is None

        machine.link("eth1", speed="1000", carrier="0")
        assert 1.25e9 == machine.facts.bandwidth

    def test_of_cards_that_are_bonded_is_what_they_carry_together(self, machine):
        machine.link("eth1")
        machine.bond("bond0", "eth0", "eth1", speed="20000")

        assert 2.5e9 == machine.facts.bandwidth

    def test_of_a_card_in_a_bridge_is_its_own(self, machine):
        machine.link("br0", device=False, speed="40000")
        (machine.root / "sys/class/net/eth0/master").symlink_to(machine.root / "sys/class/net/br0")

        assert 1.25e9 == machine.facts.bandwidth

    def test_of_hosts_that_are_one_machine_is_not_known(self, machine, tmp_path):
        other = Machine(tmp_path / "other")
        other.write("proc/sys/kernel/random/boot_id", "another")

        assert {"x": 1.25e9, "y": 1.25e9} == bandwidth_of_each(
            {"x": machine.facts, "y": other.facts}
        )
        assert {"z": 1.25e9} == bandwidth_of_each(
            {"x": machine.facts, "y": machine.facts, "z": other.facts}
        )
        assert {} == bandwidth_of_each({"x": MachineFacts({}, 1.25e9)})


def test_facts_travel_as_json(machine):
    facts = machine.facts

    assert facts == MachineFacts.from_dict(json.loads(json.dumps(facts.to_dict())))


def test_this_machine_has_no_more_memory_than_python_finds():
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    assert 0 < memory_of_each({"here": facts_here()})["here"] <= there * 1.01


def test_of_a_system_that_tells_nothing_nothing_is_known(tmp_path):
    assert MachineFacts() == facts_here(tmp_path)
