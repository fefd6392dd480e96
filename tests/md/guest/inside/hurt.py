"""`blklab md fix bbl ARRAY --yes`, in the midst of which something breaks.

    hurt WORDS ARRAY error NAME           the dm device NAME gives errors from then on
    hurt WORDS ARRAY entries MEMBER NUMBERS   the kernel lists bad sectors on a member
    hurt WORDS ARRAY killed               blklab is killed, and what watches over it
    hurt WORDS ARRAY frozen               blklab's cgroup is frozen until writes to the array resume
    hurt WORDS ARRAY command COMMAND      a shell runs a command

It breaks before the first run of mdadm that has all the WORDS (`--re-add /dev/vdb`) in it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from blklab.cli import main
from blklab.md.repair import operations

words, array, how, *what = sys.argv[1:]
run = operations.run_mdadm
waiting = [set(words.split())]


def entries(member: str, numbers: str) -> None:
    node = Path("/sys/block") / Path(array).name / "md" / f"dev-{Path(member).name}"
    (node / "bad_blocks").write_text(numbers)


def killed() -> None:
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    for process in [*map(int, children), own]:
        os.kill(process, signal.SIGKILL)


def error(name: str) -> None:
    table = subprocess.run(["dmsetup", "table", name], check=True, capture_output=True, text=True)
    sectors = table.stdout.split()[1]
    for command in (
        ["suspend", "--noflush", "--nolockfs", name],
        ["load", name, "--table", f"0 {sectors} error"],
        ["resume", name],
    ):
        subprocess.run(["dmsetup", *command], check=True)
    # What is read meets the error, and md deals with it.
    subprocess.run(
        ["fio", "--name=reads", f"--filename={array}", "--rw=read", "--bs=64k", "--size=8m",
         "--direct=1", "--continue_on_error=read"],
        check=False, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    # It does so when it next writes to the member, which may be after this.
    states = Path("/sys/block", Path(array).name, "md")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found = [file.read_text() for file in (states / "array_state", *states.glob("dev-*/state"))]
        if any("broken" in state or "faulty" in state for state in found):
            return
        time.sleep(0.1)


def command(line: str) -> None:
    subprocess.run(["sh", "-c", line], check=False)


CGROUPS = Path("/sys/fs/cgroup")
FROZEN = CGROUPS / "frozen"


def frozen() -> None:
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.read(reader, 1)
        return
    (CGROUPS / "cgroup.procs").write_text("0")
    (FROZEN / "cgroup.freeze").write_text("1")
    while "frozen 1" not in (FROZEN / "cgroup.events").read_text():
        time.sleep(0.01)
    high = Path("/sys/block") / Path(array).name / "md/suspend_hi"
    sys.stdout.write(f"frozen with suspend_hi {high.read_text()}")
    while high.read_text().strip() != "0":
        time.sleep(0.1)
    sys.stdout.write("writes resumed\n")
    sys.stdout.flush()
    (FROZEN / "cgroup.freeze").write_text("0")
    os._exit(0)


HOW: dict[str, Callable[..., None]] = {
    "command": command,
    "entries": entries,
    "error": error,
    "frozen": frozen,
    "killed": killed,
}


def watched(*arguments: str) -> operations.CommandOutput:
    if waiting and waiting[0] <= set(arguments):
        waiting.clear()
        HOW[how](*what)
    return run(*arguments)


if how == "frozen":
    if not (CGROUPS / "cgroup.procs").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUPS)], check=True)
    FROZEN.mkdir(exist_ok=True)
    (FROZEN / "cgroup.procs").write_text("0")
operations.run_mdadm = watched
main(["md", "fix", "bbl", array, "--yes"])
