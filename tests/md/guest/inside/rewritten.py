"""`md fix entries` on arrays of seeds, killed (SIGKILL) at a point, and gone on with.

    rewritten SEED STEP DISK…     prints a line of JSON for each point

The points 1, 1 + STEP, … are tried: before and after a write of the journal, of a page and of a flag.
"""

import json
import sys
from functools import partial
from typing import Any

from inside.arrays import ARRAY, NODE, clean, content, generate, run, value, wait_idle  # type: ignore[import-not-found]
from inside.points import Points, forked, killed  # type: ignore[import-not-found]

from blklab.md import probing
from blklab.md.repair import journal, rewrite
from blklab.system.roots import Roots

MOST = 10_000  # Points of an array


def written(points: Points | None) -> bool:
    """Writes the bad ranges again; resumes if there is a journal. Returns whether no readable range is listed."""
    if points:
        points.watch()
    journals = probing.find_journals(Roots())
    task = journal.read_journal(journals[0]) if journals else rewrite.make_rewrite_plan(ARRAY, Roots()).task
    return not rewrite.rewrite_entries(task, Roots(), lambda *_: None, lambda *_: None).pages


def judge(seed: int, point: int, disks: list[str]) -> dict[str, Any]:
    case = generate(seed, disks)
    before = content()
    ended = forked(partial(written, Points(point, killed)))
    unfinished = len(probing.find_journals(Roots()))
    again = forked(partial(written, None)) if ended < 0 else None
    wait_idle()
    after = content()
    result = {
        "seed": seed, "point": point, "level": case.level, "entries": case.entries, "ended": ended, "again": again,
        "unfinished": unfinished, "unfinished_now": len(probing.find_journals(Roots())),
        "changed": sum(old is not None and old != new for old, new in zip(before, after, strict=True)),
        "lost": sum(page is None for page in after), "lost_before": sum(page is None for page in before),
        "listed": sum(len(path.read_text().split("\n")) - 1 for path in NODE.glob("dev-*/bad_blocks")),
        "bytes": len(after) * 4096,
    }  # fmt: skip
    if not result["lost"]:  # md compares all copies and parity only if no list has entries
        (NODE / "sync_action").write_text("check")
        wait_idle()
        result["mismatches"] = int(value("mismatch_cnt"))
        run("mdadm", "--stop", ARRAY)
        run("mdadm", "--assemble", ARRAY, "--update=no-bbl", *case.members)  # mdadm keeps a list with entries
        result["lists"] = [run("mdadm", "--examine-badblocks", disk)[:11] for disk in case.members]
    clean(case, disks)
    return result


if __name__ == "__main__":
    seed, step, *given = sys.argv[1:]
    clean(None, given)
    for point in range(1, MOST, int(step)):
        line = judge(int(seed), point, given)
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if line["ended"] >= 0:
            break
