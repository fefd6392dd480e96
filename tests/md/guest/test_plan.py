"""`blklab md plan` predicts what a real mdadm and kernel accept, what they print, and how long a pass takes.

`BLKLAB_PROOF=every` runs all cases of plan_cases.py, about half an hour; otherwise some of each kind.
"""

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.plan_cases import CASES, SLOW_CASES, SLOW_RATE, Case
from tests.md.guest.rig import Rig

MIB = 1 << 20
SHAPES = [
    *(VirtualDiskShape(f"disk{number}", 64 * MIB) for number in range(6)),
    VirtualDiskShape("small", 40 * MIB),
    VirtualDiskShape("native", 64 * MIB, logical_block_size=4096, physical_block_size=4096),
]
EVERY = os.environ.get("BLKLAB_PROOF") == "every"
PART = 12  # Cases that one process in the guest runs
TOLERANCE = 0.3
LATENESS_S = 1.5
"""md counts a second more than has passed (md.c, `md_do_sync`), and the end is seen late."""


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[Rig]:
    with Rig(guest_image, python, SHAPES, memory=768 * MIB) as booted:
        booted.run("modprobe", "-a", "md_mod", "raid0", "raid1", "raid10", "raid456")
        yield booted


def run_cases(machine: Rig, cases: list[Case]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for begin in range(0, len(cases), PART):
        document = json.dumps([asdict(case) for case in cases[begin : begin + PART]])
        command = payload.command("inside.changes")
        done = machine.run(*command, document, *machine.names(SHAPES), check=False, timeout=1800)
        assert done.status == 0, done.stderr
        results += json.loads(done.stdout)
    return results


def find_difference(result: dict[str, Any]) -> str:
    """Returns how mdadm and md differ from the prediction; empty if they do not."""
    if "problem" in result:
        return str(result["problem"])
    plan, text = result["plan"], result["text"]
    if plan["accepted"] != (result["status"] == 0):
        return f"predicted {describe_verdict(plan['accepted'])}: {plan['answer']}"
    if not plan["accepted"]:
        printed = plan["refusals"][0]["printed"]
        return "" if printed and printed in text else f"predicted the sentence {printed!r}"
    if result["after"]["array_state"] == "broken":
        return "" if plan["dangers"] else "the array is broken"
    seconds = result.get("seconds", 0.0)
    duration = plan["duration"]
    if duration is None:
        return f"predicted no pass, and {result['actions']} took {seconds} s" if seconds > LATENESS_S else ""
    expected = duration["at_maximum"]
    if expected < LATENESS_S * 2:
        return ""  # The disks of the guest decide
    if abs(seconds - expected) > max(TOLERANCE * expected, LATENESS_S):
        return f"predicted {expected:.1f} s"
    return ""


def describe_verdict(accepted: bool) -> str:
    return "yes" if accepted else "no"


def draw_row(result: dict[str, Any], difference: str) -> str:
    if "problem" in result:
        return f"{result['name']:<55} {difference}"
    plan = result["plan"]
    duration = plan["duration"]["at_maximum"] if plan["duration"] else 0.0
    verdict = f"{describe_verdict(plan['accepted']):>3}/{describe_verdict(result['status'] == 0):<3}"
    first = result["text"].replace("mdadm: ", "").replace("\n", " / ")[:110]
    times = f"{duration:5.1f} {result.get('seconds', 0.0):5.1f} s"
    return f"{result['name']:<55} {verdict} {times} {difference or 'as predicted'} | {first}"


@pytest.mark.guest
def test_mdadm_and_md_do_what_is_predicted(machine: Rig) -> None:
    cases = [case for case in CASES if EVERY or case.sampled]
    results = run_cases(machine, cases)
    rows = [(result, find_difference(result)) for result in results]
    print("\n".join(draw_row(*row) for row in rows))  # noqa: T201  # figures for the record
    assert not [f"{result['name']}: {difference}" for result, difference in rows if difference]
    assert len(results) == len(cases)


def ask(machine: Rig, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(machine.blklab("md", "plan", *arguments, "--json").stdout))


def read_digest(machine: Rig) -> str:
    """Returns the SHA-256 of the first 48 MiB of the array, read from its disks."""
    machine.run("blockdev", "--flushbufs", "/dev/md0")
    return machine.run(*payload.command("inside.digest"), "read", "/dev/md0", "48").stdout


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits until something is so; returns whether it is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.mark.guest
@pytest.mark.skipif(not EVERY, reason="BLKLAB_PROOF=every has it")
def test_a_reshape_goes_on_after_a_power_cut_with_what_is_printed(
    rig: Callable[[Sequence[VirtualDiskShape]], Rig],
) -> None:
    """One that moves the data of the members. A reshape with a backup file has no such test."""
    machine = rig(SHAPES[:4])
    disks = machine.names(SHAPES[:4])
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=none")
    machine.run(*payload.command("inside.digest"), "write", "/dev/md0", "1", "48")
    before = read_digest(machine)
    limit_speed(machine, 1000)
    plan = ask(machine, "reshape", "/dev/md0", "--raid-devices", "4", "--add", disks[3])
    typed = [line for line in plan["commands"] if line.startswith("mdadm ") and "--wait" not in line]
    for line in typed:
        machine.run(*shlex.split(line))
    assert wait_for(lambda: (count_reshaped(machine) or 0) > 8192, 60)
    machine.cut()
    machine.power()
    machine.run("modprobe", "raid456")
    limit_speed(machine, 100_000)
    first = next(line for line in plan["interruption"] if "--assemble" in line)
    machine.run(*shlex.split(first))
    if machine.read("/sys/block/md0/md/sync_action") != "reshape" and count_reshaped(machine) is not None:
        machine.run(*shlex.split(next(line for line in plan["interruption"] if "--continue" in line)))
    assert wait_for(lambda: count_reshaped(machine) is None, 120)
    assert machine.read("/sys/block/md0/md/degraded") == "0"
    assert read_digest(machine) == before


@pytest.mark.guest
@pytest.mark.skipif(not EVERY, reason="BLKLAB_PROOF=every has it")
def test_disks_that_are_slower_than_the_limit_take_as_long_as_is_said(machine: Rig) -> None:
    throttle(machine, SHAPES, SLOW_RATE)
    try:
        results = run_cases(machine, SLOW_CASES)
    finally:
        throttle(machine, SHAPES, 0)
    wrong = []
    for result in results:
        assert "problem" not in result, result["problem"]
        duration, seconds = result["plan"]["duration"], result["seconds"]
        bounds = " to ".join(f"{duration[name]:.1f}" for name in ("fastest", "likely", "slowest"))
        line = f"{result['name']}: {seconds} s, predicted {bounds} s"
        print(line)  # noqa: T201  # figures for the record
        if not 0.9 * duration["fastest"] - LATENESS_S <= seconds <= 1.1 * duration["slowest"] + LATENESS_S:
            wrong.append(line)
    assert not wrong


def throttle(machine: Rig, shapes: Sequence[VirtualDiskShape], rate: int) -> None:
    """Has disks read and write together so many bytes per second; 0 is no limit."""
    for shape in shapes:
        machine.guest.throttle(machine.guest.disk(shape), {"bps_total": rate})


def count_reshaped(machine: Rig) -> int | None:
    """Returns the position of the reshape in sectors of the array; None if there is none."""
    position = machine.read("/sys/block/md0/md/reshape_position")
    return None if position == "none" else int(position)


def limit_speed(machine: Rig, maximum: int) -> None:
    machine.guest.agent.write("/proc/sys/dev/raid/speed_limit_min", str(min(1000, maximum)))
    machine.guest.agent.write("/proc/sys/dev/raid/speed_limit_max", str(maximum))
