"""Arrays made of files: what the kernel would say of them, and their members' superblocks."""

import gzip
from pathlib import Path

import pytest

from blklab.diagnostic import Diagnostic
from blklab.md import inventory
from blklab.md.audit import find_problems
from blklab.md.model import Inventory
from blklab.md.repair.unfinished import add_unfinished_repairs
from tests.system.machine import Machine

DATA = Path(__file__).parents[1] / "data" / "md" / "sb"

BYTES = 256 << 20
"""Of the disks that the recorded superblocks are of."""


def image(name: str, directory: Path) -> Path:
    """Writes a recorded member, `raid1-12.vda`, as a whole disk, and returns its path."""
    path = directory / f"{name}.img"
    with path.open("wb") as file:
        file.truncate(BYTES)
        for part, at in (("head64k", 0), ("tail128k", BYTES - (128 << 10))):
            recorded = DATA / f"{name}.{part}.gz"
            if recorded.is_file():
                file.seek(at)
                file.write(gzip.decompress(recorded.read_bytes()))
    return path


class Arrays(Machine):
    """A machine with arrays: of two disks sda and sdb, unless changed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root
        self.proc("sys/kernel/osrelease", "6.1.0-37-amd64")

    def disk(self, name: str, number: str, recorded: str = "", **files: str) -> Path:
        """Makes a disk; `recorded` is the member that it holds."""
        wanted = {"size": str(BYTES // 512), "queue__rotational": "0", "queue__physical_block_size": "4096", **files}
        path = self.roots.dev / name
        if recorded:
            path.symlink_to(image(recorded, self.root))
        else:
            path.write_bytes(b"")
        return self.device(name, number, **wanted)

    def array(self, name: str, number: str, members: dict[str, dict[str, str]], **md: str) -> Path:
        """Makes an array; `members` are their attributes by name, which have sound defaults."""
        (self.roots.dev / name).write_bytes(bytes(8192))
        node = self.device(name, number, slaves=" ".join(members), size="522240")
        wanted = {
            "array_state": "clean", "level": "raid1", "layout": "0", "chunk_size": "0",
            "raid_disks": str(len(members)), "metadata_version": "1.2", "degraded": "0",
            "sync_action": "idle", "sync_completed": "none", "sync_speed": "none",
            "last_sync_action": "check", "mismatch_cnt": "0", "reshape_position": "none",
            "bitmap__location": "+8", "component_size": "261120", **md,
        }  # fmt: skip
        self.write(node, {f"md__{key}": value for key, value in wanted.items()})
        for at, (member, changed) in enumerate(members.items()):
            attributes = {
                "slot": str(at), "state": "in_sync", "errors": "0", "offset": "2048",
                "bad_blocks": "", "unacknowledged_bad_blocks": "", **changed,
            }  # fmt: skip
            self.write(node / "md" / f"dev-{member}", attributes)
            link = node / "md" / f"dev-{member}" / "block"
            link.symlink_to(self.roots.sys / "class/block" / member)
        return node

    def mirror(self, recorded: str = "raid1-12-bitmap", **md: str) -> None:
        """Makes md0 of sda and sdb, a recorded RAID-1."""
        self.disk("sda", "8:0", f"{recorded}.vda")
        self.disk("sdb", "8:16", f"{recorded}.vdb")
        self.array("md0", "9:0", {"sda": {}, "sdb": {}}, **md)

    def seen(self) -> Inventory:
        return inventory.read_inventory(self.roots)

    def hide_state(self) -> None:
        """Creates root's state, which no other user can read."""
        state = self.roots.state_of_root
        state.parent.mkdir(parents=True)
        state.symlink_to(state)

    def findings_by_code(self) -> dict[str, Diagnostic]:
        """What is found, by the rule; of several the first."""
        rules: dict[str, Diagnostic] = {}
        for item in find_problems(add_unfinished_repairs(self.seen(), self.roots)):
            rules.setdefault(item.code, item)
        return rules


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    monkeypatch.setattr("blklab.md.probing.PATH", str(tmp_path / "bin"))
    return Arrays(tmp_path)


def program(machine: Arrays, version: str) -> None:
    """Puts an mdadm there that tells its version."""
    path = machine.root / "bin" / "mdadm"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho 'mdadm - v{version} - 2021-12-30' >&2\n")
    path.chmod(0o755)
