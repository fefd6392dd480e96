"""Arrays in states that look alarming, made by real mdadm: what `md audit` says of them is what the guide shows.

`BLKLAB_UPDATE=1` writes what is printed here into the guide. Numbers there may be others: of sectors, speeds, events.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 128 << 20) for at in range(4)]
MD = "/sys/block/md0/md"
GUIDE = Path(__file__).parents[3] / "docs/howto/states.md"


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        booted.run("modprobe", "md_mod")
        yield booted


@pytest.fixture
def disks(machine: Rig) -> Iterator[list[str]]:
    """Disks without anything on them."""
    result = machine.names(SHAPES)
    limit_speed(machine, 200_000)
    yield result
    limit_speed(machine, 200_000)
    machine.run("mdadm", "--stop", "--scan", check=False)
    machine.run("dmsetup", "remove", "slow", check=False)
    machine.run("mdadm", "--zero-superblock", *result, check=False)


def limit_speed(machine: Rig, maximum: int) -> None:
    """Sets sync_speed_max of all arrays, and sync_speed_min to the default of 1,000 KiB/s or less."""
    machine.guest.agent.write("/proc/sys/dev/raid/speed_limit_min", str(min(1000, maximum)))
    machine.guest.agent.write("/proc/sys/dev/raid/speed_limit_max", str(maximum))


@dataclass(frozen=True)
class Printed:
    """A finding as it is printed."""

    text: str  # All lines of it
    commands: list[str]


def audit(machine: Rig, *words: str) -> dict[str, Printed]:
    """Returns the findings that `blklab md audit` prints, by code; of several, the first."""
    text = machine.blklab("md", "audit", *words).stdout
    section = re.search(r"^Findings\n(.*?)^$", text, re.M | re.S)
    assert section, text
    findings: dict[str, Printed] = {}
    for piece in re.findall(r"^\S.*\n(?: .*\n)*", section[1], re.M):
        first, *others = piece.splitlines()
        match = re.search(r" \[([a-z0-9-]+)\]$", first)
        assert match, first
        commands = [line.strip() for line in others if line.strip()[0] != "#"]
        findings.setdefault(match[1], Printed(piece, commands))
    return findings


def with_names_of_the_guide(text: str, disks: Sequence[str]) -> str:
    for at, disk in enumerate(disks):
        text = text.replace(disk, f"/dev/sd{'abcd'[at]}").replace(disk[5:], f"sd{'abcd'[at]}")
    text = text.replace("(none):", "host:")
    return "\n".join(line.rstrip() for line in text.splitlines())


def printed(findings: dict[str, Printed], codes: Sequence[str], disks: Sequence[str]) -> str:
    """Returns the printed findings with some codes, each with its commands, in the order in which they were printed."""
    texts = [finding.text for code, finding in findings.items() if code in codes]
    return with_names_of_the_guide("".join(texts), disks) + "\n"


def compare_with_guide(heading: str, command: str, output: str) -> None:
    """Asserts that the guide has a block with this output below a heading; numbers may differ."""
    guide = GUIDE.read_text()
    block = re.search(
        rf"^## {re.escape(heading)}\n.*?^```console\n# {re.escape(command)}\n(.*?)^```$", guide, re.M | re.S
    )
    assert block, heading
    assert output
    if os.environ.get("BLKLAB_UPDATE"):
        GUIDE.write_text(guide[: block.start(1)] + output.rstrip("\n") + "\n" + guide[block.end(1) :])
        return
    assert without_numbers(output) == without_numbers(block[1])


def without_numbers(text: str) -> list[str]:
    """Returns lines of text without what differs from run to run: numbers, dates, and how long something lasts."""
    plain = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "DATE", text)
    plain = re.sub(r"[\d,.]*\d( (s|min|h)\b)?", "N", plain)
    return [line.rstrip() for line in plain.splitlines()]


def until(machine: Rig, path: str, pattern: str, seconds: float = 60) -> str:
    limit = time.monotonic() + seconds
    while not re.fullmatch(pattern, text := machine.read(path)):
        assert time.monotonic() < limit, f"{path} is {text!r}"
        time.sleep(0.2)
    return text


def steady_speed(machine: Rig) -> int:
    """Returns the speed of a resync in KiB/s when it no longer changes: md shows the mean of half a minute."""
    speed = 0
    for _ in range(20):
        last, speed = speed, int(machine.read(f"{MD}/sync_speed"))
        if abs(speed - last) < 0.03 * speed:
            break
        time.sleep(4)
    return speed


@pytest.mark.guest
def test_a_raid5_that_grows_and_was_stopped(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=none")
    machine.run("mdadm", "/dev/md0", "--add", disks[3])
    limit_speed(machine, 1000)
    machine.run("mdadm", "--grow", "/dev/md0", "--raid-devices=4")
    until(machine, f"{MD}/reshape_position", r"[1-9]\d*")
    found = audit(machine, "--array", "md0")
    assert "reshape is running" in found["under-way"].text
    assert not [command for code, finding in found.items() for command in finding.commands if code != "bbl-empty"]
    compare_with_guide("A RAID-5 grows", "blklab md audit --array md0", printed(found, ["under-way"], disks))
    machine.run("mdadm", "--stop", "/dev/md0")
    # Images: the disks themselves.
    found = audit(machine, "--image", *disks)
    assert "It adds 1 disk: 3 were there before, 4 after it" in found["reshape-unfinished"].text
    compare_with_guide(
        "A reshape was stopped", "blklab md audit --image /dev/sda /dev/sdb /dev/sdc /dev/sdd",
        printed(found, ["reshape-unfinished"], disks),
    )  # fmt: skip
    # Three of four disks: md waits.
    for disk in disks[:3]:
        machine.run("mdadm", "--incremental", disk, check=False)
    assert machine.read(f"{MD}/array_state") == "inactive"
    found = audit(machine)
    assert {"inactive", "reshape-unfinished"} <= set(found)
    compare_with_guide(
        "A reshape was stopped, and a disk is missing", "blklab md audit",
        printed(found, ["inactive", "reshape-unfinished"], disks),
    )  # fmt: skip
    machine.run("mdadm", "--incremental", disks[3])
    limit_speed(machine, 200_000)
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    until(machine, f"{MD}/reshape_position", "none")


@pytest.mark.guest
def test_a_raid0_that_grows(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=0", "--chunk=64")
    limit_speed(machine, 1000)
    machine.run("mdadm", "--grow", "/dev/md0", "--raid-devices=3", "--add", disks[2])
    until(machine, f"{MD}/reshape_position", r"[1-9]\d*")
    assert machine.read(f"{MD}/level") == "raid4"
    found = audit(machine, "--array", "md0")
    assert not {"degraded", "cannot-run", "broken"} & set(found)
    compare_with_guide("A RAID-0 grows", "blklab md audit --array md0", printed(found, ["raid0-grows"], disks))
    limit_speed(machine, 200_000)
    until(machine, f"{MD}/level", "raid0")


@pytest.mark.guest
def test_a_resync_at_its_limit_and_at_its_minimum(machine: Rig, disks: list[str]) -> None:
    machine.run("modprobe", "dm_delay")
    table = f"0 {SHAPES[1].bytes // 512} delay {disks[1]} 0 0 {disks[1]} 0 500"  # Writes take 500 ms
    machine.run("dmsetup", "create", "slow", "--table", table)
    limit_speed(machine, 500)
    members = [disks[0], "/dev/dm-0"]
    machine.run("mdadm", "--create", "/dev/md0", "--run", "--level=1", "--bitmap=none", "-n", "2", *members)
    until(machine, f"{MD}/sync_action", "resync")
    time.sleep(12)
    found = audit(machine, "--array", "md0")
    assert "sync-limited" in found, found
    compare_with_guide(
        "A resync runs at its limit", "blklab md audit --array md0", printed(found, ["sync-limited"], disks)
    )
    limit_speed(machine, 200_000)
    # The minimum of a server whose disks are as busy: md does not go below it.
    machine.guest.agent.write(f"{MD}/sync_speed_min", str(steady_speed(machine)))
    found = audit(machine, "--array", "md0")
    assert "sync-stalled" in found, found
    compare_with_guide(
        "A resync waits for other I/O", "blklab md audit --array md0", printed(found, ["sync-stalled"], disks)
    )
    (command,) = found["sync-stalled"].commands
    machine.run("/run/python/bin/dash", "-c", command)
    assert machine.read(f"{MD}/sync_speed_min") == "50000 (local)"


@pytest.mark.guest
def test_an_array_that_waits_for_a_member(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    machine.run("mdadm", "--stop", "/dev/md0")
    for disk in disks[:2]:
        machine.run("mdadm", "--incremental", disk, check=False)
    assert machine.read(f"{MD}/array_state") == "inactive"
    found = audit(machine)
    compare_with_guide("An array waits for a disk", "blklab md audit", printed(found, ["inactive"], disks))
    for line in found["inactive"].commands:
        machine.run("/run/python/bin/dash", "-c", line)
    assert machine.read(f"{MD}/array_state") in {"clean", "active", "read-auto"}
    assert machine.read(f"{MD}/degraded") == "0"


@pytest.mark.guest
def test_a_degraded_array_with_bad_blocks(machine: Rig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=none")
    node = disks[1].removeprefix("/dev/")
    machine.guest.agent.write(f"{MD}/dev-{node}/bad_blocks", "10000 8")
    machine.run("mdadm", "/dev/md0", "--fail", disks[2], "--remove", disks[2])
    found = audit(machine, "--array", "md0")
    assert not [line for finding in found.values() for line in finding.commands if "md fix add" in line], found
    compare_with_guide(
        "A disk is missing, and another has bad blocks", "blklab md audit --array md0",
        printed(found, ["bbl-lost", "only-out", "degraded"], disks),
    )  # fmt: skip
