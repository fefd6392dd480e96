"""In the guest: repairs killed (SIGKILL) at every point, or at every n-th, and gone on with.

    everywhere.py step level metadata spares bitmap disk…

Prints a line of JSON a point: what was left, and what --resume made of it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from blklab.md.repair import journal, mdadm
from blklab.md.repair import plan as plans
from blklab.md.repair.perform import Repair
from blklab.system.roots import Roots
from crash import Points

ARRAY = "/dev/md0"


def run(*words: str) -> str:
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
    return ran.stdout


def forked(function: Any) -> int:
    """Calls a function in a process of its own; returns that one's status, negative for a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = function() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def create(level: str, metadata: str, bitmap: str, members: list[str], spares: list[str]) -> None:
    options = ["--chunk=64"] if level != "1" else []
    run(
        "mdadm", "--create", ARRAY, "--run", "--assume-clean", f"--level={level}", *options,
        f"--metadata={metadata}", f"--bitmap={bitmap}", f"--raid-devices={len(members)}", *members,
    )  # fmt: skip
    for spare in spares:
        run("mdadm", ARRAY, "--add", spare)


def repaired(points: Points) -> int:
    mdadm.run = points.around(mdadm.run, "mdadm")
    journal.write = points.around(journal.write, "journal")
    task = plans.plan(ARRAY, Roots()).task
    Repair(task, Roots(), lambda *_: None, lambda _: None).run()
    return 0


def resumed() -> int:
    for path in journal.left(Roots()):
        Repair(journal.read(path), Roots(), lambda *_: None, lambda _: None).run()
    return 0


def seen(disks: list[str], spares: list[str]) -> dict[str, Any]:
    md = Path("/sys/block/md0/md")
    lists = {
        disk: (subprocess.run(["mdadm", "--examine-badblocks", disk], capture_output=True, text=True, check=False).stdout or "?").split(" in ")[0].split(" on ")[0].strip()
        for disk in disks
    }  # fmt: skip
    states = {
        one.name.removeprefix("dev-"): (one / "state").read_text().strip()
        for one in md.glob("dev-*")
    }
    return {
        "degraded": (md / "degraded").read_text().strip(),
        "bitmap": (md / "bitmap/location").read_text().strip(),
        "states": states,
        "lists": lists,
        "journals": [path.name for path in journal.left(Roots())],
        "spares": [spare for spare in spares if Path(spare).name in states],
    }


def load() -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["fio", "--name=load", f"--filename={ARRAY}", "--direct=1", "--ioengine=libaio", "--iodepth=2",
         "--rw=randwrite", "--bs=4k", "--size=8m", "--rate_iops=150", "--number_ios=700",
         "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=32", "--do_verify=1"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def main() -> None:
    step, level, metadata, many, bitmap, *disks = sys.argv[1:]
    cut = len(disks) - int(many)
    members, spares = disks[:cut], disks[cut:]
    at = 0
    while True:
        create(level, metadata, bitmap, members, spares)
        fio = load()
        points = Points("kill", at)
        status = forked(lambda points=points: repaired(points))
        left = seen(disks, spares)
        again = forked(resumed) if status < 0 else None
        told, _ = fio.communicate()
        now = seen(disks, spares)
        run("mdadm", "--wait-clean", ARRAY)
        (Path("/sys/block/md0/md/sync_action")).write_text("check")
        while (Path("/sys/block/md0/md/sync_action")).read_text().strip() != "idle":
            time.sleep(0.1)
        now["mismatches"] = (Path("/sys/block/md0/md/mismatch_cnt")).read_text().strip()
        line = {
            "at": at,
            "status": status,
            "left": left,
            "resumed": again,
            "now": now,
            "fio": fio.returncode,
        }
        if fio.returncode:
            line["told"] = told[-500:]
        print(json.dumps(line), flush=True)
        run("mdadm", "--stop", ARRAY)
        if status >= 0:
            return
        at += int(step)


main()
