"""Arrays of a seed: level, layout, bitmap, lists, missing members, and a condition that blklab has an answer for.

Under each entry of a list the member has other bytes, as a disk that did not store a write.
"""

import contextlib
import mmap
import os
import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from blklab.md.repair import journal
from blklab.md.repair.plan import make_plan
from blklab.system.roots import Roots

ARRAY, NODE = "/dev/md0", Path("/sys/block/md0/md")
PAGE, PIECE, MIB = 4096, 1 << 16, 1 << 20
SHELL = "/run/python/bin/dash"
FILE = b"kept" * 50_000
SHAPES = [  # Level, members, options of mdadm
    ("raid1", 2, []), ("raid1", 3, []), ("raid10", 4, ["--layout=n2", "--chunk=64"]),
    ("raid10", 3, ["--layout=f2", "--chunk=64"]), ("raid10", 3, ["--layout=o2", "--chunk=64"]),
    ("raid5", 3, ["--chunk=64"]), ("raid5", 4, ["--chunk=64"]), ("raid6", 4, ["--chunk=64"]),
    ("raid6", 5, ["--chunk=64"]),
]  # fmt: skip
TOLERATED = {"raid5": 1, "raid6": 2, "raid10": 1}


@dataclass
class Case:
    seed: int
    level: str
    members: list[str]  # Paths
    options: list[str]
    spare_disks: list[str]  # Empty disks
    random: random.Random
    condition: str = "plain"
    removed: list[str] = field(default_factory=list)
    mapped: list[str] = field(default_factory=list)  # Names of dm devices below the members
    size: int = 0  # Bytes of the array
    entries: int = 0
    problems: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # Commands that had no effect, and what they printed

    @property
    def tolerated(self) -> int:
        return TOLERATED.get(self.level, len(self.members) - 1)


def run(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=60
    )
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def shell(line: str) -> tuple[int, str]:
    done = subprocess.run(
        [SHELL, "-c", line], capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL,
        timeout=60, env={**os.environ, "PATH": "/run/python/bin:/usr/sbin:/usr/bin"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def value(name: str) -> str:
    try:
        return (NODE / name).read_text().strip()
    except OSError:
        return ""


def retried(line: str) -> tuple[int, str]:
    """Runs a command, which a user repeats if md is busy with the disk."""
    for _ in range(40):
        status, text = shell(line)
        if not status or "busy" not in text.lower():
            break
        time.sleep(0.1)
    return status, text


def wait_idle() -> None:
    until = time.monotonic() + 60
    while value("sync_action") not in {"idle", "frozen", ""} and time.monotonic() < until:
        time.sleep(0.05)


def pages(path: str, length: int) -> list[bytes | None]:
    """Returns each page of a device, read from the disks; None if it cannot be read."""
    buffer = mmap.mmap(-1, PIECE)
    result: list[bytes | None] = []
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for begin in range(0, length, PIECE):
            size = min(PIECE, length - begin)
            try:
                if os.preadv(descriptor, [memoryview(buffer)[:size]], begin) != size:
                    raise OSError
                result += [buffer[at : at + PAGE] for at in range(0, size, PAGE)]
            except OSError:
                for at in range(begin, begin + size, PAGE):
                    try:
                        os.preadv(descriptor, [memoryview(buffer)[:PAGE]], at)
                        result.append(buffer[:PAGE])
                    except OSError:
                        result.append(None)
    finally:
        os.close(descriptor)
    return result


def put(path: str, begin: int, content: bytes) -> None:
    buffer = mmap.mmap(-1, max(PAGE, len(content)))
    buffer[: len(content)] = content
    descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        os.pwritev(descriptor, [memoryview(buffer)[: len(content)]], begin)
    finally:
        os.close(descriptor)


def pattern(seed: int, page: int) -> bytes:
    return f"{seed}:{page};".encode().ljust(32, b".") * (PAGE // 32)


def content() -> list[bytes | None]:
    """Returns each page of the array as the disks have it: what md remembers of its writes is not that."""
    if (size := NODE / "stripe_cache_size").exists():
        usual = size.read_text()
        for text in ("17", usual):
            size.write_text(text)
    return pages(ARRAY, size_of_array())


def size_of_array() -> int:
    if not NODE.exists():
        return 0
    return int(Path("/sys/block/md0/size").read_text()) * 512 // PAGE * PAGE


def dm(name: str, table: str) -> None:
    run("dmsetup", "suspend", "--noflush", "--nolockfs", name)
    run("dmsetup", "load", name, "--table", table)
    run("dmsetup", "resume", name)


def mapped(case: Case) -> None:
    """Puts dm devices over the members, which can be made to fail."""
    for at, disk in enumerate(case.members):
        sectors = int(Path(f"/sys/block/{disk[5:]}/size").read_text())
        run("dmsetup", "create", f"m{at}", "--noudevsync", "--table", f"0 {sectors} linear {disk} 0")
        case.mapped.append(disk)
    nodes = {path.read_text().strip(): path.parts[3] for path in Path("/sys/block").glob("dm-*/dm/name")}
    case.members = [f"/dev/{nodes[f'm{at}']}" for at in range(len(case.members))]


def create(case: Case) -> None:
    bitmap = "internal" if case.random.random() < 0.7 and case.condition != "empty" else "none"
    run(
        "mdadm", "--create", ARRAY, "--run", "--assume-clean", f"--level={case.level[4:]}", "--size=4M",
        f"--bitmap={bitmap}", *case.options, f"--raid-devices={len(case.members)}", *case.members,
    )  # fmt: skip
    length = case.size = size_of_array()
    for begin in range(0, length, PIECE):
        first = begin // PAGE
        put(ARRAY, begin, b"".join(pattern(case.seed, first + at) for at in range(min(PIECE, length - begin) // PAGE)))


def inject(case: Case, most: int = 3) -> None:
    """Puts entries into lists, and other bytes under them. The last 128 KiB of members stay as they are."""
    hot = [case.random.randrange(0, 8192 - 512) for _ in range(3)]
    holders = case.random.sample(case.members, case.random.randint(1, len(case.members)))
    for path in holders:
        node = NODE / f"dev-{path[5:]}"
        offset = int((node / "offset").read_text())
        for _ in range(case.random.randint(1, most)):
            same = case.random.random() < 0.4
            sector = case.random.choice(hot) if same else case.random.randrange(0, 8192 - 512)
            length = case.random.choice((1, 8, 8, 24, 130))
            try:
                (node / "bad_blocks").write_text(f"{offset + sector} {length}\n")
            except OSError:
                continue  # a part of it is listed already
            put(path, (offset + sector) * 512, b"\xee" * (length * 512))
            case.entries += 1
        if case.random.random() < 0.5:
            (node / "state").write_text("write_error")
    persist(case)


def persist(case: Case) -> None:
    """Has md write its superblocks, with the lists."""
    last = size_of_array() // PAGE - 1
    with contextlib.suppress(OSError):
        put(ARRAY, last * PAGE, pattern(case.seed, last))
    until = time.monotonic() + 5
    while value("array_state") != "clean" and time.monotonic() < until:
        with contextlib.suppress(OSError):
            (NODE / "array_state").write_text("clean")
        time.sleep(0.05)


def take_out(case: Case, *, remove: bool = True) -> None:
    path = case.random.choice([member for member in case.members if member not in case.removed])
    run("mdadm", ARRAY, "--fail", path)
    case.removed.append(path)
    if remove:
        retried(f"mdadm {ARRAY} --remove {path}")


def entries(case: Case) -> None:
    inject(case)


def degraded_with_entries(case: Case) -> None:
    if case.random.random() < 0.5:
        inject(case, 1)
        take_out(case)
    else:
        take_out(case, remove=case.random.random() < 0.5)
        present = [member for member in case.members if member not in case.removed]
        inject(replace(case, members=present), 2)


def empty_lists(case: Case) -> None:
    """All is well, and each member has a list."""


def full_range(case: Case) -> None:
    """One member only has entries, so that it can be rebuilt from the others."""
    chosen = [case.random.choice(case.members)]
    inject(replace(case, members=chosen))


def read_only(case: Case) -> None:
    run("mdadm", "--stop", ARRAY)
    Path("/sys/module/md_mod/parameters/start_ro").write_text("1")
    run("mdadm", "--assemble", ARRAY, *case.members)
    Path("/sys/module/md_mod/parameters/start_ro").write_text("0")


def suspended(_case: Case) -> None:
    (NODE / "suspend_lo").write_text("0")
    (NODE / "suspend_hi").write_text("1000000")


def repair_runs(case: Case) -> None:
    """A repair runs that has not come to the entries yet."""
    (NODE / "sync_max").write_text("2048")
    node = NODE / f"dev-{case.members[0][5:]}"
    sector = int((node / "offset").read_text()) + 6000
    (node / "bad_blocks").write_text(f"{sector} 8\n")
    put(case.members[0], sector * 512, b"\xee" * PAGE)
    persist(case)
    (NODE / "sync_action").write_text("repair")


def check_runs(_case: Case) -> None:
    (NODE / "sync_speed_max").write_text("1000")
    (NODE / "sync_action").write_text("check")


def inactive(case: Case) -> None:
    Path("/etc/mdadm/mdadm.conf").write_text(run("mdadm", "--detail", "--brief", ARRAY))
    run("mdadm", "--stop", ARRAY)
    run("mdadm", "--incremental", case.members[0], check=False)


def broken(case: Case) -> None:
    """More members fail than the array can do without, and work again: a cable, a controller."""
    failing = case.random.sample(range(len(case.members)), case.tolerated + 1)
    if case.level == "raid10":
        first = 2 * case.random.randrange(2)
        failing = [first, first + 1]
    sectors = int(Path(f"/sys/block/{case.mapped[0][5:]}/size").read_text())
    for at in failing:
        dm(f"m{at}", f"0 {sectors} error")
    for page in range(0, 64, 16):
        with contextlib.suppress(OSError):
            put(ARRAY, page * PAGE, pattern(case.seed, page))
    for at in failing:
        dm(f"m{at}", f"0 {sectors} linear {case.mapped[at]} 0")


def broken_in_repair(case: Case) -> None:
    """The last good member has an error while blklab has taken out another one."""
    unfinished(case)
    sectors = int(Path(f"/sys/block/{case.mapped[0][5:]}/size").read_text())
    at = next(at for at, path in enumerate(case.members) if path not in case.removed)
    dm(f"m{at}", f"0 {sectors} error")
    with contextlib.suppress(OSError):
        put(ARRAY, 0, pattern(case.seed, 0))
    dm(f"m{at}", f"0 {sectors} linear {case.mapped[at]} 0")


def unfinished(case: Case) -> None:
    """A repair ended after it had taken out a member."""
    task = make_plan(ARRAY, Roots()).task
    path = case.random.choice(case.members)
    slot = next(slot for slot in task.slots if slot.path == path)
    Path("/var/lib/blklab").mkdir(mode=0o700, exist_ok=True)
    journal.write_journal(replace(task, taken=slot.device), Roots())
    run("mdadm", ARRAY, "--fail", path)
    retried(f"mdadm {ARRAY} --remove {path}")
    case.removed.append(path)


def slot_taken(case: Case) -> None:
    """Another disk was rebuilt in the slot of the member that blklab had taken out."""
    unfinished(case)
    run("mdadm", ARRAY, "--add", case.spare_disks[0])
    if case.random.random() < 0.5:
        wait_idle()
    case.spare_disks = case.spare_disks[1:]


def slot_taken_with_entries(case: Case) -> None:
    """As before, and the other member has bad blocks, of which the member that is out has the only good copy."""
    unfinished(case)
    present = [member for member in case.members if member not in case.removed]
    inject(replace(case, members=present), 1)
    run("mdadm", ARRAY, "--add", case.spare_disks[0])
    wait_idle()
    case.spare_disks = case.spare_disks[1:]


def mounted(case: Case) -> None:
    """A mounted filesystem is on it, which does not know the stripes of the array."""
    run("mke2fs", "-q", "-t", "ext4", "-E", "stride=1,stripe-width=1", ARRAY)
    Path("/mnt/a").mkdir(exist_ok=True)
    run("mount", ARRAY, "/mnt/a")
    Path("/mnt/a/file").write_bytes(FILE)
    os.sync()
    if case.level == "raid1":
        inject(replace(case, members=case.members[:1]), 1)


def old_superblocks(case: Case) -> None:
    """A member has a second superblock, and the superblock of another one has a wrong checksum."""
    end = 32 * MIB - 64 * 1024
    old = case.spare_disks[:2]
    run("mdadm", "--create", "/dev/md1", "--run", "--assume-clean", "--level=1", "--metadata=1.0", "--raid-devices=2",
        *old)  # fmt: skip
    run("mdadm", "--stop", "/dev/md1")
    descriptor = os.open(old[0], os.O_RDONLY)
    content = os.pread(descriptor, 64 * 1024, end)
    os.close(descriptor)
    put(case.members[0], end, content)
    run("wipefs", "--all", "--force", *old)
    head = bytearray(pages(case.members[-1], 2 * PAGE)[1] or b"")
    head[40] ^= 0xFF
    put(case.members[-1], PAGE, bytes(head))


def unfinished_inactive(case: Case) -> None:
    """After a repair ended with a member out, the array was assembled and not started."""
    unfinished(case)
    run("mdadm", "--stop", ARRAY)
    run("mdadm", "--incremental", next(path for path in case.members if path not in case.removed), check=False)


def unfinished_stopped(case: Case) -> None:
    """After a repair ended with a member out, the array is not assembled."""
    unfinished(case)
    Path("/etc/mdadm/mdadm.conf").write_text(run("mdadm", "--detail", "--brief", ARRAY))
    run("mdadm", "--stop", ARRAY)


def any_level(_case: Case) -> bool:
    return True


CONDITIONS: dict[str, tuple[Callable[[Case], None], Callable[[Case], bool]]] = {
    "entries": (entries, any_level),
    "degraded": (degraded_with_entries, any_level),
    "one-list": (full_range, any_level),
    "empty": (empty_lists, any_level),
    "entries-2": (entries, any_level),
    "read-only": (read_only, any_level),
    "suspended": (suspended, any_level),
    "one-list-2": (full_range, any_level),
    "repair": (repair_runs, lambda case: case.level == "raid1"),
    "check": (check_runs, any_level),
    "inactive": (inactive, any_level),
    "broken": (broken, lambda case: case.level != "raid10" or "--layout=n2" in case.options),
    "degraded-2": (degraded_with_entries, any_level),
    "broken-repair": (broken_in_repair, lambda case: len(case.members) == 2),
    "unfinished": (unfinished, any_level),
    "slot": (slot_taken, any_level),
    "slot-entries": (slot_taken_with_entries, lambda case: case.level == "raid1" and len(case.members) == 2),
    "mounted": (mounted, any_level),
    "old-superblocks": (old_superblocks, lambda case: case.level == "raid1"),
    "unfinished-inactive": (unfinished_inactive, lambda case: case.level == "raid1" and len(case.members) == 3),
    "unfinished-stopped": (unfinished_stopped, lambda case: case.level == "raid1"),
}
MAPPED = {"broken", "broken-repair"}


def generate(seed: int, disks: list[str]) -> Case:
    chance = random.Random(seed)
    names = list(CONDITIONS)
    condition = names[seed % len(names)]
    possible = []
    for level, count, options in SHAPES:
        case = Case(seed, level, disks[:count], options, disks[count:], chance, condition)
        if CONDITIONS[condition][1](case):
            possible.append(case)
    case = chance.choice(possible)
    if condition in MAPPED:
        mapped(case)
    create(case)
    CONDITIONS[condition][0](case)
    return case


def clean(case: Case | None, disks: list[str]) -> None:
    run("umount", "/mnt/a", check=False)
    with contextlib.suppress(OSError):
        (NODE / "suspend_hi").write_text("0")
    run("mdadm", "--stop", ARRAY, check=False)
    for array in Path("/sys/block").glob("md*"):
        run("mdadm", "--stop", f"/dev/{array.name}", check=False)
    for at in range(len(case.mapped) if case else 0):
        run("dmsetup", "remove", f"m{at}", check=False)
    for disk in disks:
        run("wipefs", "--all", "--force", disk, check=False)
        put(disk, 0, bytes(MIB))
    for path in (*Path("/var/lib/blklab").glob("md-fix-*"), *Path("/etc").glob("mdadm*/mdadm.conf")):
        path.unlink()
    Path("/etc/mdadm.conf").unlink(missing_ok=True)
