"""Asks `blklab md plan` about changes of arrays, has mdadm make them, and watches what md does.

    changes CASES DISK…     CASES is a JSON list of cases of tests/md/guest/plan_cases.py; prints one JSON list

If the change is accepted, the commands are typed that `md plan` prints; otherwise the command that it judged.
"""

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from blklab.cli import main as blklab_main

NODE = Path("/sys/block/md0/md")
OUTPUT = Path("/run/output")
BACKUP = Path("/run/backup")
START_S, LIMIT_S = 3.0, 90.0  # How long a pass may take to begin, and to end
MIB = 1 << 20


def run(line: str) -> tuple[int, str]:
    """Runs a command. Its output goes to a file: children of mdadm that go on in the background keep it open."""
    with OUTPUT.open("w+") as output:
        done = subprocess.run(
            shlex.split(line), stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False, timeout=60,
            env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/run/python/bin"},
        )  # fmt: skip
        output.seek(0)
        return done.returncode, output.read().strip()


def read(name: str) -> str:
    try:
        return (NODE / name).read_text().strip()
    except OSError:
        return ""


def limit_speed(kib: int) -> None:
    """Sets the limits of all arrays, because a RAID-0 has none of its own until it gets another level."""
    for name in ("min", "max"):
        value = kib if name == "max" else kib // 2
        Path(f"/proc/sys/dev/raid/speed_limit_{name}").write_text(str(value))


def wait_idle() -> None:
    end = time.monotonic() + LIMIT_S
    while read("sync_action") not in {"idle", ""} and time.monotonic() < end:
        time.sleep(0.05)


def watch(expects: bool) -> tuple[list[str], float]:
    """Returns the sync actions that follow, and the seconds from the first to the end of the last."""
    begin = time.monotonic()
    first = last = 0.0
    actions: list[str] = []
    while time.monotonic() < begin + LIMIT_S:
        now = time.monotonic()
        action = read("sync_action")
        if action not in {"idle", "frozen", ""}:
            first = first or now
            last = now
            if action not in actions:
                actions.append(action)
        elif now > (last or begin) + (START_S if expects else 1.0):
            break
        time.sleep(0.05)
    return actions, round(last - first, 1)


def facts() -> dict[str, str]:
    names = ("level", "raid_disks", "layout", "chunk_size", "component_size", "degraded", "array_state")
    values = {name: read(name) for name in names}
    values["size"] = Path("/sys/block/md0/size").read_text().strip()
    return values


def clean(disks: list[str]) -> None:
    for _ in range(50):
        run("umount /mnt")
        for name in ("md1", "md0"):
            if Path(f"/sys/block/{name}/md").exists():
                run(f"mdadm --stop /dev/{name}")
        if not list(Path("/sys/block").glob("md?/md/array_state")):
            break
        time.sleep(0.2)
    for disk in disks:
        with Path(disk).open("r+b") as file:
            size = file.seek(0, 2)
            for offset in (0, size - MIB):
                file.seek(offset)
                file.write(bytes(MIB))
    BACKUP.unlink(missing_ok=True)


def ask(arguments: list[str]) -> dict[str, Any]:
    """Returns what `blklab md plan` says, in this process: its start takes seconds here."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        blklab_main(["md", "plan", *arguments, "--json"])
    if not out.getvalue():
        raise RuntimeError(err.getvalue())
    return dict(json.loads(out.getvalue()))


def list_typed(plan: dict[str, Any], words: list[str]) -> list[str]:
    """Returns what is typed: what the plan prints, without filesystems; its call if it is refused or dangerous.

    `words` are those of the question.
    """
    if plan["commands"] and not plan["dangers"]:
        lines = [line for line in plan["commands"] if line.startswith("mdadm ")]
        typed = [line for line in lines if "--wait" not in line and "--detail" not in line]
        if typed:
            return typed
    adding = []
    if "--add" not in plan["call"]:  # The disks are there, and something else is refused
        new = [words[number + 1] for number, word in enumerate(words) if word == "--add"]
        adding += [f"mdadm /dev/md0 --add {disk}" for disk in new]
    if plan["operation"] == "replace" and "--with" in plan["call"]:
        call = shlex.split(plan["call"])
        disk = call[call.index("--with") + 1]
        if not (NODE / f"dev-{Path(disk).name}").exists():
            adding.append(f"mdadm /dev/md0 --add {disk}")
    return [*adding, plan["call"]]


def run_case(case: dict[str, Any], disks: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"name": case["name"]}
    limit_speed(200_000)
    for line in case["make"]:
        status, text = run(line.format(*disks))
        if status:
            raise RuntimeError(f"{line}: {text}")
        if not case["busy"]:
            wait_idle()
    limit_speed(case["rate"])
    result["before"] = facts()
    words = [word.format(*disks) for word in case["plan"]]
    plan = result["plan"] = ask(words)
    status, text = 0, ""
    result["typed"] = list_typed(plan, words)
    for line in result["typed"]:
        line_status, line_text = run(line)
        status = status or line_status
        text += line_text + "\n"
    result["status"], result["text"] = status, text.strip()
    if not case["busy"]:
        result["actions"], result["seconds"] = watch(bool(plan["work"]) and not status)
    result["after"] = facts()
    return result


def main() -> None:
    disks = sys.argv[2:]
    results = []
    for case in json.loads(sys.argv[1]):
        begin = time.monotonic()
        try:
            clean(disks)
            result = run_case(case, disks)
        except Exception:  # one case must not end the others
            result = {"name": case["name"], "problem": traceback.format_exc()}
        result["took"] = round(time.monotonic() - begin, 1)
        results.append(result)
    print(json.dumps(results))  # noqa: T201


if __name__ == "__main__":
    main()
