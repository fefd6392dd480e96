"""Mismatches: where they are, whether they matter, which copy is right; with messages that users posted."""

from dataclasses import replace
from pathlib import Path

import pytest

from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.audit.mismatches import check_mismatches
from blklab.md.contents import add_contents
from blklab.md.kernel_log import find_mismatch_ranges
from blklab.md.mismatched_sectors import find_mismatched_sectors
from blklab.md.model import Array, ArrayPart, BlockContent, Inventory, SyncPass
from blklab.md.superblocks import SectorRange
from blklab.system import file_search
from blklab.system.file_search import FilesFound
from blklab.system.layers import number_of
from blklab.system.spans import Span
from tests.md.conftest import Arrays
from tests.md.test_good_copies import array_of

POSTED = """md: data-check of RAID array md0
md0: mismatch sector in range 3518805640-3518805648
md0: mismatch sector in range 3518805672-3518805680
md: md0: data-check done.
"""
"""linux-raid 2021-10-12, "raid6check map sector to stripe": of a RAID-6."""

RAID6 = replace(
    array_of("raid6", 2, 4, {}), chunk=512 << 10, member_sectors=1 << 32, mismatches=16, last_action="check"
)
SMALL = """md: data-check of RAID array md0
md0: mismatch sector in range 8-16
md0: mismatch sector in range 16-24
md: md0: data-check done.
"""


def finding_of(array: Array) -> Diagnostic:
    (finding,) = check_mismatches(array, None)
    return finding


def with_log(array: Array, log: str) -> Array:
    return replace(array, mismatch_ranges=find_mismatch_ranges(array, log))


def test_the_kernel_log_has_the_places() -> None:
    first, second = SectorRange(3_518_805_640, 8), SectorRange(3_518_805_672, 8)
    assert find_mismatch_ranges(RAID6, POSTED) == (first, second)
    assert find_mismatch_ranges(RAID6, POSTED + POSTED) == (first, second)
    assert find_mismatch_ranges(replace(RAID6, name="md1"), POSTED) == ()
    assert find_mismatch_ranges(replace(RAID6, last_action="repair"), POSTED) == ()
    # What a later action changed is not known, and what an earlier check found may be corrected.
    assert find_mismatch_ranges(RAID6, POSTED + "md: recovery of RAID array md0\n") == ()
    assert find_mismatch_ranges(RAID6, POSTED + "md: data-check of RAID array md0\n") == ()
    assert find_mismatch_ranges(RAID6, POSTED.replace("md: data-check of RAID array md0\n", "")) == ()
    assert find_mismatch_ranges(RAID6, "x " + POSTED.replace("\n", "\nx ")) == ()


def test_raid6_gets_the_stripes_that_the_user_asked_for() -> None:
    finding = finding_of(with_log(RAID6, POSTED))
    assert finding.severity == "warning"
    assert (
        "sectors 3518805640-3518805647, 3518805672-3518805679 of each member, from its data offset" in finding.message
    )
    assert "RAID-6 shows which block of a stripe is wrong, if it is only one" in finding.message
    # Chunks of 512 KiB: 3,518,805,640 sectors / 1024.
    assert "# raid6check /dev/md0 STRIPE 1, for these stripes: 3436333" in finding.remedy
    assert "# Which files are there: blklab md audit --map-files" in finding.remedy
    assert finding.remedy[-1] == "mdadm --action=check /dev/md0"


@pytest.mark.parametrize(("level", "disks"), [("raid5", 3), ("raid6", 4), ("raid4", 3)])
def test_the_data_of_a_stripe_are_found(level: str, disks: int) -> None:
    array = with_log(replace(array_of(level, 2, disks, {}), mismatches=16, last_action="check"), SMALL)
    found = find_mismatched_sectors(array)
    sector_map = array.sector_map
    assert sector_map is not None
    expected = set()
    for slot in range(disks):
        for sector in range(8, 24):
            for piece in array.map_pieces(slot, SectorRange(sector, 1)) or ():
                expected.add(piece.sector)
    assert {sector for part in found for sector in range(part.sector, part.end)} == expected
    assert len(expected) == 2 * 16
    assert find_mismatched_sectors(replace(array, reshaping=True)) == ()


def test_some_of_the_places_are_logged() -> None:
    array = with_log(replace(array_of("raid5", 2, 3, {}), mismatches=800, last_action="check"), SMALL)
    message = finding_of(array).message
    assert message.startswith("800 sectors do not match: parity does not match the data, so a rebuild would write")
    assert "The kernel's log has the places of 16 of them: sectors 8-23 of each member" in message
    assert "Which block of a stripe is wrong is not known" in message
    assert "raid6check" not in " ".join(finding_of(array).remedy)
    unknown = finding_of(replace(array, mismatch_ranges=()))
    assert "Where is not known: the kernel's log does not have it (any more), or cannot be read" in unknown.message
    assert '# Older messages: journalctl -k --grep "md0: mismatch sector"' in unknown.remedy


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (array_of("raid1", 0, 2, {}), "Which copy is right is not known"),
        (array_of("raid10", 0x102, 4, {}), "Which copy is right is not known"),
        (array_of("raid1", 0, 3, {}), "If two of three copies agree, they are probably right"),
        (array_of("raid10", 0x103, 6, {}), "If two of three copies agree, they are probably right"),
        (array_of("raid1", 0, 3, {}, (2,)), "Which copy is right is not known"),
    ],
)
def test_which_copy_is_right(array: Array, text: str) -> None:
    finding = finding_of(replace(array, mismatches=8))
    assert text in finding.message
    assert finding.severity == "warning"
    assert not any("repair" in line for line in finding.remedy)


def test_no_finding_advises_a_repair() -> None:
    for level, layout, disks in (
        ("raid1", 0, 2),
        ("raid1", 0, 3),
        ("raid10", 0x102, 4),
        ("raid5", 2, 3),
        ("raid6", 2, 4),
    ):
        array = replace(array_of(level, layout, disks, {}), mismatches=16, last_action="check")
        for finding in find_problems(Inventory((with_log(array, SMALL),))):
            assert not any("action=repair" in line or "--repair" in line for line in finding.remedy)
    changing = replace(array_of("raid1", 0, 2, {}), mismatches=16, sync=SyncPass("check", 1, 10))
    assert finding_of(changing).remedy == ()
    assert finding_of(changing).message.startswith("16 sectors do not match so far: on mirrors")


def test_swap_is_harmless() -> None:
    swap = replace(array_of("raid1", 0, 2, {}), mismatches=8,
                   users=("md0 is used as swap (/dev/md0; to free it, run swapoff)",))  # fmt: skip
    assert finding_of(swap).severity == "note"
    assert "The array is only used as swap: there, they are harmless" in finding_of(swap).message
    both = replace(swap, users=(*swap.users, "md0p1 is mounted at /"))
    assert finding_of(both).severity == "warning"
    assert finding_of(replace(swap, users=())).severity == "warning"


def test_checksums_of_filesystems() -> None:
    mirror = replace(array_of("raid1", 0, 2, {}), mismatches=8)
    part = ArrayPart("md0", "/dev/md0", 0)
    btrfs = finding_of(replace(mirror, parts=(replace(part, filesystem="btrfs"),)))
    assert "`btrfs scrub start -r`, which only reads" in btrfs.message
    xfs = finding_of(replace(mirror, parts=(replace(part, filesystem="xfs"),)))
    assert "xfs has checksums of metadata only: compare files with a backup" in xfs.message
    assert "checksums of" not in finding_of(mirror).message


def test_free_space_is_harmless_if_all_places_are_known() -> None:
    array = with_log(replace(array_of("raid5", 2, 3, {}), mismatches=16, last_action="check"), SMALL)
    free = BlockContent(0, 1 << 20, "/dev/md0", what="free space")
    assert finding_of(replace(array, contents=(free,))).severity == "note"
    assert "All of them are in free space" in finding_of(replace(array, contents=(free,))).message
    file = BlockContent(8 << 9, 512, "/dev/md0", path="/srv/a")
    assert finding_of(replace(array, contents=(replace(free, begin=16 << 9), file))).severity == "warning"
    assert finding_of(replace(array, contents=())).severity == "warning"
    assert finding_of(replace(array, contents=(free,), mismatches=24)).severity == "warning"


def test_files_of_mismatches(machine: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "mounted"
    directory.mkdir()
    number = number_of(directory.stat().st_dev)
    for at, name in enumerate(("sda", "sdb", "sdc")):
        machine.disk(name, f"8:{16 * at}")
    machine.array(
        "md0", number, {"sda": {}, "sdb": {}, "sdc": {}}, level="raid5", layout="2", chunk_size="8192",
        mismatch_cnt="16", component_size="96",
    )  # fmt: skip
    records = [f"6,{at},1,-;{line}\n" for at, line in enumerate(SMALL.splitlines())]
    (machine.roots.dev / "kmsg").write_text("".join(records))
    machine.proc("self/mountinfo", f"30 1 {number} / {directory} rw - ext4 /dev/md0 rw")
    spans: list[Span] = []

    def find(_where: str, _device: int, asked: tuple[Span, ...], _tell: object) -> object:
        spans.extend(asked)
        return [FilesFound(span.begin, span.end, f"{directory}/file", span.begin, "") for span in asked], {}

    monkeypatch.setattr(file_search, "find_files", find)
    inventory = add_contents(machine.seen(), machine.roots)
    assert inventory.arrays[0].mismatch_ranges == (SectorRange(8, 16),)
    assert inventory.arrays[0].parts[0].filesystem == "ext4"
    assert sum(span.end - span.begin for span in spans) == 2 * 16 * 512
    (finding,) = [item for item in find_problems(inventory) if item.code == "mismatches"]
    assert sum(file["bytes"] for file in finding.ranges[0]["files"]) == 2 * 16 * 512
    assert {file["path"] for file in finding.ranges[0]["files"]} == {f"{directory}/file"}
    assert "ext4 has checksums of metadata only" in finding.message
