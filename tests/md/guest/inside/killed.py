"""Repairs of /dev/md0 that are killed (SIGKILL), each at another point, and gone on with.

    killed FIRST STEP LEVEL METADATA BITMAP SPARES DISK…

While they go on, fio writes to the array and verifies. Prints a line of JSON a point: what the
kill left, what `--resume` made of it, and what `check` then counts.
"""

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from inside.points import Points, forked, killed  # type: ignore[import-not-found]

from blklab.md import probing
from blklab.md.repair import journal
from blklab.md.repair import plan as plans
from blklab.md.repair.operations import MachineOps
from blklab.md.repair.perform import Repair
from blklab.md.repair.steps import Done
from blklab.md.repair.task import RepairTask
from blklab.system.roots import Roots

ARRAY = "/dev/md0"
MD = Path("/sys/block/md0/md")
CONFIG = Path("/etc/mdadm/mdadm.conf")
OUTCOME = Path("/run/outcome")  # How the last repair ended, for the message of a test that fails

LOAD = [
    "fio", "--name=load", f"--filename={ARRAY}", "--direct=1", "--ioengine=libaio", "--iodepth=2",
    "--rw=randwrite", "--bs=4k", "--size=8m", "--rate_iops=150", "--number_ios=700",
    "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=32", "--do_verify=1",
]  # fmt: skip


def mdadm(*words: str) -> None:
    ran = subprocess.run(["mdadm", *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{words}: {ran.stdout} {ran.stderr}")


def carried_out(task: RepairTask, *, resume: bool = False) -> bool:
    outcome = Repair(task, MachineOps(Roots()), lambda *_: None, lambda _: None).run(resume=resume)
    OUTCOME.write_text(repr(outcome))
    return isinstance(outcome, Done)


def repaired(points: Points) -> bool:
    points.watch()
    return carried_out(plans.make_plan(ARRAY, Roots()).task)


def resumed() -> bool:
    return all(carried_out(journal.read_journal(path), resume=True) for path in probing.find_journals(Roots()))


def lists(disk: str) -> str:
    output = subprocess.run(["mdadm", "--examine-badblocks", disk], capture_output=True, text=True, check=False)
    return output.stdout.split(disk)[0].strip() or output.stderr.strip()


def seen(disks: list[str]) -> dict[str, Any]:
    result = [item for item in MD.iterdir() if item.name.startswith("dev-")]
    return {
        "degraded": int((MD / "degraded").read_text()),
        "bitmap": (MD / "bitmap/location").read_text().strip(),
        "states": {item.name[4:]: (item / "state").read_text().strip() for item in sorted(result)},
        "lists": {disk[5:]: lists(disk) for disk in disks},
        "unfinished": len(probing.find_journals(Roots())),
    }


def checked() -> int:
    """Has md compare all copies, or all parity; returns how many sectors differ."""
    (MD / "sync_action").write_text("check")
    while (MD / "sync_action").read_text().strip() != "idle":
        time.sleep(0.1)
    return int((MD / "mismatch_cnt").read_text())


def main() -> None:
    first, step, level, metadata, bitmap, spares, *disks = sys.argv[1:]
    members = disks[: len(disks) - int(spares)]
    for point in range(int(first), 10_000, int(step)):
        CONFIG.write_text("")
        mdadm(
            "--create", ARRAY, "--run", "--assume-clean", f"--level={level}",
            *([] if level == "1" else ["--chunk=64"]), f"--metadata={metadata}",
            f"--bitmap={bitmap}", f"--raid-devices={len(members)}", *members,
        )  # fmt: skip
        for spare in disks[len(members) :]:
            mdadm(ARRAY, "--add", spare)
        CONFIG.write_text("CREATE bbl=no\n")
        OUTCOME.write_text("")
        fio = subprocess.Popen(LOAD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        points = Points(point, killed)
        ended = forked(partial(repaired, points))
        left = seen(disks)
        again = forked(resumed) if ended < 0 else None
        facts, _ = fio.communicate()
        line = {
            "point": point, "ended": ended, "left": left, "resumed": again, "outcome": OUTCOME.read_text(),
            "fio": fio.returncode, "told": facts[-500:] if fio.returncode else "",
            "now": seen(disks), "mismatches": checked(),
        }  # fmt: skip
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        mdadm("--stop", ARRAY)
        if ended >= 0:
            return


main()
