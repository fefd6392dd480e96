"""Where md puts sectors, and what filesystems write of stripes: kernel and mkfs are asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.md import images, probing
from blklab.md.audit import alignment
from blklab.md.superblocks import SectorRange
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.boot import GuestMachine as Guest
from blklab.runners.lab.machine.boot import boot
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.runners.lab.arrays import names

SMALL = [VirtualDiskShape(f"small-{at}", 16 << 20) for at in range(5)]

PLAIN = VirtualDiskShape("plain", 4 << 30)

WRITTEN = 4096
"""Sectors that differ in their content."""


@pytest.fixture(scope="module")
def guest(guest_image: GuestImage) -> Iterator[Guest]:
    shapes = [*SMALL, PLAIN]
    with boot(guest_image, shapes, accelerator_choice="tcg", cpus=1, memory=512 << 20, note=lambda _: None) as booted:
        yield booted


@pytest.mark.guest
@pytest.mark.parametrize(
    ("level", "layout", "disks"),
    [
        ("1", "", 2), ("4", "", 3), ("5", "la", 3), ("5", "ra", 4), ("5", "ls", 5), ("5", "rs", 3),
        ("6", "la", 5), ("6", "ra", 4), ("6", "ls", 5), ("6", "rs", 4), ("10", "n2", 4),
        ("10", "n2", 3), ("10", "n3", 5), ("10", "f2", 2), ("10", "f2", 5), ("10", "f3", 4),
        ("10", "o2", 3), ("10", "o2", 4), ("5", "parity-first", 3), ("6", "parity-last", 4),
    ],
)  # fmt: skip
def test_where_the_kernel_puts_sectors(guest: Guest, tmp_path: Path, level: str, layout: str, disks: int) -> None:
    used = names(guest, SMALL)[:disks]
    guest.agent.run(
        ["mdadm", "--create", "/dev/md99", "--run", "--assume-clean", f"--level={level}",
         "--metadata=1.2", f"--raid-devices={disks}", *([f"--layout={layout}"] if layout else []),
         *(["--chunk=16"] if level != "1" else []), *(f"/dev/{name}" for name in used)]
    )  # fmt: skip
    guest.agent.write("/dev/md99", "".join(f"{sector:<511}\n" for sector in range(WRITTEN)))
    guest.agent.run(["mdadm", "--stop", "/dev/md99"])
    contents = [guest.disk(shape).read(0, shape.bytes) for shape in SMALL[:disks]]
    for at, content in enumerate(contents):
        (tmp_path / str(at)).write_bytes(content)
    (array,) = images.read_images([tmp_path / str(at) for at in range(disks)]).arrays
    seen: list[int] = []
    for member in array.members:
        result = member.superblock
        assert result is not None
        content = contents[int(Path(member.name).name)]
        for sector in range(result.data_offset, result.data_offset + result.size):
            mapped = array.array_ranges(member, SectorRange(sector, 1))
            assert mapped is not None
            if mapped and mapped[0].sector < WRITTEN:
                seen.append(mapped[0].sector)
                assert content[sector * 512 : sector * 512 + 512] == b"%-511d\n" % seen[-1]
    copies = {"1": disks, "10": int(layout[1:]) if level == "10" else 0}.get(level, 1)
    assert sorted(seen) == sorted(list(range(WRITTEN)) * copies)
    for shape in SMALL:
        guest.disk(shape).clear()


@pytest.mark.guest
@pytest.mark.parametrize(
    ("kind", "words"),
    [("ext4", ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-E"]), ("xfs", ["mkfs.xfs", "-q", "-f", "-d"])],
)
def test_what_filesystems_are_told(guest: Guest, kind: str, words: list[str]) -> None:
    (name,) = names(guest, [PLAIN])
    result = None
    for unit, disks in ((0, 0), (64 << 10, 3), (512 << 10, 2)):
        if kind == "ext4":
            given = f"stride={unit >> 12},stripe_width={(unit >> 12) * disks}"
        else:
            given = f"su={unit >> 10}k,sw={disks}" if unit else "noalign"
        facts = [*words, given] if unit or kind == "xfs" else words[:-1]
        guest.agent.run([*facts, f"/dev/{name}"])
        result = probing.parse_geometry(guest.disk(PLAIN).read(0, 4096), name)
        assert result is not None
        assert (result.kind, result.block_bytes) == (kind, 4096)
        assert (result.unit_bytes, result.width_bytes) == (unit, unit * disks)
    assert result is not None
    assert alignment.mkfs_command(result, 512 << 10, 2).endswith(given.replace("_", "-"))
