"""Arrays for tests of plans: members of 64 MiB, of which the array uses 32 MiB, and new disks."""

from typing import Any

from blklab.md.levels import NUMBERS
from blklab.md.model import Array, ArrayMember, Software, SyncPass
from blklab.md.plan.change import Conditions, NewDisk, SyncLimits
from tests.md.crafted import make_superblock

MIB = 1 << 20
SECTORS = 32 * MIB // 512  # Of each member
DISK_BYTES = 64 * MIB
OFFSET = 2048
LEVEL_NUMBERS = {name: number for number, name in NUMBERS.items()}
CHECK = SyncPass("check", 10, 100, 1000)
CONDITIONS = Conditions(Software(kernel=(6, 1), mdadm=(4, 2)), SyncLimits(1000, 4000, are_known=True))


def make_array(level: str, disks: int, *, spares: int = 0, version: str = "1.2", **values: Any) -> Array:
    """Returns an assembled array; `values` are fields of the Array."""
    layout = values.get("layout", {"raid5": 2, "raid6": 2, "raid10": 0x102}.get(level, 0))
    chunk = values.get("chunk", 0 if level == "raid1" else 65536)
    size = {"raid1": 1, "raid10": disks // 2, "raid0": disks, "raid6": disks - 2}.get(level, disks - 1)
    offset = {"1.2": OFFSET, "1.1": OFFSET}.get(version, 0)
    position = {"1.2": 4096, "1.1": 0}.get(version, DISK_BYTES - 8192)
    members = []
    for number in range(disks + spares):
        is_spare = number >= disks
        superblock = make_superblock(
            version=version, offset=position, level=LEVEL_NUMBERS[level], layout=layout, chunk=chunk, size=SECTORS,
            data_size=SECTORS, data_offset=offset, raid_disks=disks, slot=None if is_spare else number, bitmap=False,
        )  # fmt: skip
        name = f"sd{'abcdefgh'[number]}"
        members.append(
            ArrayMember(
                name, f"/dev/{name}", None if is_spare else number, ("spare",) if is_spare else ("in_sync",),
                superblock=superblock, data_offset=offset, size=DISK_BYTES, logical_block=512,
            )
        )  # fmt: skip
    fields: dict[str, Any] = {
        "name": "md0", "path": "/dev/md0", "uuid": "a:b:c:d", "level": level, "layout": layout, "chunk": chunk,
        "raid_disks": disks, "metadata": version, "live": True, "members": tuple(members), "member_sectors": SECTORS,
        "size": size * SECTORS * 512, "state": "clean", "degraded": 0, "bitmap": False, "logical_block": 512,
    }  # fmt: skip
    return Array(**{**fields, **values})


def disk(name: str = "sdx", **values: Any) -> NewDisk:
    return NewDisk(f"/dev/{name}", name, **{"size": DISK_BYTES, "logical_block": 512, **values})
