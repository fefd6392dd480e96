"""Changes of arrays that `blklab md plan` judges and mdadm makes: `{0}` to `{5}` are disks of 64 MiB, `{6}` has 40 MiB,
and `{7}` has blocks of 4 KiB."""

from collections.abc import Sequence
from dataclasses import dataclass

RATE_KIB = 4000
"""sync_speed_max of most arrays, so that it decides how long a pass takes."""

NEAR, FAR, OFFSET = ("--chunk=64", "--layout=n2"), ("--chunk=64", "--layout=f2"), ("--chunk=64", "--layout=o2")
PLAIN = ("--chunk=64", "--bitmap=none")
WITH_BITMAP = ("--chunk=64", "--bitmap=internal")
HALF = "--size=32M"
OLD, AT_END = "--metadata=0.90", "--metadata=1.0"
BACKUP = "--backup-file=/run/backup"


@dataclass(frozen=True)
class Case:
    """An array, and a question about it."""

    name: str
    make: tuple[str, ...]
    plan: tuple[str, ...]
    rate: int = RATE_KIB
    busy: bool = False  # Another pass is under way
    sampled: bool = False  # It is one of those that CI runs


def build(
    name: str, level: int, count: int, options: Sequence[str], plan: str, *before: str, sampled: bool = False,
    busy: bool = False, rate: int = RATE_KIB,
) -> Case:  # fmt: skip
    """Returns a case with an array of the first disks."""
    disks = " ".join(f"{{{number}}}" for number in range(count))
    create = (
        f"mdadm --create /dev/md0 --run --assume-clean --level={level} --raid-devices={count}"
        f" {' '.join(options)} {disks}"
    )
    return Case(name, (create, *before), tuple(plan.split()), rate, busy, sampled)


ADD = "mdadm /dev/md0 --add "
LOSE_LAST = "mdadm /dev/md0 --fail {2} --remove {2}"
OTHER = "mdadm --create /dev/md1 --run --assume-clean --level=1 --raid-devices=2 --bitmap=none {2} {3}"

CASES = [
    # Adding disks
    build("RAID-1: a spare", 1, 2, ["--bitmap=internal"], "add /dev/md0 {2}", sampled=True),
    build("RAID-1: a disk that is too small", 1, 2, [], "add /dev/md0 {6}", sampled=True),
    build("RAID-1, 0.90: a disk that is too small", 1, 2, [OLD], "add /dev/md0 {6}"),
    build("RAID-1, 1.0: a disk that is too small", 1, 2, [AT_END], "add /dev/md0 {6}"),
    build("RAID-1: a small disk, which suffices", 1, 2, [HALF], "add /dev/md0 {6}"),
    build("RAID-1: a disk with blocks of 4 KiB", 1, 2, [HALF], "add /dev/md0 {7}"),
    build("RAID-1: a mounted disk", 1, 2, [HALF], "add /dev/md0 {2}", "mke2fs -q -t ext4 {2}", "mount {2} /mnt"),
    build("RAID-1: a member of a running array", 1, 2, [HALF], "add /dev/md0 {2}", OTHER),
    build("RAID-1: a member of a stopped array", 1, 2, [HALF], "add /dev/md0 {2}", OTHER, "mdadm --stop /dev/md1"),
    build("RAID-1, read-only: a disk", 1, 2, [HALF], "add /dev/md0 {2}", "mdadm --readonly /dev/md0"),
    build("RAID-5, degraded: a disk", 5, 3, [*PLAIN, HALF], "add /dev/md0 {3}", LOSE_LAST, sampled=True),
    build("RAID-5 with a journal, degraded: a disk", 5, 3, ["--chunk=64", HALF, "--write-journal={4}"],
          "add /dev/md0 {3}", LOSE_LAST),
    build("RAID-0: a disk", 0, 2, ["--chunk=64"], "add /dev/md0 {2}"),
    # Replacing disks
    build("RAID-1: replace", 1, 2, [HALF], "replace /dev/md0 {0} {2}", ADD + "{2}"),
    build("RAID-1, 0.90: replace", 1, 2, [HALF, OLD], "replace /dev/md0 {0} {2}", ADD + "{2}"),
    build("RAID-5: replace", 5, 3, [*PLAIN, HALF], "replace /dev/md0 {0} {3}", ADD + "{3}"),
    build("RAID-5 with a journal: replace", 5, 3, ["--chunk=64", HALF, "--write-journal={4}"],
          "replace /dev/md0 {0} {3}", ADD + "{3}"),
    build("RAID-5: replace without a spare", 5, 3, [*PLAIN, HALF], "replace /dev/md0 {0}"),
    build("RAID-5: replace by a disk that is too small", 5, 3, [*PLAIN], "replace /dev/md0 {0} {6}"),
    build("RAID-10, near: replace", 10, 4, [*NEAR, HALF], "replace /dev/md0 {0} {4}", ADD + "{4}"),
    build("RAID-0: replace", 0, 2, ["--chunk=64"], "replace /dev/md0 {0}"),
    # The size of members
    build("RAID-1: grow", 1, 2, [HALF, "--bitmap=none"], "grow /dev/md0"),
    build("RAID-1, bitmap of one chunk: grow", 1, 2, [HALF, "--bitmap=internal"], "grow /dev/md0"),
    build("RAID-1, bitmap of 4 MiB: grow", 1, 2, [HALF, "--bitmap=internal", "--bitmap-chunk=4M"], "grow /dev/md0"),
    build("RAID-5: grow", 5, 3, [*PLAIN, HALF], "grow /dev/md0", sampled=True),
    build("RAID-5, 0.90: grow", 5, 3, [*PLAIN, HALF, OLD], "grow /dev/md0"),
    build("RAID-5, degraded: grow", 5, 3, [*PLAIN, HALF], "grow /dev/md0", LOSE_LAST),
    build("RAID-6, degraded: grow", 6, 4, [*PLAIN, HALF], "grow /dev/md0", LOSE_LAST),
    build("RAID-1 of three, degraded: grow", 1, 3, [HALF, "--bitmap=none"], "grow /dev/md0", LOSE_LAST),
    build("RAID-10, near, degraded: grow", 10, 4, [*NEAR, HALF, "--bitmap=none"], "grow /dev/md0",
          "mdadm /dev/md0 --fail {3} --remove {3}"),
    build("RAID-5: grow too far", 5, 3, [*PLAIN, HALF], "grow /dev/md0 --size 100M"),
    build("RAID-5: size below a chunk", 5, 3, [*PLAIN, HALF], "grow /dev/md0 --size 32k"),
    build("RAID-5: shrink members", 5, 3, [*PLAIN, HALF], "grow /dev/md0 --size 16M"),
    build("RAID-5, during a check: grow", 5, 3, [*PLAIN, HALF], "grow /dev/md0", "mdadm --action=check /dev/md0",
          busy=True, rate=1000),
    build("RAID-5 with a journal: grow", 5, 3, ["--chunk=64", HALF, "--write-journal={4}"], "grow /dev/md0"),
    build("RAID-1, read-only: grow", 1, 2, [HALF], "grow /dev/md0", "mdadm --readonly /dev/md0"),
    build("RAID-10, near: grow", 10, 4, [*NEAR, HALF, "--bitmap=none"], "grow /dev/md0"),
    build("RAID-10, offset: grow", 10, 3, [*OFFSET, HALF, "--bitmap=none"], "grow /dev/md0"),
    build("RAID-10, far: grow", 10, 4, [*FAR, HALF], "grow /dev/md0", sampled=True),
    build("RAID-0: grow", 0, 2, ["--chunk=64"], "grow /dev/md0"),
    # The number of disks, the chunk, the layout
    build("RAID-5: one disk more", 5, 3, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 4 --add {3}", sampled=True),
    build("RAID-5 with a bitmap: one disk more", 5, 3, [*WITH_BITMAP, HALF],
          "reshape /dev/md0 --raid-devices 4 --add {3}"),
    build("RAID-5, 0.90: one disk more", 5, 3, [*PLAIN, HALF, OLD], "reshape /dev/md0 --raid-devices 4 --add {3}"),
    build("RAID-5, 1.0: one disk more", 5, 3, [*PLAIN, HALF, AT_END], "reshape /dev/md0 --raid-devices 4 --add {3}"),
    build("RAID-5: one disk more, without a disk", 5, 3, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 4",
          sampled=True),
    build("RAID-5, degraded: one disk more", 5, 3, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 4", LOSE_LAST),
    build("RAID-5, degraded: one disk more, which fills the slot", 5, 3, [*PLAIN, HALF],
          "reshape /dev/md0 --raid-devices 4 --add {3}", LOSE_LAST, rate=1000),
    build("RAID-5, degraded: another chunk", 5, 3, [*PLAIN, HALF], "reshape /dev/md0 --chunk 128k", LOSE_LAST),
    build("RAID-5: one disk less", 5, 4, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 3"),
    build("RAID-5: one disk less, after --array-size", 5, 4, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 3",
          "mdadm --grow /dev/md0 --array-size=65536"),
    build("RAID-5, full disks: one disk less, after --array-size", 5, 4, PLAIN, "reshape /dev/md0 --raid-devices 3",
          "mdadm --grow /dev/md0 --array-size=65536"),
    build("RAID-5: one disk less, with a backup file", 5, 4, [*PLAIN, HALF],
          f"reshape /dev/md0 --raid-devices 3 {BACKUP}", "mdadm --grow /dev/md0 --array-size=65536"),
    build("RAID-5: another chunk", 5, 3, [*PLAIN, HALF], "reshape /dev/md0 --chunk 128k"),
    build("RAID-5: a chunk that does not fit", 5, 3, [*PLAIN, "--size=32832"], "reshape /dev/md0 --chunk 128k"),
    build("RAID-5, 0.90: another chunk", 5, 3, [*PLAIN, HALF, OLD], "reshape /dev/md0 --chunk 128k"),
    build("RAID-5, 0.90: another chunk, with a backup file", 5, 3, [*PLAIN, HALF, OLD],
          f"reshape /dev/md0 --chunk 128k {BACKUP}"),
    build("RAID-5 with a journal: one disk more", 5, 3, ["--chunk=64", HALF, "--write-journal={4}"],
          "reshape /dev/md0 --raid-devices 4", ADD + "{3}"),
    build("RAID-5 with a PPL: one disk more", 5, 3, ["--chunk=64", HALF, "--consistency-policy=ppl"],
          "reshape /dev/md0 --raid-devices 4", ADD + "{3}"),
    build("RAID-5, read-only: one disk more", 5, 3, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 4", ADD + "{3}",
          "mdadm --readonly /dev/md0"),
    build("RAID-4: one disk more", 4, 3, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 4 --add {3}"),
    build("RAID-6: one disk more", 6, 4, [*PLAIN, HALF], "reshape /dev/md0 --raid-devices 5 --add {4}"),
    build("RAID-1: one copy more", 1, 2, [HALF], "reshape /dev/md0 --raid-devices 3 --add {2}"),
    build("RAID-1: one copy less", 1, 3, [HALF], "reshape /dev/md0 --raid-devices 2"),
    build("RAID-1, degraded: one copy less", 1, 3, [HALF], "reshape /dev/md0 --raid-devices 2", LOSE_LAST),
    build("RAID-10, near: one disk more", 10, 4, [*NEAR, HALF, "--bitmap=none"],
          "reshape /dev/md0 --raid-devices 5 --add {4}"),
    build("RAID-10, near, bitmap: one disk more", 10, 4, [*NEAR, HALF, "--bitmap=internal"],
          "reshape /dev/md0 --raid-devices 5 --add {4}"),
    build("RAID-10, offset: one disk more", 10, 4, [*OFFSET, HALF], "reshape /dev/md0 --raid-devices 5 --add {4}"),
    build("RAID-10, far: one disk more", 10, 4, [*FAR, HALF], "reshape /dev/md0 --raid-devices 5 --add {4}",
          sampled=True),
    build("RAID-10, 0.90: one disk more", 10, 4, [*NEAR, HALF, OLD], "reshape /dev/md0 --raid-devices 5 --add {4}"),
    build("RAID-10, near: one disk less", 10, 4, [*NEAR, HALF, "--bitmap=none"], "reshape /dev/md0 --raid-devices 3",
          "mdadm --grow /dev/md0 --array-size=48384"),
    build("RAID-10, near: another chunk", 10, 4, [*NEAR, HALF], "reshape /dev/md0 --chunk 128k"),
    build("RAID-10, near, degraded: another chunk", 10, 4, [*NEAR, HALF], "reshape /dev/md0 --chunk 128k",
          "mdadm /dev/md0 --fail {3} --remove {3}"),
    build("RAID-10, near: offset", 10, 4, [*NEAR, HALF], "reshape /dev/md0 --layout o2"),
    build("RAID-10, near: three copies", 10, 4, [*NEAR, HALF], "reshape /dev/md0 --layout n3"),
    build("RAID-10, near: far", 10, 4, [*NEAR, HALF], "reshape /dev/md0 --layout f2"),
    build("RAID-0: one disk more", 0, 2, ["--chunk=64"], "reshape /dev/md0 --raid-devices 3 --add {2}"),
    build("RAID-0: one disk more, without a disk", 0, 2, ["--chunk=64"], "reshape /dev/md0 --raid-devices 3"),
    build("RAID-0: another chunk", 0, 2, ["--chunk=64"], "reshape /dev/md0 --chunk 128k"),
    # Levels
    build("RAID-1 to RAID-5", 1, 2, [HALF], "level /dev/md0 5", sampled=True),
    build("RAID-1 to RAID-5 of three", 1, 2, [HALF], "level /dev/md0 5 --raid-devices 3 --add {2}"),
    build("RAID-1 of three to RAID-5", 1, 3, [HALF], "level /dev/md0 5"),
    build("RAID-1 to RAID-0", 1, 2, [HALF], "level /dev/md0 0"),
    build("RAID-1 to RAID-6", 1, 2, [HALF], "level /dev/md0 6"),
    build("RAID-1 to RAID-10", 1, 2, [HALF], "level /dev/md0 10"),
    build("RAID-1, read-only, to RAID-5", 1, 2, [HALF], "level /dev/md0 5", "mdadm --readonly /dev/md0"),
    build("RAID-5 of two to RAID-1", 5, 2, [*PLAIN, HALF], "level /dev/md0 1"),
    build("RAID-5 of three to RAID-1", 5, 3, [*PLAIN, HALF], "level /dev/md0 1"),
    build("RAID-5 to RAID-6", 5, 3, [*PLAIN, HALF], "level /dev/md0 6 --raid-devices 4 --add {3}", sampled=True),
    build("RAID-5 with a bitmap to RAID-6", 5, 3, [*WITH_BITMAP, HALF],
          "level /dev/md0 6 --raid-devices 4 --add {3}"),
    build("RAID-5 to RAID-6 with its layout", 5, 3, [*PLAIN, HALF],
          "level /dev/md0 6 --raid-devices 4 --layout preserve --add {3}"),
    build("RAID-5 to RAID-6 with a backup file", 5, 3, [*PLAIN, HALF],
          f"level /dev/md0 6 --raid-devices 4 --add {{3}} {BACKUP}"),
    build("RAID-5 to RAID-6 without a disk", 5, 3, [*PLAIN, HALF], "level /dev/md0 6 --raid-devices 4"),
    build("RAID-5 with a journal to RAID-6", 5, 3, ["--chunk=64", HALF, "--write-journal={4}"],
          "level /dev/md0 6 --raid-devices 4", ADD + "{3}"),
    build("RAID-5 to RAID-0", 5, 3, [*PLAIN, HALF], "level /dev/md0 0 --raid-devices 2"),
    build("RAID-5 to RAID-4", 5, 3, [*PLAIN, HALF], "level /dev/md0 4"),
    build("RAID-5 to RAID-10", 5, 3, [*PLAIN, HALF], "level /dev/md0 10"),
    build("RAID-6 to RAID-5", 6, 4, [*PLAIN, HALF], "level /dev/md0 5 --raid-devices 3"),
    build("RAID-6 to RAID-0", 6, 4, [*PLAIN, HALF], "level /dev/md0 0"),
    build("RAID-4 to RAID-5", 4, 3, [*PLAIN, HALF], "level /dev/md0 5"),
    build("RAID-4 to RAID-0", 4, 3, [*PLAIN, HALF], "level /dev/md0 0"),
    build("RAID-0 to RAID-5", 0, 2, ["--chunk=64"], "level /dev/md0 5 --raid-devices 3 --add {2}"),
    build("RAID-0 to RAID-4", 0, 2, ["--chunk=64"], "level /dev/md0 4 --raid-devices 3 --add {2}"),
    build("RAID-0 to RAID-10", 0, 2, ["--chunk=64"], "level /dev/md0 10 --raid-devices 4 --add {2} --add {3}"),
    build("RAID-0 to RAID-1", 0, 2, ["--chunk=64"], "level /dev/md0 1"),
    build("RAID-10, near, to RAID-0", 10, 4, [*NEAR, HALF], "level /dev/md0 0"),
    build("RAID-10, far, to RAID-0", 10, 4, [*FAR, HALF], "level /dev/md0 0"),
    build("RAID-10, near, to RAID-5", 10, 4, [*NEAR, HALF], "level /dev/md0 5"),
]  # fmt: skip

SLOW_RATE = 4 << 20
"""Bytes per second of disks that are slower than the limits."""

UNLIMITED = 200_000
RATE = f"--rate {SLOW_RATE}"

SLOW_CASES = [
    build("RAID-5: recovery", 5, 3, [*PLAIN, HALF], f"add /dev/md0 {{3}} {RATE}", LOSE_LAST, rate=UNLIMITED),
    build("RAID-1: replacement", 1, 2, [HALF], f"replace /dev/md0 {{0}} {{3}} {RATE}", ADD + "{3}", rate=UNLIMITED),
    build("RAID-5: resync", 5, 3, [*PLAIN, HALF], f"grow /dev/md0 {RATE}", rate=UNLIMITED),
    build("RAID-5: one disk more", 5, 3, [*PLAIN, HALF], f"reshape /dev/md0 --raid-devices 4 --add {{3}} {RATE}",
          rate=UNLIMITED),
    build("RAID-5: another chunk", 5, 3, [*PLAIN, HALF], f"reshape /dev/md0 --chunk 128k {RATE}", rate=UNLIMITED),
    build("RAID-10, near: one disk more", 10, 4, [*NEAR, HALF],
          f"reshape /dev/md0 --raid-devices 5 --add {{4}} {RATE}", rate=UNLIMITED),
]  # fmt: skip
