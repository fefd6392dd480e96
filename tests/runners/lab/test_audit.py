"""The audit against mdadm: real arrays of a real kernel, whose members' ends are read here."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from blklab.md import images, inventory, report
from blklab.md.audit import find_problems
from blklab.md.model import Array, Inventory
from blklab.md.remote import read_recorded_inventory
from blklab.md.remote.probe_output import parse_output
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.boot import GuestMachine as Guest
from blklab.runners.lab.machine.boot import boot
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.remote.conftest import probe
from tests.runners.lab.arrays import names
from tests.system.machine import Machine

BYTES = 64 << 20
END = 128 << 10
"""Bytes of a disk's beginning and of its end: all metadata are there."""

ATTRIBUTES = ("/sys/block/md*/md/*", "/sys/block/md*/md/dev-*/*", "/sys/block/md*/md/bitmap/*")


@dataclass
class Wanted:
    """An array to be made, and what is then listed."""

    name: str
    members: int
    options: list[str]
    lists: bool = True
    missing: int = 0
    bad: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


WANTED = [
    Wanted(
        "md0", 2, ["--level=1", "--metadata=1.2", "--bitmap=internal"],
        bad={0: [(8192, 8), (12000, 100), (20000, 1500)]},
    ),
    Wanted("md1", 2, ["--level=1", "--metadata=1.0", "--bitmap=none"], bad={1: [(4096, 16)]}),
    Wanted("md2", 2, ["--level=1", "--metadata=0.90", "--bitmap=none"]),
    Wanted("md3", 2, ["--level=1", "--metadata=1.1", "--bitmap=none"], lists=False),
    Wanted(
        "md4", 4, ["--level=10", "--metadata=1.2", "--layout=n2", "--chunk=64"],
        bad={1: [(30000, 8)], 2: [(40000, 8)]},
    ),
    Wanted("md5", 3, ["--level=5", "--metadata=1.2", "--chunk=64"], bad={2: [(30000, 8)]}),
    Wanted("md6", 3, ["--level=5", "--metadata=1.2", "--chunk=64"], missing=1),
]  # fmt: skip


@dataclass
class Made:
    """What mdadm said of it all, and what was read."""

    members: dict[str, list[str]]
    """The disks of each array, `vda`."""
    detail: dict[str, str]
    examine: dict[str, str]
    listed: dict[str, str]
    attributes: dict[str, str | None]
    live: Inventory
    """Of sysfs and disks as they were while the arrays were running."""
    offline: Inventory
    """Of the disks when they were stopped."""
    machine: Path
    """Where the files are that `live` was read of."""


SHAPES = {
    wanted.name: [VirtualDiskShape(f"{wanted.name}-{at}", BYTES) for at in range(wanted.members)] for wanted in WANTED
}

SMALL = [VirtualDiskShape(f"small-{at}", 16 << 20) for at in range(5)]


@pytest.fixture(scope="module")
def guest(guest_image: GuestImage) -> Iterator[Guest]:
    every = [*(shape for some in SHAPES.values() for shape in some), *SMALL]
    with boot(guest_image, every, accelerator_choice="tcg", cpus=1, memory=512 << 20, note=lambda _: None) as booted:
        yield booted


@pytest.fixture(scope="module")
def made(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return _made(guest, SHAPES, tmp_path_factory.mktemp("audit"))


def _made(guest: Guest, shapes: dict[str, list[VirtualDiskShape]], root: Path) -> Made:
    agent = guest.agent
    members = {name: names(guest, some) for name, some in shapes.items()}
    for wanted in WANTED:
        agent.write("/etc/mdadm/mdadm.conf", "" if wanted.lists else "CREATE bbl=no\n")
        used = members[wanted.name] = members[wanted.name][: wanted.members - wanted.missing]
        agent.run(
            ["mdadm", "--create", f"/dev/{wanted.name}", "--run", "--assume-clean",
             *wanted.options, f"--raid-devices={wanted.members}",
             *(f"/dev/{name}" for name in used), *["missing"] * wanted.missing]
        )  # fmt: skip
        for at, entries in wanted.bad.items():
            for sector, many in entries:
                path = f"/sys/block/{wanted.name}/md/dev-{used[at]}/bad_blocks"
                agent.write(path, f"{sector} {many}")
        # The list reaches the disk with the next superblock, which a write brings about.
        agent.write(f"/dev/{wanted.name}", "written")
        agent.write(f"/sys/block/{wanted.name}/md/array_state", "clean")
    detail = {name: agent.run(["mdadm", "--detail", f"/dev/{name}"]).stdout for name in members}
    attributes = agent.read(ATTRIBUTES)
    paths = [Path(name) for some in members.values() for name in some]
    (root / "live").mkdir()
    _copied(guest, shapes, members, root / "live")
    machine = _machine(root, members, attributes)
    live = inventory.read_inventory(machine.roots)
    for name in members:
        agent.run(["mdadm", "--stop", f"/dev/{name}"])
    examine = {str(item): agent.run(["mdadm", "--examine", f"/dev/{item}"]).stdout for item in paths}
    listed = {str(item): agent.run(["mdadm", "--examine-badblocks", f"/dev/{item}"], check=False) for item in paths}
    (root / "stopped").mkdir()
    _copied(guest, shapes, members, root / "stopped")
    offline = images.read_images([root / "stopped" / item for item in paths])
    output = {name: ran.stdout + ran.stderr for name, ran in listed.items()}
    return Made(members, detail, examine, output, attributes, live, offline, machine.root)


def _copied(
    guest: Guest, shapes: dict[str, list[VirtualDiskShape]], members: dict[str, list[str]], to: Path, size: int = BYTES
) -> None:
    for name, some in shapes.items():
        for shape, path in zip(some, members[name], strict=False):
            with (to / path).open("wb") as file:
                file.truncate(size)
                for at in (0, size - END):
                    file.seek(at)
                    file.write(guest.disk(shape).read(at, END))


def _machine(root: Path, members: dict[str, list[str]], attributes: dict[str, str | None]) -> Machine:
    """A machine made of what the guest's kernel said."""
    (root / "made").mkdir()
    machine = Machine(root / "made")
    for some in members.values():
        for name in some:
            number = f"254:{16 * (ord(name[-1]) - ord('a'))}"
            machine.device(
                name, number, size=str(BYTES // 512), queue__rotational="0",
                queue__physical_block_size="4096",
            )  # fmt: skip
            (machine.roots.dev / name).symlink_to(root / "live" / name)
    for at, (name, some) in enumerate(members.items()):
        node = machine.device(name, f"9:{at}", slaves=" ".join(some))
        for path, text in attributes.items():
            if path.startswith(f"/sys/block/{name}/") and text is not None:
                machine.write(node, {path.removeprefix(f"/sys/block/{name}/"): text.rstrip("\n")})
        for member in some:
            link = node / "md" / f"dev-{member}" / "block"
            link.symlink_to(machine.roots.sys / "class/block" / member)
    machine.proc("sys/kernel/osrelease", "6.1.0-1-amd64")
    return machine


def field_of(text: str, name: str) -> str:
    result = re.search(rf"^ *{name} : (.*?) *$", text, re.M)
    return result[1] if result else ""


def by_members(made: Made, result: Inventory) -> dict[str, Array]:
    names = {member: name for name, some in made.members.items() for member in some}
    return {names[Path(item.members[0].name).name]: item for item in result.arrays}


@pytest.mark.guest
def test_the_audit_says_what_mdadm_says(made: Made) -> None:
    arrays = by_members(made, made.offline)
    assert sorted(arrays) == sorted(wanted.name for wanted in WANTED)
    for array in arrays.values():
        for member in array.members:
            result = member.superblock
            assert result is not None
            text = made.examine[Path(member.name).name]
            assert field_of(text, "Version").removesuffix(".00") == result.version
            assert field_of(text, "(?:Array )?UUID").split()[0] == array.uuid
            assert field_of(text, "Raid Level") == array.level
            assert int(field_of(text, "Raid Devices")) == array.raid_disks
            assert field_of(text, "State") == array.state == "clean"
            assert "correct" in field_of(text, "Checksum")
            assert result.checksum_holds
            # Of 0.90 mdadm has it in halves.
            halves = f"{result.events >> 32}.{result.events & 0xFFFFFFFF}"
            assert field_of(text, "Events") in {str(result.events), halves}
            if result.version != "0.90":
                assert field_of(text, "Device UUID") == result.device
                assert field_of(text, "Device Role") == f"Active device {member.slot}"
                begin = field_of(text, "Data Offset") or "0 sectors"  # 1.0 has none
                assert begin == f"{result.data_offset} sectors"
                states = "".join(".A"[there] for there in result.present)
                assert field_of(text, "Array State").startswith(f"{states} ")
            assert ("Internal Bitmap" in text) == result.bitmap
            size = int(field_of(text, "Array Size").split()[0])
            assert size * 1024 == array.size


@pytest.mark.guest
def test_of_bad_blocks_too(made: Made) -> None:
    for result in (made.offline, made.live):
        for name, array in by_members(made, result).items():
            wanted = next(item for item in WANTED if item.name == name)
            for member in array.members:
                assert member.superblock is not None
                text = made.listed[Path(member.name).name]
                bad = member.bad_blocks
                if "0.90 metadata does not support" in text or "No bad-blocks list" in text:
                    assert bad is None
                    assert not wanted.lists or array.metadata == "0.90"
                    continue
                assert bad is not None
                lines = re.findall(r"^ *(\d+) for (\d+) sectors$", text, re.M)
                assert bool(lines) == (member.slot in wanted.bad)
                assert ("is empty" in text) == (not lines)
                facts = [(item.sector, item.sectors) for item in bad.ranges]
                assert facts == sorted((int(sector), int(many)) for sector, many in lines)
                assert member.entries == len(lines)


@pytest.mark.guest
def test_sysfs_and_superblocks_tell_the_same_sectors(made: Made) -> None:
    facts = []
    for result in (made.live, made.offline):
        ranges = [item.ranges for item in find_problems(result) if item.code == "bbl-entries"]
        assert all(item["array_ranges"] for some in ranges for item in some)
        facts.append(sorted(ranges, key=str))
    assert facts[0] == facts[1]
    assert len(facts[0]) == 5


@pytest.mark.guest
def test_and_of_running_arrays(made: Made) -> None:
    arrays = {array.name: array for array in made.live.arrays}
    assert list(arrays) == [wanted.name for wanted in WANTED]
    for name, array in arrays.items():
        text = made.detail[name]
        assert field_of(text, "Version").removesuffix(".00") in array.metadata
        assert field_of(text, "UUID").split()[0] == array.uuid
        assert field_of(text, "Raid Level") == array.level
        active = int(field_of(text, "Active Devices"))
        assert len(array.active) == active
        assert array.raid_disks - (array.degraded or 0) == active
        assert ("degraded" in field_of(text, "State")) == bool(array.degraded)
        assert (field_of(text, "Intent Bitmap") == "Internal") == array.bitmap
        assert not array.unseen or all("/dev/md" in line for line in array.unseen)


@pytest.mark.guest
def test_the_probe_sees_as_much(made: Made) -> None:
    there = read_recorded_inventory(parse_output(probe(made.machine)))
    facts = [
        json.dumps(report.as_dict(item, find_problems(item)), indent=1).replace(f"{made.machine}/", "/")
        for item in (made.live, there)
    ]
    # mdadm was asked here; there it is not installed.
    assert len(there.arrays) == len(WANTED)
    assert facts[0].partition('"arrays"')[2] == facts[1].partition('"arrays"')[2]


@pytest.mark.guest
def test_what_is_found(made: Made) -> None:
    result = find_problems(made.live)
    rules = {name: {item.code for item in result if item.subject == name} - {"never-checked"} for name in made.members}
    assert rules == {
        "md0": {"repair-corrupts", "bbl-entries", "bbl-empty"},
        "md1": {"repair-corrupts", "bbl-entries", "bbl-empty", "metadata-end"},
        "md2": {"bbl-none", "metadata-end"},
        "md3": {"bbl-none"},
        "md4": {"bbl-entries", "bbl-empty"},
        "md5": {"bbl-entries", "bbl-empty"},
        "md6": {"degraded", "bbl-empty"},
    }


@pytest.mark.guest
def test_arrays_in_trouble(guest: Guest, tmp_path: Path) -> None:
    agent = guest.agent
    disks = names(guest, SMALL)
    members = {"md90": disks[:2], "md91": disks[2:]}
    shapes = {"md90": SMALL[:2], "md91": SMALL[2:]}
    for name, options in (("md90", ["--level=1", "--bitmap=none"]), ("md91", ["--level=5"])):
        used = members[name]
        agent.run(
            ["mdadm", "--create", f"/dev/{name}", "--run", "--assume-clean", *options,
             f"--raid-devices={len(used)}", *(f"/dev/{disk}" for disk in used)]
        )  # fmt: skip
    item, other = (f"/sys/block/md90/md/dev-{disk}" for disk in members["md90"])
    agent.write(f"{item}/state", "write_error")
    # The check waits there, for as long as it takes to look.
    agent.write("/sys/block/md90/md/sync_max", "8192")
    agent.write("/sys/block/md90/md/sync_action", "check")
    first, _, last = members["md91"]
    agent.write(f"/sys/block/md91/md/dev-{last}/bad_blocks", "9000 8")
    agent.run(["mdadm", "/dev/md91", "--fail", f"/dev/{first}"])
    done = "/sys/block/md90/md/sync_completed"
    while not (agent.read([done])[done] or "").startswith("8192 /"):
        assert guest.agent.connected
        time.sleep(0.1)
    agent.write(f"{other}/bad_blocks", "9000 4")
    attributes = agent.read(ATTRIBUTES)
    detail = {name: agent.run(["mdadm", "--detail", f"/dev/{name}"]).stdout for name in members}
    (tmp_path / "live").mkdir()
    _copied(guest, shapes, members, tmp_path / "live", 16 << 20)
    result = find_problems(inventory.read_inventory(_machine(tmp_path, members, attributes).roots))
    output = {(item.subject, item.code): item for item in result if item.severity != "note"}
    # Whether a superblock was written since is chance.
    may = {("md90", "never-checked"), ("md91", "never-checked"), ("md90", "bbl-disagree")}
    assert output.keys() - may == {
        ("md90", "write-error"), ("md90", "bbl-entries"), ("md90", "repair-corrupts"),
        # The member that failed has the only good copy of what the other one lists.
        ("md91", "bbl-entries"), ("md91", "only-out"), ("md91", "degraded"),
    }  # fmt: skip
    assert output["md90", "bbl-entries"].member == members["md90"][1]
    assert output["md90", "write-error"].member == members["md90"][0]
    assert "State : clean" in detail["md90"], "mdadm does not report it"
    assert first in output["md91", "only-out"].message
    assert field_of(detail["md91"], "State") == "clean, degraded"
    assert field_of(detail["md91"], "Failed Devices") == "1"
    (direction,) = [item for item in result if item.code == "under-way"]
    # mdstat, where mdadm has it from, leaves out what is being read.
    share = int(field_of(detail["md90"], "Check Status").split("%")[0])
    facts = re.match(r"check is running: (\d+)\.", direction.message)
    assert facts
    assert abs(int(facts[1]) - share) <= 5
    agent.write("/sys/block/md90/md/sync_action", "idle")
    for name in members:
        agent.run(["mdadm", "--stop", f"/dev/{name}"])
    for shape in SMALL:
        guest.disk(shape).clear()
