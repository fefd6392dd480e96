"""A model of md and mdadm on an array made of files: it changes what sysfs shows."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.md import inventory
from blklab.md.model import Array, ArrayMember
from blklab.md.repair import slot_plan, slots
from blklab.md.repair.operations import CommandOutput, MachineOps
from blklab.md.superblocks import SectorRange
from blklab.system.identity import BlockDevice, of_node
from blklab.system.roots import Roots
from tests.md.conftest import Arrays

OFFSET = 2048  # Of the members' data, sectors


class Killed(BaseException):
    """The process is gone."""


class SlotModel(MachineOps):
    """Time flies. Members that md adds are in sync at once, unless `rebuilds` is False."""

    def __init__(self, machine: Arrays) -> None:
        super().__init__(machine.roots)
        self.machine = machine
        self.md = machine.roots.sys / "devices/block/md0/md"
        self.ran: list[str] = []
        self.re_adds = True
        self.rebuilds = True
        self.unreadable: dict[str, tuple[SectorRange, ...]] = {}
        """What a measurement finds, by the kernel's name."""
        self.measured: list[list[str]] = []
        self.before: Callable[[str], object] = lambda _: None
        self.after: Callable[[str], object] = lambda _: None
        self.now = 0.0

    def clock(self) -> float:
        self.now += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        pass

    def put_in(self, name: str, slot: str, state: str = "in_sync") -> None:
        node = self.md / f"dev-{name}"
        self.machine.write(
            node,
            {
                "slot": slot, "state": state, "errors": "0", "offset": str(OFFSET), "bad_blocks": "",
                "unacknowledged_bad_blocks": "",
            },
        )  # fmt: skip
        if not (node / "block").exists():
            (node / "block").symlink_to(self.roots.sys / "class/block" / name)

    def take_out(self, name: str) -> None:
        """Removes a member that was failed; before, it is counted as missing."""
        shutil.rmtree(self.md / f"dev-{name}")
        (self.roots.sys / "class/block" / name / "holders/md0").unlink(missing_ok=True)

    def count(self) -> None:
        states = [
            (path / "state").read_text() for path in self.md.glob("dev-*") if (path / "slot").read_text() != "none\n"
        ]
        disks = int((self.md / "raid_disks").read_text())
        (self.md / "degraded").write_text(f"{disks - sum('in_sync' in state for state in states)}\n")

    def run_mdadm(self, *words: str) -> CommandOutput:
        line = " ".join(words).replace(str(self.roots.dev), "/dev")
        self.ran.append(line)
        self.before(line)
        option = next(word for word in words if word.startswith("--"))
        name = words[-1].rpartition("/")[2]
        taken = {(path / "slot").read_text().strip() for path in self.md.glob("dev-*")}
        empty = next((slot for slot in "012"[: int((self.md / "raid_disks").read_text())] if slot not in taken), "none")
        match option:
            case "--fail":
                self.put_in(name, "none", "faulty")
            case "--remove":
                self.take_out(name)
            case "--re-add" if self.re_adds:
                self.put_in(name, empty)
            case "--add":
                spare = empty == "none" or not self.rebuilds
                self.put_in(name, "none" if spare else empty, "spare" if spare else "in_sync")
            case "--replace":
                old = words[2].rpartition("/")[2]
                slot = (self.md / f"dev-{old}/slot").read_text().strip()
                self.put_in(name, slot)
                self.put_in(old, "none", "faulty")
            case "--zero-superblock":
                with (self.roots.dev / name).resolve().open("r+b") as file:
                    file.seek(4096)
                    file.write(bytes(4096))
        self.count()
        self.after(line)
        return CommandOutput(0, ())


def device_of(word: str, roots: Roots) -> BlockDevice:
    return of_node((roots.sys / "class/block" / word.rpartition("/")[2]).resolve(), roots)


def array_of(name: str, roots: Roots) -> Array:
    return inventory.read_array((roots.sys / "block" / name.rpartition("/")[2]).resolve(), roots)


def prepare(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> SlotModel:
    """Makes md0, a mirror of sda and sdb, an empty sdc, and what needs a kernel a function of the files."""
    machine.mirror()
    machine.disk("sdc", "8:32", device__serial="SERIAL-C")
    for name in "ab":
        machine.write(machine.roots.sys / f"class/block/sd{name}", {"device__serial": f"SERIAL-{name.upper()}"})
    model = SlotModel(machine)

    class Measured:
        def __init__(self, _array: Array, members: list[ArrayMember], _roots: Roots) -> None:
            self.members = members

        def read(self, _advance: Any) -> dict[str, tuple[SectorRange, ...]]:
            model.measured.append([member.name for member in self.members])
            found = {member.path: model.unreadable.get(member.name, ()) for member in self.members}
            return {path: ranges for path, ranges in found.items() if ranges}

    def id_of(path: str, roots: Roots) -> str:
        return device_of(path, roots).id or ""

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(slot_plan, "find_array", array_of)
    monkeypatch.setattr(slot_plan, "find_device", device_of)
    monkeypatch.setattr(slots, "find_device", device_of)
    monkeypatch.setattr(slot_plan, "disk_id", id_of)
    monkeypatch.setattr(slot_plan, "find_mdadm", lambda: "/sbin/mdadm")
    monkeypatch.setattr(slot_plan, "signatures", lambda _: [])
    monkeypatch.setattr(slots, "signatures", lambda _: [])
    monkeypatch.setattr(slot_plan, "locate_signatures", lambda _: [("linux_raid_member", 4096)])
    monkeypatch.setattr(slots, "Measurement", Measured)
    monkeypatch.setattr(slots.SlotRepair, "_hold_alone", lambda *_: None)
    return model


def fail_out(model: SlotModel, name: str) -> None:
    model.put_in(name, "none", "faulty")
    model.take_out(name)
    model.count()


__all__ = ["OFFSET", "BlklabError", "Killed", "SlotModel", "array_of", "device_of", "fail_out", "prepare"]
