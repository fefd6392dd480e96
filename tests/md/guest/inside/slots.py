"""`md fix add`, `replace` and `rebuild`, killed (SIGKILL) at points, and continued with `md fix --resume`.

    slots OPERATION FIRST STEP DISK…     prints a line of JSON for each point

The array is a RAID-6 of four disks; the fifth is empty. All of its pages are compared at the end.
"""

import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

from inside.arrays import ARRAY, NODE, Case, clean, content, create, persist, put, retried, value, wait_idle  # type: ignore[import-not-found]
from inside.points import Points, forked, killed  # type: ignore[import-not-found]

from blklab.md import probing
from blklab.md.repair import journal, slot_plan
from blklab.md.repair.operations import MachineOps
from blklab.md.repair.slot_task import SlotTask
from blklab.md.repair.slots import SlotRepair
from blklab.system.roots import Roots

ROOTS = Roots()


def change(task: SlotTask) -> bool:
    SlotRepair(task, MachineOps(ROOTS), lambda *_: None, lambda *_: None).run()
    return True


def begin(operation: str, case: Case, points: Points) -> bool:
    points.watch()
    if operation == "add":
        plan = slot_plan.plan_add(ARRAY, case.members[1], ROOTS)
    elif operation == "add-empty":
        plan = slot_plan.plan_add(ARRAY, case.spare_disks[0], ROOTS)
    elif operation == "replace":
        plan = slot_plan.plan_replace(ARRAY, case.members[1], case.spare_disks[0], ROOTS)
    else:
        plan = slot_plan.plan_rebuild(ARRAY, "1", ROOTS)
    assert not plan.refused, plan.refused
    return change(plan.task)


def resume() -> bool:
    for path in probing.find_journals(ROOTS):
        task = journal.read_any_journal(path)
        assert isinstance(task, SlotTask)
        change(task)
    return True


def prepare(case: Case, operation: str) -> None:
    """Makes the array; member 1 is out, or has a bad range with other bytes below it."""
    create(case)
    (NODE / "sync_action").write_text("repair")
    wait_idle()
    node = NODE / f"dev-{case.members[1][5:]}"
    if operation in {"add", "add-empty"}:
        retried(f"mdadm {ARRAY} --fail {case.members[1]}")
        retried(f"mdadm {ARRAY} --remove {case.members[1]}")
        return
    sector = int((node / "offset").read_text()) + 1024
    (node / "bad_blocks").write_text(f"{sector} 8\n")
    put(case.members[1], sector * 512, b"\xee" * 4096)
    persist(case)


def judge(operation: str, point: int, disks: list[str]) -> dict[str, Any]:
    case = Case(point, "raid6", disks[:4], ["--chunk=64"], disks[4:], random.Random(1), "slots")
    prepare(case, operation)
    before = content()
    ended = forked(partial(begin, operation, case, Points(point, killed)))
    unfinished = len(probing.find_journals(ROOTS))
    again = forked(resume) if ended < 0 else None
    wait_idle()
    if again == 0 and value("degraded") != "0":  # it was killed before it changed anything: the user types it again
        again = forked(partial(begin, operation, case, Points(-1, killed)))
        wait_idle()
    after = content()
    result = {
        "operation": operation, "point": point, "ended": ended, "unfinished": unfinished, "again": again,
        "degraded": value("degraded"), "unfinished_now": len(probing.find_journals(ROOTS)),
        "lost": sum(old is not None and new is None for old, new in zip(before, after, strict=True)),
        "changed": sum(None not in {old, new} and old != new for old, new in zip(before, after, strict=True)),
        "members": sorted(path.name[4:] for path in NODE.glob("dev-*")), "bytes": len(after) * 4096,
    }  # fmt: skip
    clean(case, disks)
    return result


if __name__ == "__main__":
    operation, first, step, *given = sys.argv[1:]
    clean(None, given)
    Path("/etc/mdadm/mdadm.conf").write_text("")
    for point in range(int(first), 10_000, int(step)):
        line = judge(operation, point, given)
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if line["ended"] >= 0:
            break
