"""Breaks arrays by real accidents, follows what `blklab md rescue` prints, and compares all files and disks.

    accidents NAME… -- STORE DISK…     prints one JSON document: for each accident what happened, and the problems

Each disk is below a device of device-mapper, whose cable can be pulled (`drop`) and whose name changes (`rename`). On
the array is an ext4 filesystem with files that were written before the accident: they must all come back. No member may
change before the last step, `md fix assemble`. STORE is the disk for overlays and saved metadata.
"""

import contextlib
import gzip
import hashlib
import io
import json
import mmap
import os
import signal
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blklab.cli import main

ARRAY, NAME = "/dev/md0", "md0"
FILES, STORE = Path("/mnt/files"), Path("/mnt/store")
PIECE = 1 << 20
SAVED, REFUSED = "saved", "refused"


@dataclass
class Case:
    """An array and what happens to it."""

    disks: list[str]  # Paths of the disks below device-mapper
    store: str
    mapped: dict[int, str] = field(default_factory=dict)  # Paths of the devices above, by the number of the disk
    order: list[int] = field(default_factory=list)  # Numbers of the members
    expected_files: dict[str, str] = field(default_factory=dict)  # Names and SHA-256
    uuid: str = ""
    chosen: list[int] = field(default_factory=list)  # Disks that the user names, because blklab cannot choose
    is_created_again: bool = False  # The superblocks are not those of the old array
    problems: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def members(self) -> list[str]:
        return [self.mapped[number] for number in self.order]


def run(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=120
    )
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def blklab(case: Case, *words: str) -> tuple[int, str]:
    """Runs blklab in this process, because its start takes seconds here. Returns its exit status and stdout."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as end:
            status = int(end.code or 0)
    case.log.append(f"$ blklab {' '.join(words)}\n{out.getvalue()[-3000:]}{err.getvalue()[-3000:]}[{status}]")
    return status, out.getvalue()


# Disks and cables


def sectors(disk: str) -> int:
    return int(run("blockdev", "--getsz", disk))


def map_disks(case: Case, numbers: list[int]) -> None:
    """Makes a device above each disk, in this order."""
    for number in numbers:
        disk = case.disks[number]
        run("dmsetup", "create", f"cable{number}", "--uuid", f"CABLE-{number}", "--noudevsync",
            "--table", f"0 {sectors(disk)} linear {disk} 0")  # fmt: skip
        name = run("dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname", f"cable{number}").strip()
        case.mapped[number] = f"/dev/{name}"


def unmap_disks(case: Case) -> None:
    for number in case.mapped:
        run("dmsetup", "remove", "--retry", f"cable{number}", check=False)
    case.mapped = {}


def rename(case: Case) -> None:
    """Connects all disks to other ports: their names change."""
    numbers = sorted(case.mapped, reverse=True)
    unmap_disks(case)
    map_disks(case, numbers)


def set_tables(case: Case, numbers: list[int], target: str) -> None:
    """Pulls cables (`error`), or connects them again (`linear`); all of them at about the same time."""
    for number in numbers:
        table = f"0 {sectors(case.disks[number])} error"
        if target == "linear":
            table = f"0 {sectors(case.disks[number])} linear {case.disks[number]} 0"
        Path("/run/table").write_text(table + "\n")
        run("dmsetup", "load", f"cable{number}", "/run/table")
    for number in numbers:
        run("dmsetup", "suspend", "--noflush", "--nolockfs", f"cable{number}")
    for number in numbers:
        run("dmsetup", "resume", f"cable{number}")


def drop(case: Case, *numbers: int) -> None:
    set_tables(case, list(numbers), "error")


def plug_in(case: Case, *numbers: int) -> None:
    set_tables(case, list(numbers), "linear")


# Arrays and files


def create(case: Case, level: str, count: int, *options: str) -> None:
    """Makes an array in sync, with files on it, that are on the disks."""
    if not case.mapped:
        map_disks(case, list(range(len(case.disks))))
    case.order = list(range(count))
    run("mdadm", "--create", ARRAY, "--run", "--assume-clean", f"--level={level}", f"--raid-devices={count}",
        *options, *case.members)  # fmt: skip
    run("mkfs.ext4", "-q", "-F", ARRAY)
    run("mount", ARRAY, str(FILES))
    for number in range(24):
        content = os.urandom(200_000)
        name, packed = f"file{number}", content
        if number % 2:
            name, packed = f"file{number}.gz", gzip.compress(content, 1)
        (FILES / name).write_bytes(packed)
        case.expected_files[name] = hashlib.sha256(packed).hexdigest()
    os.sync()
    run("umount", str(FILES))
    detail = run("mdadm", "--detail", "--export", ARRAY)
    case.uuid = next(line[8:] for line in detail.splitlines() if line.startswith("MD_UUID="))
    wait_idle()


def value(name: str) -> str:
    try:
        return Path("/sys/block/md0/md", name).read_text().strip()
    except OSError:
        return ""


def wait_idle() -> None:
    until = time.monotonic() + 60
    while value("sync_action") not in {"idle", "frozen", ""} and time.monotonic() < until:
        time.sleep(0.05)


def write_more(name: str, count: int = 8) -> None:
    """Writes files that may be lost: they are no part of what must come back."""
    for number in range(count):
        try:
            with (FILES / f"{name}{number}").open("wb") as file:
                file.write(os.urandom(100_000))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return


def mount() -> None:
    run("mount", ARRAY, str(FILES))


def lose_power(case: Case) -> None:
    """The power fails while files are written: each disk is as it was at this instant.

    The instant is copied while the disks stand still. The array is stopped after that, and the copies are written back.
    """
    writer = os.fork()
    if not writer:
        write_more("late", 200)
        os._exit(0)
    time.sleep(1.0)
    for number in case.order:
        run("dmsetup", "suspend", "--noflush", "--nolockfs", f"cable{number}")
    images = {number: read_past_cache(case.disks[number]) for number in case.order}
    for number in case.order:
        run("dmsetup", "resume", f"cable{number}")
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    stop()
    for number, image in images.items():
        overwrite(case.disks[number], 0, image)
        run("blockdev", "--flushbufs", case.mapped[number])


def read_past_cache(disk: str) -> bytes:
    """Returns the content of a disk, from the disk itself."""
    buffer = mmap.mmap(-1, PIECE)
    pieces = []
    descriptor = os.open(disk, os.O_RDONLY | os.O_DIRECT)
    try:
        while length := os.readv(descriptor, [buffer]):
            pieces.append(buffer[:length])
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def stop() -> None:
    """Takes the array away, as a restart does; what cannot be written any more is lost."""
    run("umount", "--lazy", str(FILES), check=False)
    for _ in range(100):
        run("mdadm", "--stop", ARRAY, check=False)
        if not Path("/sys/block/md0/md/array_state").exists() or value("array_state") in {"clear", ""}:
            return
        time.sleep(0.1)
    raise RuntimeError(f"cannot stop the array: {run('mdadm', '--stop', ARRAY, check=False)}")


def fail(case: Case, *numbers: int) -> None:
    """Pulls cables of members, so that md fails them when it writes."""
    drop(case, *numbers)
    write_more("noticed", 2)
    os.sync()


def overwrite(path: str, offset: int, content: bytes) -> None:
    """Writes bytes to a disk, past everything."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, content, offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_disks(case: Case) -> list[list[int]]:
    """Returns the CRC-32 of each MiB of each disk, read from the disk: SHA-256 takes minutes here."""
    checksums = []
    for disk in case.disks:
        descriptor = os.open(disk, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            pieces = []
            while piece := os.read(descriptor, PIECE):
                pieces.append(zlib.crc32(piece))
        finally:
            os.close(descriptor)
        checksums.append(pieces)
    return checksums


def find_wrong_files(case: Case, directory: Path) -> list[str]:
    """Returns the files that are not as they were written."""
    wrong = []
    for name, expected in case.expected_files.items():
        try:
            found = hashlib.sha256((directory / name).read_bytes()).hexdigest()
        except OSError as error:
            wrong.append(f"{name}: {error.strerror}")
            continue
        if found != expected:
            wrong.append(f"{name}: other content")
    return wrong


# What a user types


def search(case: Case) -> str:
    """Searches for the geometry before a wrong --create, and puts the superblocks that it finds on the disks."""
    before = read_disks(case)
    status, _ = blklab(case, "md", "overlays", "search", str(STORE / "old"), "--yes", *case.members)
    is_right = (STORE / "old/files").is_dir() and not find_wrong_files(case, STORE / "old/files")
    blklab(case, "md", "overlays", "stop", str(STORE / "old"))
    if read_disks(case) != before:
        case.problems.append("a disk changed while the old geometry was searched")
    if status or not is_right:
        return f"search {status} {'right' if is_right else 'wrong'}"
    status, _ = blklab(case, "md", "fix", "metadata", str(STORE / "old/found"), "--yes")
    if status:
        return "the superblocks that were found are not put on the disks"
    case.uuid = read_uuid(case.members[0])
    return follow(case)


def follow(case: Case) -> str:
    """Does what is printed, and returns how it ended: `saved` or `refused`, and the condition before it."""
    if case.is_created_again:
        case.is_created_again = False
        return search(case)
    before = read_disks(case)
    _, printed = blklab(case, "md", "rescue", case.uuid, "--json")
    (array,) = [array for array in json.loads(printed)["arrays"] if array["array"]["uuid"] == case.uuid][:1]
    condition = array["condition"]
    options: list[str] = []
    is_right = False
    named = [word for member in case.chosen for word in ("--member", case.mapped[member])]
    status, _ = blklab(case, "md", "overlays", "start", case.uuid, str(STORE / "try"), "--yes", *named)
    if (STORE / "try/files").is_dir():
        is_right = not find_wrong_files(case, STORE / "try/files")
        options = ["--overlays", str(STORE / "try")]
        if condition not in {"behind", "unclean"} or status:
            options += ["--files-are-right"] if is_right else []
    if read_disks(case) != before:
        case.problems.append("a disk changed while the overlays were used")
    if (STORE / "try").exists():
        blklab(case, "md", "overlays", "stop", str(STORE / "try"))
        status, _ = blklab(case, "md", "overlays", "stop", str(STORE / "try"))
        if status:
            case.problems.append("a second stop of the overlays fails")
    if read_disks(case) != before:
        case.problems.append("a disk changed when the overlays were removed")
    status, _ = blklab(case, "md", "fix", "assemble", case.uuid, "--yes", *options)
    if status:
        if read_disks(case) != before:
            case.problems.append("a disk changed although the assembly was refused")
        return f"{condition} {REFUSED}{', right on overlays' if is_right else ''}"
    (node,) = [node for node in Path("/sys/block").glob("md*") if (node / "md").is_dir()]
    try:
        run("mount", f"/dev/{node.name}", str(FILES))
    except RuntimeError:
        run("mount", "-o", "ro,noload", f"/dev/{node.name}", str(FILES))
        case.log.append("the journal of the filesystem cannot be replayed")
    wrong = find_wrong_files(case, FILES)
    run("umount", str(FILES))
    return f"{condition} {'lost ' + str(wrong[:3]) if wrong else SAVED}"


# The accidents


def power_cut_in_a_write(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    mount()
    lose_power(case)


def power_cut_of_a_mirror(case: Case) -> None:
    create(case, "1", 2)
    mount()
    lose_power(case)


def power_cut_of_a_degraded_raid5(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    run("mdadm", ARRAY, "--fail", case.members[1])
    run("mdadm", ARRAY, "--remove", case.members[1])
    mount()
    lose_power(case)


def one_member_left_before(case: Case) -> None:
    create(case, "6", 5, "--chunk=64")
    mount()
    fail(case, 3)
    write_more("after")
    stop()
    plug_in(case, 3)


def two_cables_of_a_raid5(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    mount()
    fail(case, 1, 2)
    stop()
    plug_in(case, 1, 2)


def a_controller_drops_four_of_eight(case: Case) -> None:
    create(case, "6", 8, "--chunk=64")
    mount()
    fail(case, 4, 5, 6, 7)
    stop()
    plug_in(case, 4, 5, 6, 7)
    rename(case)


def one_after_the_other(case: Case) -> None:
    create(case, "5", 4, "--chunk=64", "--bitmap=internal")
    mount()
    fail(case, 0)
    write_more("between", 40)
    fail(case, 2)
    stop()
    plug_in(case, 0, 2)


def swapped_disks(case: Case) -> None:
    create(case, "10", 4, "--chunk=64", "--layout=n2")
    stop()
    rename(case)


def a_zeroed_superblock(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    stop()
    run("mdadm", "--zero-superblock", case.members[2])


def a_wiped_start(case: Case) -> None:
    create(case, "6", 4, "--chunk=64")
    stop()
    overwrite(case.members[0], 0, bytes(1 << 16))


def two_halves_of_a_mirror(case: Case) -> None:
    create(case, "1", 2, "--bitmap=internal")
    mount()
    fail(case, 1)
    write_more("first", 20)
    stop()
    drop(case, 0)
    plug_in(case, 1)
    run("mdadm", "--assemble", "--run", ARRAY, case.members[1])
    mount()
    write_more("second", 4)
    stop()
    plug_in(case, 0)


def power_cut_in_a_rebuild(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    fail_and_replace(case, 1, 5)
    lose_power(case)


def fail_and_replace(case: Case, old: int, new: int) -> None:
    """Has a member rebuilt on another disk, slowly."""
    run("mdadm", ARRAY, "--fail", case.mapped[old])
    run("mdadm", ARRAY, "--remove", case.mapped[old])
    Path("/sys/block/md0/md/sync_speed_max").write_text("1000\n")
    Path("/sys/block/md0/md/sync_speed_min").write_text("1000\n")
    run("mdadm", ARRAY, "--add", case.mapped[new])
    case.order[case.order.index(old)] = new
    mount()
    time.sleep(1)


def power_cut_in_a_rebuild_and_another_cable(case: Case) -> None:
    """A member fails while another one is rebuilt: the rebuilt one is no source, the failed one is."""
    create(case, "5", 4, "--chunk=64")
    fail_and_replace(case, 1, 5)
    fail(case, 2)
    stop()
    plug_in(case, 2)


def power_cut_in_a_reshape(case: Case) -> None:
    create(case, "5", 3, "--chunk=64", "--data-offset=4M")
    run("mdadm", ARRAY, "--add", case.mapped[3])
    Path("/sys/block/md0/md/sync_speed_max").write_text("1000\n")
    Path("/sys/block/md0/md/sync_speed_min").write_text("1000\n")
    run("mdadm", "--grow", ARRAY, "--raid-devices=4")
    case.order.append(3)
    mount()
    time.sleep(3)
    lose_power(case)


def all_cables_of_a_stripe(case: Case) -> None:
    create(case, "0", 3, "--chunk=64")
    mount()
    lose_power(case)
    rename(case)


def three_of_six_with_old_metadata(case: Case) -> None:
    create(case, "6", 6, "--chunk=64", "--metadata=0.90")
    mount()
    fail(case, 1, 3, 5)
    stop()
    plug_in(case, 1, 3, 5)


def three_of_six_with_metadata_at_the_end(case: Case) -> None:
    create(case, "6", 6, "--chunk=64", "--metadata=1.0", "--bitmap=internal")
    mount()
    fail(case, 0, 1, 2)
    stop()
    plug_in(case, 0, 1, 2)
    rename(case)


def two_zeroed_superblocks(case: Case) -> None:
    """The metadata were saved before."""
    create(case, "5", 4, "--chunk=64")
    stop()
    save_metadata(case)
    run("mdadm", "--zero-superblock", case.members[1], case.members[2])
    restore_metadata(case)


def save_metadata(case: Case) -> None:
    status, _ = blklab(case, "md", "rescue", case.uuid, "--save-metadata", str(STORE / "saved"))
    if status not in {0, 1}:
        raise RuntimeError("the metadata were not saved")


def restore_metadata(case: Case) -> None:
    status, _ = blklab(case, "md", "fix", "metadata", str(STORE / "saved"), "--yes")
    if status:
        case.problems.append("the saved metadata were not put back")


def created_again_in_another_order(case: Case) -> None:
    """A wrong --create, and the metadata were saved before."""
    create(case, "5", 4, "--chunk=64")
    stop()
    save_metadata(case)
    create_again(case, [2, 0, 1, 3], "--chunk=64")
    restore_metadata(case)


def created_again_with_another_chunk(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    stop()
    save_metadata(case)
    create_again(case, [0, 1, 2, 3], "--chunk=512", "--metadata=1.0")
    restore_metadata(case)


def create_again(case: Case, order: list[int], *options: str) -> None:
    """What answers on the web advise: --create over the array."""
    run("mdadm", "--create", ARRAY, "--run", "--assume-clean", "--level=5", f"--raid-devices={len(order)}", *options,
        *[case.mapped[number] for number in order])  # fmt: skip
    stop()


def created_again_and_not_saved(case: Case) -> None:
    """Nothing was saved: blklab must not start it."""
    create(case, "5", 4, "--chunk=64")
    time.sleep(2)
    stop()
    create_again(case, [0, 1, 2, 3], "--chunk=64")
    case.uuid = read_uuid(case.members[0])
    case.is_created_again = True


def created_again_in_wrong_order_and_not_saved(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    stop()
    create_again(case, [3, 1, 0, 2], "--chunk=64")
    case.uuid = read_uuid(case.members[0])
    case.is_created_again = True


def read_uuid(member: str) -> str:
    printed = run("mdadm", "--examine", "--export", member)
    return next(line[8:] for line in printed.splitlines() if line.startswith("MD_UUID="))


def created_again_with_another_offset_and_not_saved(case: Case) -> None:
    create(case, "5", 4, "--chunk=64", "--data-offset=2M")
    stop()
    create_again(case, [0, 1, 2, 3], "--chunk=256", "--metadata=1.0")
    case.uuid = read_uuid(case.members[0])
    case.is_created_again = True


def too_little_space_for_overlays(case: Case) -> None:
    """The array is behind, and the disk for the overlays is nearly full: nothing begins."""
    two_cables_of_a_raid5(case)
    with (STORE / "full").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 400 << 20)


def a_list_on_the_wrong_member(case: Case) -> None:
    """md listed sectors of the member that has them, and of the other one it did not."""
    create(case, "1", 2)
    node = Path(f"/sys/block/md0/md/dev-{Path(case.members[0]).name}")
    offset = int((node / "offset").read_text())
    for sector in range(offset + 8192, offset + 12_288, 64):
        (node / "bad_blocks").write_text(f"{sector} 8\n")
    stop()


def one_half_of_a_mirror_is_chosen(case: Case) -> None:
    two_halves_of_a_mirror(case)
    case.chosen = [0]


def a_journal_is_missing(case: Case) -> None:
    map_disks(case, list(range(len(case.disks))))
    create(case, "5", 3, "--chunk=64", f"--write-journal={case.mapped[6]}")
    mount()
    write_more("noticed")
    run("umount", str(FILES))
    stop()
    overwrite(case.disks[6], 0, bytes(1 << 20))


def a_copied_member(case: Case) -> None:
    """Someone copied a member to another disk, and both are connected."""
    create(case, "5", 4, "--chunk=64")
    stop()
    content = Path(case.disks[1]).read_bytes()
    overwrite(case.disks[5], 0, content)
    case.chosen = [0, 1, 2, 3]


def a_superblock_with_a_wrong_checksum(case: Case) -> None:
    create(case, "5", 4, "--chunk=64")
    stop()
    overwrite(case.members[2], 4096 + 32, b"other name")


def a_partition_table_over_a_member(case: Case) -> None:
    create(case, "10", 4, "--chunk=64", "--layout=f2")
    stop()
    overwrite(case.members[0], 510, b"\x55\xaaEFI PART" + bytes(32_000))


def a_spare_is_not_shown(case: Case) -> None:
    create(case, "1", 2)
    run("mdadm", ARRAY, "--add", case.mapped[2])
    stop()


def an_old_member_returns(case: Case) -> None:
    """A disk that left long ago, and the disk that replaced it fails: only the old one is left."""
    create(case, "5", 3, "--chunk=64")
    mount()
    fail(case, 2)
    write_more("since", 30)
    run("umount", str(FILES))
    stop()
    plug_in(case, 2)
    overwrite(case.members[1], 0, bytes(1 << 20))


def held_inactive_by_md(case: Case) -> None:
    """Incremental assembly left an array that waits."""
    two_cables_of_a_raid5(case)
    for member in case.members:
        run("mdadm", "--incremental", member, check=False)


ACCIDENTS: dict[str, Callable[[Case], None]] = {
    accident.__name__: accident
    for accident in (
        power_cut_in_a_write,
        power_cut_of_a_mirror,
        power_cut_of_a_degraded_raid5,
        one_member_left_before,
        two_cables_of_a_raid5,
        a_controller_drops_four_of_eight,
        one_after_the_other,
        swapped_disks,
        a_zeroed_superblock,
        a_wiped_start,
        two_halves_of_a_mirror,
        power_cut_in_a_rebuild,
        power_cut_in_a_rebuild_and_another_cable,
        power_cut_in_a_reshape,
        all_cables_of_a_stripe,
        three_of_six_with_old_metadata,
        three_of_six_with_metadata_at_the_end,
        two_zeroed_superblocks,
        created_again_in_another_order,
        created_again_with_another_chunk,
        created_again_and_not_saved,
        created_again_in_wrong_order_and_not_saved,
        one_half_of_a_mirror_is_chosen,
        created_again_with_another_offset_and_not_saved,
        too_little_space_for_overlays,
        a_list_on_the_wrong_member,
        a_journal_is_missing,
        a_copied_member,
        a_superblock_with_a_wrong_checksum,
        a_partition_table_over_a_member,
        a_spare_is_not_shown,
        an_old_member_returns,
        held_inactive_by_md,
    )
}


def clear_away(case: Case) -> None:
    """Makes all disks empty again, whatever happened."""
    run("umount", "--lazy", str(FILES), check=False)
    if (STORE / "try/overlays.json").exists():
        blklab(case, "md", "overlays", "stop", str(STORE / "try"))
    for node in Path("/sys/block").glob("md*"):
        run("mdadm", "--stop", f"/dev/{node.name}", check=False)
    unmap_disks(case)
    run("umount", str(STORE), check=False)
    for disk in case.disks:
        run("blkdiscard", "--zeroout", disk, check=False)


def judge(name: str, disks: list[str], store: str) -> dict[str, Any]:
    case = Case(disks, store)
    FILES.mkdir(parents=True, exist_ok=True)
    STORE.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    outcome = "error"
    try:
        run("mke2fs", "-q", "-F", "-t", "ext4", store)
        run("mount", store, str(STORE))
        ACCIDENTS[name](case)
        outcome = follow(case)
    except Exception:
        case.problems.append(traceback.format_exc())
    clear_away(case)
    return {"name": name, "outcome": outcome, "problems": case.problems, "log": case.log,
            "seconds": round(time.monotonic() - started)}  # fmt: skip


if __name__ == "__main__":
    at = sys.argv.index("--")
    store_disk, *all_disks = sys.argv[at + 1 :]
    json.dump([judge(name, all_disks, store_disk) for name in sys.argv[1:at]], sys.stdout)
