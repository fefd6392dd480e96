"""The last page of the bitmap: compared with published measurements and traces of the kernel's writes."""

from dataclasses import replace
from typing import Any

import pytest

from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.audit.bitmap_page import check_bitmap_page, choose_chunk, find_last_page
from blklab.md.model import Array, ArrayMember, Inventory, Software, SyncPass
from tests.md.conftest import Arrays
from tests.md.crafted import make_superblock
from tests.md.test_good_copies import array_of

MIB = 1 << 20
LINUX_6_1 = Software(kernel=(6, 1))
LINUX_6_4 = Software(kernel=(6, 4))


def with_disks(array: Array, **values: Any) -> Array:
    disk = {"logical_block": 512, "physical_block": 4096, "optimal_io": 4096, "rotational": False, **values}
    return replace(array, members=tuple(replace(member, **disk) for member in array.members))


def p5520(bits: int = 57_228, **values: Any) -> Array:
    """Returns a RAID-10 of four Intel P5520; 57,228 chunks are those of linux-raid 2023-02-24 (8745faa95611)."""
    array = array_of("raid10", 0x102, 4, {})
    sectors = bits * 64 * MIB // 512
    array = replace(array, size=sectors * 512, member_sectors=sectors // 2, bitmap=True, bitmap_chunk=64 * MIB,
                    bitmap_sector=8)  # fmt: skip
    return with_disks(array, **{"transport": "NVMe", **values})


def finding_of(array: Array, software: Software | None = LINUX_6_1) -> Diagnostic | None:
    findings = list(check_bitmap_page(array, software))
    assert len(findings) < 2
    return findings[0] if findings else None


def test_the_write_that_biosnoop_showed() -> None:
    """Without the fix: `W 24 3584`, the second page of a bitmap at sector 16; 1,676 writes per second."""
    found = finding_of(p5520())
    assert found is not None
    assert found.severity == "note"
    assert found.message.startswith("md writes 3,584 bytes of the bitmap's last page, which has the bits of 46 % of")
    assert "Before such a write, sd0, sd1, sd2, sd3 must read a block of 4,096 bytes" in found.message
    assert "1,676 random writes per second like this, and 15,700 with whole pages" in found.message
    assert "Linux 6.4 and newer write whole pages to these disks (8745faa95611)" in found.message


def test_with_the_fix_pages_are_whole() -> None:
    assert finding_of(p5520(), LINUX_6_4) is None
    # The fix does not help disks that do not say how much they write at once.
    unsaid = finding_of(p5520(optimal_io=0), LINUX_6_4)
    assert unsaid is not None
    assert "No kernel avoids it" in unsaid.message
    assert finding_of(p5520(optimal_io=None), LINUX_6_4) is None


@pytest.mark.parametrize(
    "disk",
    [
        # Xiao Ni, linux-raid 2023-02-27: 68,000 writes per second without, 69,100 with the fix.
        {"logical_block": 512, "physical_block": 512, "optimal_io": 0},
        {"logical_block": 4096, "physical_block": 4096, "optimal_io": 4096},
        {"logical_block": None, "physical_block": None, "optimal_io": None},
        {"physical_block": 512, "optimal_io": 16 * MIB, "transport": ""},
    ],
)
def test_disks_that_write_short_pages_well(disk: dict[str, Any]) -> None:
    assert finding_of(p5520(**disk)) is None


@pytest.mark.parametrize(
    "values",
    [
        {"bitmap": False}, {"bitmap": None}, {"bitmap_chunk": None}, {"bitmap_sector": None}, {"bitmap_sector": 2},
        {"live": False}, {"level": "raid0", "size": None},
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_not_reported(values: dict[str, Any]) -> None:
    assert finding_of(replace(p5520(), **values)) is None
    assert finding_of(p5520(), None) is None
    assert finding_of(p5520(), Software()) is None


def test_whole_pages_are_not_reported() -> None:
    # 8,192 bytes: a superblock of 256 bytes and 63,488 bits.
    assert find_last_page(63_488 * 64 * MIB, 64 * MIB).used_bytes == 4096
    assert finding_of(p5520(63_488)) is None
    assert finding_of(p5520(63_488 - 4095)) is None  # The last 512 bytes are not full
    assert finding_of(p5520(63_488 - 4096)) is not None


def sized(bits: int, **values: Any) -> Array:
    """Returns the array with superblocks of mdadm 4.2, whose bad-block lists begin 132 KiB behind them."""
    array = p5520(bits)
    blocks = {"sector": 8 + 264, "sectors": 8, "shift": 0, "active": False, "entries": []}
    superblock = make_superblock(data_offset=264_192, bad_blocks=blocks, **values)
    return replace(array, members=tuple(replace(member, superblock=superblock) for member in array.members))


def test_the_chunk_that_is_printed_makes_whole_pages() -> None:
    larger = p5520(2 * 28_672)  # of 128 MiB 3,840 bytes: 4,096
    found = finding_of(larger)
    assert found is not None
    assert found.message.endswith("With a bitmap chunk of 128 MiB, whole pages are written")
    assert found.remedy == (
        "# Between these commands, and for 15 s after them, a crash means a resync of the whole array.",
        "mdadm --grow --bitmap=none /dev/md0",
        "mdadm --grow --bitmap=internal --bitmap-chunk=131072K /dev/md0",
    )
    assert find_last_page((larger.size or 0), 128 * MIB).used_bytes == 3840
    changed = replace(larger, bitmap_chunk=128 * MIB)
    assert finding_of(changed) is None


def test_every_chunk_that_is_chosen_makes_whole_pages() -> None:
    kinds = set()
    for bits in range(1000, 80_000, 997):
        array = sized(bits)
        found = finding_of(array)
        size = array.size or 0
        chunk = choose_chunk(array, size, list(array.members))
        if found is None:
            kinds.add("whole")
            continue
        kinds.add("none" if chunk is None else "smaller" if chunk < 64 * MIB else "larger")
        if chunk is None:
            assert found.remedy == ()
            assert "No bitmap chunk avoids it here" in found.message
        else:
            assert finding_of(replace(array, bitmap_chunk=chunk)) is None
            assert 256 + size // chunk // 8 + 1 <= 128 << 10
            assert f"--bitmap-chunk={chunk >> 10}K" in found.remedy[2]
    assert kinds == {"whole", "none", "smaller", "larger"}


def test_a_smaller_chunk_needs_known_space() -> None:
    bits = 30_998
    array = sized(bits)
    assert choose_chunk(array, array.size or 0, list(array.members)) == 32 * MIB
    assert choose_chunk(p5520(bits), bits * 64 * MIB, list(p5520(bits).members)) is None
    old = sized(bits, version="1.0")
    assert choose_chunk(old, bits * 64 * MIB, list(old.members)) is None


@pytest.mark.parametrize(
    "values",
    [
        {"degraded": 1}, {"degraded": None}, {"sync": SyncPass("check", 1, 10)}, {"reshaping": True},
        {"state": "readonly"}, {"state": "inactive"}, {"repairing": True}, {"suspended": True},
    ],
)  # fmt: skip
def test_no_command_while_the_bitmap_is_needed(values: dict[str, Any]) -> None:
    array = replace(p5520(2 * 28_672), **values)
    found = finding_of(array)
    assert found is not None
    assert found.remedy == ()
    faulty = ArrayMember("sd9", "/dev/sd9", states=("faulty",))
    found = finding_of(replace(p5520(2 * 28_672), members=(*array.members, faulty)))
    assert found is not None
    assert found.remedy == ()


def test_a_broken_array_is_not_told_about_its_bitmap() -> None:
    array = replace(p5520(2 * 28_672), state="broken")
    codes = {finding.code for finding in find_problems(Inventory((array,), software=LINUX_6_1))}
    assert "broken" in codes
    assert "bitmap-page" not in codes


def test_rotating_disks_with_blocks_of_4_kib() -> None:
    array = replace(p5520(2 * 57_228, transport="", rotational=True, optimal_io=0), level="raid5", layout=2)
    found = finding_of(array, LINUX_6_4)
    assert found is not None
    assert "a rotating disk needs another turn for it" in found.message
    assert "1,676" not in found.message


def test_sysfs_has_what_the_rule_needs(machine: Arrays) -> None:
    machine.mirror(bitmap__chunksize="67108864")
    assert "bitmap-page" not in machine.findings_by_code()
    for disk in ("sda", "sdb"):
        node = (machine.roots.sys / "class/block" / disk).resolve()
        machine.write(node, {"queue__logical_block_size": "512", "queue__optimal_io_size": "0"})
    found = machine.findings_by_code()["bitmap-page"]
    assert "md writes 512 bytes of the bitmap's last page, which has the bits of 100 % of the array" in found.message
    machine.write(machine.roots.sys / "block/md0", {"md__bitmap__metadata": "clustered"})
    assert "bitmap-page" not in machine.findings_by_code()
