"""Arrays: level, layout, metadata, bitmap, lists, missing members, and a condition that blklab has an answer for.

Under each entry of a list the member has other bytes, as a disk that did not store a write. All that is ever written to
an array is `pattern`, so that what each slot must hold is known (`Case.image`), and what the disks together still hold.
"""

import contextlib
import mmap
import os
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from blklab.md.repair import journal
from blklab.md.repair.plan import make_plan
from blklab.md.superblocks import read_superblocks
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
METADATA = ("1.2", "0.90", "1.0", "1.1")
TOLERATED = {"raid5": 1, "raid6": 2, "raid10": 1}
PARITY = {"raid5": 1, "raid6": 2}
SECTORS = 8192  # Of each member, in the array
CONFIG = Path("/etc/mdadm/mdadm.conf")


@dataclass
class Case:
    seed: int
    level: str
    members: list[str]  # Paths
    options: list[str]
    spare_disks: list[str]  # Empty disks
    random: random.Random
    condition: str = "plain"
    metadata: str = "1.2"
    accident: str = "none"
    lists: bool = True
    removed: list[str] = field(default_factory=list)
    mapped: list[str] = field(default_factory=list)  # Disks below the dm devices that are the members
    latent: bool = False  # A member cannot read sectors, and md does not know it
    unplugged: list[int] = field(default_factory=list)  # Members whose cable is loose, by their number
    foreign: list[str] = field(default_factory=list)  # Disks of another array, which is stopped
    size: int = 0  # Bytes of the array
    entries: int = 0
    uuid: str = ""
    all_disks: list[str] = field(default_factory=list)  # Members, empty disks, and those of the other array
    image: list[list[bytes]] = field(default_factory=list)  # Pages that each slot must hold
    offsets: set[int] = field(default_factory=set)  # At which members have their data; bytes
    kept: list[tuple[str, int, bytes]] = field(default_factory=list)  # Disks, and what must stay on them
    problems: list[str] = field(default_factory=list)
    before: list[bytes | None] = field(default_factory=list)  # Pages that must be there afterwards
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


def pages(path: str, length: int, first: int = 0) -> list[bytes | None]:
    """Returns each page of a device from a byte on, read from the disks; None if it cannot be read."""
    buffer = mmap.mmap(-1, PIECE)
    result: list[bytes | None] = []
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for begin in range(first, first + length, PIECE):
            size = min(PIECE, first + length - begin)
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
    Path("/run/table").write_text(table + "\n")
    run("dmsetup", "suspend", "--noflush", "--nolockfs", name)
    run("dmsetup", "load", name, "/run/table")
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
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text("" if case.lists else "CREATE bbl=no\n")
    run(
        "mdadm", "--create", ARRAY, "--run", "--assume-clean", f"--level={case.level[4:]}", "--size=4M",
        f"--metadata={case.metadata}", f"--bitmap={bitmap}", *case.options, f"--raid-devices={len(case.members)}",
        *case.members,
    )  # fmt: skip
    length = case.size = size_of_array()
    for begin in range(0, length, PIECE):
        first = begin // PAGE
        put(ARRAY, begin, b"".join(pattern(case.seed, first + at) for at in range(min(PIECE, length - begin) // PAGE)))
    case.all_disks = [*case.members, *case.spare_disks, *case.foreign]
    case.uuid = read_superblocks(Path(case.members[0])).members[0].uuid
    case.image = [[page or b"" for page in pages_of_slot(path)] for path in case.members]


def begin_of_data(path: str) -> int:
    return int((NODE / f"dev-{path[5:]}" / "offset").read_text()) * 512


def pages_of_slot(path: str) -> list[bytes | None]:
    return pages(path, SECTORS * 512, begin_of_data(path))


def create_foreign(case: Case) -> None:
    """Makes another array on other disks, fills it, and stops it: nothing may change its data."""
    run("mdadm", "--create", "/dev/md1", "--run", "--assume-clean", "--level=1", "--size=1M", "--bitmap=none",
        "--raid-devices=2", *case.foreign)  # fmt: skip
    for begin in range(0, MIB, PIECE):
        put("/dev/md1", begin, b"".join(pattern(-1 - case.seed, begin // PAGE + at) for at in range(PIECE // PAGE)))
    offset = int(Path(f"/sys/block/md1/md/dev-{case.foreign[0][5:]}/offset").read_text()) * 512
    run("mdadm", "--stop", "/dev/md1")
    for path in case.foreign:
        case.kept.append((path, offset, b"".join(page or b"" for page in pages(path, MIB, offset))))


def read_copies(case: Case, path: str) -> Iterator[list[bytes | None]]:
    """Yields the pages that a disk has of a slot, for each place where its data may begin."""
    listed, states = value(f"dev-{path[5:]}/bad_blocks"), value(f"dev-{path[5:]}/state")
    if "spare" in states or case.uuid not in [found.uuid for found in read_superblocks(Path(path)).members]:
        return
    for offset in case.offsets:
        try:
            found = pages(path, SECTORS * 512, offset)
        except OSError:
            continue  # the disk is gone, or too small for this offset
        for line in listed.splitlines():
            sector, count = (int(word) for word in line.split())
            first = max(0, (sector - offset // 512) // 8)
            for row in range(first, min(len(found), -(-(sector - offset // 512 + count) // 8))):
                found[row] = None
        yield found


def find_held(case: Case) -> list[bool]:
    """Returns which pages of the array can still be had from all disks together, also from those that are out.

    A disk has nothing where its list has entries, or if it has no superblock of the array any more.
    """
    with contextlib.suppress(OSError):
        case.offsets.update(int((node / "offset").read_text()) * 512 for node in NODE.glob("dev-*"))
    held = [[False] * len(pages_of) for pages_of in case.image]
    for path in case.all_disks:
        for found in read_copies(case, path):
            for slot, image in enumerate(case.image):
                if found == image:
                    held[slot] = [True] * len(image)
                else:
                    held[slot] = [has or one == other for has, one, other in zip(held[slot], found, image, strict=True)]
    count = case.size // PAGE
    if case.level in PARITY:
        chunk, data = 16, len(case.members) - PARITY[case.level]
        rows = [sum(not of_slot[row] for of_slot in held) <= PARITY[case.level] for row in range(SECTORS // 8)]
        return [rows[page // chunk // data * chunk + page % chunk] for page in range(count)]
    places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for slot, image in enumerate(case.image):
        for row, content in enumerate(image):
            places[content].append((slot, row))
    return [any(held[slot][row] for slot, row in places[pattern(case.seed, page)]) for page in range(count)]


def inject(case: Case, most: int = 3) -> None:
    """Puts entries into lists, and other bytes under them. The last 128 KiB of members stay as they are."""
    hot = [case.random.randrange(0, SECTORS - 512) for _ in range(3)]
    holders = case.random.sample(case.members, case.random.randint(1, len(case.members)))
    for path in holders:
        node = NODE / f"dev-{path[5:]}"
        offset = int((node / "offset").read_text())
        for _ in range(case.random.randint(1, most)):
            same = case.random.random() < 0.4
            sector = case.random.choice(hot) if same else case.random.randrange(0, SECTORS - 512)
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
    listed_in_config()
    run("mdadm", "--stop", ARRAY)
    run("mdadm", "--incremental", case.members[0], check=False)


def listed_in_config() -> None:
    with CONFIG.open("a") as file:
        file.write(run("mdadm", "--detail", "--brief", ARRAY))


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
    listed_in_config()
    run("mdadm", "--stop", ARRAY)


def hide_error(case: Case, at: int, sector: int) -> None:
    """Makes sectors of a member unreadable, which md does not know yet."""
    disk = case.mapped[at]
    size = int(Path(f"/sys/block/{disk[5:]}/size").read_text())
    inside = (NODE / f"dev-{case.members[at][5:]}").exists()  # not if it is out, or the array is stopped
    sector += (begin_of_data(case.members[at]) if inside else max(case.offsets)) // 512
    after = sector + 16
    table = [f"0 {sector} linear {disk} 0", f"{sector} 16 error", f"{after} {size - after} linear {disk} {after}"]
    dm(f"m{at}", "\n".join(table))
    case.latent = True


def some_sector(case: Case) -> int:
    return case.random.randrange(1024, SECTORS - 1024, 8)


def latent(case: Case) -> None:
    """A member has sectors that it cannot read, and md does not know it."""
    hide_error(case, case.random.randrange(len(case.members)), some_sector(case))


def latent_with_entries(case: Case) -> None:
    """Other members have entries: blklab offers to rebuild or to replace them."""
    at = case.random.randrange(len(case.members))
    others = [path for path in case.members if path != case.members[at]]
    inject(replace(case, members=[case.random.choice(others)]), 2)
    hide_error(case, at, some_sector(case))


def out_and_latent(case: Case) -> None:
    """What one member cannot read, only a member holds that is out."""
    take_out(case, remove=case.random.random() < 0.7)
    present = [at for at, path in enumerate(case.members) if path not in case.removed]
    hide_error(case, case.random.choice(present), some_sector(case))


def out_and_latent_without_lists(case: Case) -> None:
    out_and_latent(case)


def broken_by_read(case: Case) -> None:
    """A member was failed, and then another one has a read error: too many are out, though all have data."""
    for _ in range(case.tolerated):
        take_out(case, remove=case.random.random() < 0.3)
    present = [at for at, path in enumerate(case.members) if path not in case.removed]
    hide_error(case, case.random.choice(present), some_sector(case))
    content()
    until = time.monotonic() + 10
    while value("array_state") != "broken" and time.monotonic() < until:
        time.sleep(0.1)


def halves(case: Case) -> None:
    """Both halves of a mirror were written to apart; the one that is out has more events and a newer page."""
    one, other = case.members
    last = case.size // PAGE - 1
    for path, writes in (one, 2), (other, 6):
        run("mdadm", "--stop", ARRAY)
        run("mdadm", "--assemble", "--run", "--force", ARRAY, path)
        for _ in range(writes):
            put(ARRAY, last * PAGE, pattern(case.seed, last))
            persist(case)
    put(ARRAY, 300 * PAGE, pattern(-case.seed - 7, 300))
    case.kept.append((other, begin_of_data(other) + 300 * PAGE, pattern(-case.seed - 7, 300)))
    persist(case)
    run("mdadm", "--stop", ARRAY)
    run("mdadm", "--assemble", "--run", "--force", ARRAY, one)
    case.removed.append(other)


def not_assembled(case: Case) -> None:
    """It is in mdadm.conf, and is not assembled; a member may have been taken out before."""
    listed_in_config()
    if case.random.random() < 0.5:
        take_out(case)
    run("mdadm", "--stop", ARRAY)


def inactive_with_too_few(case: Case) -> None:
    """The cables of more members are loose than the array can do without."""
    listed_in_config()
    run("mdadm", "--stop", ARRAY)
    count = len(case.members) if case.level == "raid1" else case.tolerated + 2
    case.unplugged = case.random.sample(range(len(case.members)), min(count, len(case.members)) - 1)
    if case.level == "raid10":
        case.unplugged = [0, 1, *([2] if len(case.members) == 4 else [])]
    for at in case.unplugged:
        dm(f"m{at}", f"0 {int(Path(f'/sys/block/{case.mapped[0][5:]}/size').read_text())} error")
    for at, path in enumerate(case.members):
        if at not in case.unplugged:
            run("mdadm", "--incremental", path, check=False)


def plug_in(case: Case) -> None:
    """Cables are plugged in again."""
    for at in case.unplugged:
        disk = case.mapped[at]
        dm(f"m{at}", f"0 {int(Path(f'/sys/block/{disk[5:]}/size').read_text())} linear {disk} 0")
    case.unplugged = []


def any_level(_case: Case) -> bool:
    return True


def has_lists(case: Case) -> bool:
    return case.metadata != "0.90"


def has_parity(case: Case) -> bool:
    return case.level in PARITY


CONDITIONS: dict[str, tuple[Callable[[Case], None], Callable[[Case], bool]]] = {
    "entries": (entries, has_lists),
    "degraded": (degraded_with_entries, any_level),
    "one-list": (full_range, has_lists),
    "empty": (empty_lists, any_level),
    "read-only": (read_only, any_level),
    "suspended": (suspended, any_level),
    "repair": (repair_runs, lambda case: case.level == "raid1" and has_lists(case)),
    "check": (check_runs, any_level),
    "inactive": (inactive, any_level),
    "broken": (broken, lambda case: case.level != "raid10" or "--layout=n2" in case.options),
    "broken-repair": (broken_in_repair, lambda case: len(case.members) == 2 and has_lists(case)),
    "unfinished": (unfinished, has_lists),
    "slot": (slot_taken, has_lists),
    "slot-entries": (
        slot_taken_with_entries, lambda case: case.level == "raid1" and len(case.members) == 2 and has_lists(case)
    ),
    "mounted": (mounted, any_level),
    "old-superblocks": (old_superblocks, lambda case: case.level == "raid1" and case.metadata == "1.2"),
    "unfinished-inactive": (
        unfinished_inactive, lambda case: case.level == "raid1" and len(case.members) == 3 and has_lists(case)
    ),
    "unfinished-stopped": (unfinished_stopped, lambda case: case.level == "raid1" and has_lists(case)),
    "latent": (latent, any_level),
    "latent-entries": (latent_with_entries, has_lists),
    "out-latent": (out_and_latent, has_lists),
    "out-latent-no-lists": (out_and_latent_without_lists, any_level),
    "broken-read": (broken_by_read, has_parity),
    "halves": (halves, lambda case: case.level == "raid1" and len(case.members) == 2),
    "not-assembled": (not_assembled, any_level),
    "too-few": (inactive_with_too_few, any_level),
}  # fmt: skip
"""Each with what makes it, and whether it is possible."""

MAPPED = {"broken", "broken-repair", "latent", "latent-entries", "out-latent", "out-latent-no-lists", "broken-read",
          "too-few"}  # fmt: skip
WITHOUT_LISTS = {"out-latent-no-lists", "broken-read"}
HIDDEN = {"latent", "latent-entries", "out-latent", "out-latent-no-lists", "broken-read", "too-few"}
"""Conditions that a read of the array would change, or in which it gives nothing: the disks say what there was."""

ACCIDENTS = ("none", "latent", "fails", "renamed", "twice", "reverse", "late")
"""What happens between the lines that are typed (inside.recipes)."""


@dataclass(frozen=True)
class Choice:
    """What a case is made of."""

    shape: int  # In SHAPES
    metadata: str
    condition: str
    accident: str

    @property
    def pairs(self) -> set[tuple[object, object]]:
        parts = [("shape", self.shape), ("metadata", self.metadata), ("is", self.condition), ("by", self.accident)]
        return {(one, other) for at, one in enumerate(parts) for other in parts[at + 1 :]}


def choose(count: int) -> list[Choice]:
    """Returns the choices of the first seeds: each brings the most pairs of values that were not there before.

    The choice of a seed does not depend on how many there are.
    """
    seen: set[tuple[object, object]] = set()
    result: list[Choice] = []
    for seed in range(count):
        chance = random.Random(seed)
        candidates: list[Choice] = []
        while len(candidates) < 16:
            shape, metadata = chance.randrange(len(SHAPES)), chance.choice(METADATA)
            level, members, options = SHAPES[shape]
            names = list(CONDITIONS)
            # Each condition comes once before any comes again.
            condition = names[seed % len(names)]
            case = Case(seed, level, [""] * members, options, [], chance, condition, metadata)
            if CONDITIONS[condition][1](case):
                accident = chance.choice(ACCIDENTS)
                if condition == "mounted" and accident in {"latent", "fails"}:
                    continue
                candidates.append(Choice(shape, metadata, condition, accident))
        best = max(candidates, key=lambda choice: len(choice.pairs - seen))
        seen |= best.pairs
        result.append(best)
    return result


def generate(seed: int, disks: list[str], choice: Choice | None = None) -> Case:
    """Makes the array of a choice; without one, an array with entries."""
    chance = random.Random(seed)
    choice = choice or Choice(chance.randrange(len(SHAPES)), "1.2", "entries", "none")
    level, count, options = SHAPES[choice.shape]
    with_foreign = len(disks) >= count + 3
    spare_disks, foreign = (disks[count:-2], disks[-2:]) if with_foreign else (disks[count:], [])
    case = Case(
        seed, level, disks[:count], options, spare_disks, chance, choice.condition, choice.metadata, choice.accident,
        choice.condition not in WITHOUT_LISTS and choice.metadata != "0.90", foreign=foreign,
    )  # fmt: skip
    if foreign:
        create_foreign(case)
    if case.condition in MAPPED or case.accident == "latent":
        mapped(case)
    create(case)
    with contextlib.suppress(OSError):
        case.offsets.update(begin_of_data(path) for path in case.members)
    CONDITIONS[case.condition][0](case)
    return case


def clean(case: Case | None, disks: list[str]) -> None:
    run("umount", "/mnt/a", check=False)
    with contextlib.suppress(OSError):
        (NODE / "suspend_hi").write_text("0")
    run("mdadm", "--stop", ARRAY, check=False)
    for array in Path("/sys/block").glob("md*"):
        run("mdadm", "--stop", f"/dev/{array.name}", check=False)
    for at in range(len(case.mapped) if case else 8):
        run("dmsetup", "remove", f"m{at}", check=False)
    for disk in disks:
        run("wipefs", "--all", "--force", disk, check=False)
        put(disk, 0, bytes(MIB))
    for path in (*Path("/var/lib/blklab").glob("md-fix-*"), *Path("/etc").glob("mdadm*/mdadm.conf")):
        path.unlink()
    Path("/etc/mdadm.conf").unlink(missing_ok=True)
