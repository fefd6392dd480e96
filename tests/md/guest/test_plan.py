"""`blklab md plan` predicts what a real mdadm and kernel accept, what they print, and how long a pass takes.

`BLKLAB_PROOF=every` runs all cases of plan_cases.py, about half an hour; otherwise some of each kind.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.plan_cases import CASES, Case
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
