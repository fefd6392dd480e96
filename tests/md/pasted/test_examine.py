"""`mdadm --examine` as text: the fields are those that blklab reads from the same superblocks."""

import re
from pathlib import Path

import pytest

from blklab.md.audit import find_problems
from blklab.md.model import LIST_NOT_IN_TEXT
from blklab.md.pasted.blocks import clean_lines, find_blocks
from blklab.md.pasted.examine import is_superblock, read_superblock
from blklab.md.pasted.inventory import read_texts
from blklab.md.superblocks import Superblock, newest_superblock, read_superblocks
from tests.md.mdadm_output import MEMBERS, member_image
from tests.md.pasted.test_arrays import read, superblock

RECORDED = Path(__file__).parents[2] / "data/md/mdadm"
VERSIONS = sorted(path.stem.removeprefix("examine-") for path in RECORDED.glob("examine-*.txt"))
FIELDS = (
    "version", "uuid", "level", "layout", "chunk", "raid_disks", "size", "device_uuid", "role", "slot", "present",
    "write_mostly", "replacement", "events", "updated", "created", "resync_offset", "recovery_offset",
    "reshape_position", "journal", "ppl", "checksum_holds",
)  # fmt: skip


def answers(version: str) -> dict[str, str]:
    """Returns what an mdadm said of each member, by the question and the member."""
    text = (RECORDED / f"examine-{version}.txt").read_text()
    found = re.findall(r"^\$ mdadm (--\S+) (\S+)\.img\n(.*?)^rc=", text, re.M | re.S)
    return {f"{question} {member}": answer for question, member, answer in found}


def read_one(text: str) -> Superblock:
    (block,) = [block for block in find_blocks(clean_lines(text)) if is_superblock(block)]
    superblock = read_superblock(block)
    assert superblock is not None
    return superblock


def values(superblock: Superblock) -> dict[str, object]:
    return {name: getattr(superblock, name) for name in FIELDS}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("member", MEMBERS)
def test_the_text_of_every_mdadm_says_what_the_superblock_says(version: str, member: str, tmp_path: Path) -> None:
    answer = answers(version).get(f"--examine {member}", "")
    if "Magic : a92b4efc" not in answer:
        pytest.skip("this mdadm does not print this superblock")
    read = newest_superblock(read_superblocks(member_image(member, tmp_path)))
    assert read is not None
    text = read_one(answer)
    assert values(text) == values(read)
    if read.version != "0.90":
        assert (text.name, text.data_offset, text.offset) == (read.name, read.data_offset, read.offset)
        if read.bad_blocks is not None:
            assert text.bad_blocks is not None
            assert text.bad_blocks.active == read.bad_blocks.active
            assert (text.bad_blocks.sector, text.bad_blocks.sectors) == (
                read.bad_blocks.sector,
                read.bad_blocks.sectors,
            )


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_of_bad_block_lists_are_those_of_the_disk(version: str, tmp_path: Path) -> None:
    name = "raid1-12-populated.vda"
    said = answers(version)
    text = said[f"--examine {name}"] + said[f"--examine-badblocks {name}"]
    (array,) = read_texts([("mail", text)]).arrays
    read = newest_superblock(read_superblocks(member_image(name, tmp_path)))
    assert read is not None
    assert read.bad_blocks is not None
    assert array.members[0].bad_blocks is not None
    assert array.members[0].bad_blocks.ranges == read.bad_blocks.ranges
    assert array.members[0].unseen == ""
    without = read_texts([("mail", said[f"--examine {name}"])])
    (finding,) = [finding for finding in find_problems(without) if finding.code == "bbl-unseen"]
    assert finding.remedy == (f"mdadm --examine-badblocks {name}.img",)
    assert "bbl-empty" not in {other.code for other in find_problems(without)}
    wrapped = said[f"--examine {name}"].replace(" - bad blocks present.", " - bad\nblocks present.")
    assert read_texts([("mail", wrapped)]).arrays[0].members[0].unseen == LIST_NOT_IN_TEXT


def test_quoted_wrapped_and_coloured_text_is_the_same() -> None:
    text = answers("4.2")["--examine raid1-12-bitmap.vdb"]
    plain = values(read_one(text))
    quoted = "".join(f"> > {line}\r\n" for line in text.splitlines())
    assert values(read_one(f"On Monday, Anna wrote:\r\n{quoted}\r\nAny ideas?\r\n")) == plain
    for mark in ("Anna> ", "% ", "| ", "Bo.B> > "):
        assert values(read_one("".join(f"{mark}{line}\n" for line in text.splitlines()))) == plain
    wrapped = re.sub(r" (\d\d:\d\d:\d\d \d{4})$", r"\n\1", text, flags=re.M)
    wrapped = re.sub(r"sectors \((.*?) ", r"sectors (\1\n", wrapped)
    assert wrapped.count("\n") > text.count("\n") + 2
    assert values(read_one(wrapped)) == plain
    coloured = re.sub(r"^(\s*)(\S)", "\\1\x1b[01;31m\\2\x1b[0m", text, flags=re.M).replace("  ", "\t")
    assert values(read_one(coloured)) == plain


def test_the_slot_of_an_old_mdadm_is_the_role_of_its_number() -> None:
    text = answers("4.2")["--examine raid1-12-bitmap.vdb"]
    text = re.sub(r"^ +Device Role : .*\n", "    Array Slot : 3 (0, failed, failed, 1)\n", text, flags=re.M)
    text = re.sub(r"Array State : .*", "Array State : uU 2 failed", text)
    superblock = read_one(text)
    assert (superblock.role, superblock.slot, superblock.present) == ("active", 1, [True, True])
    assert read_one(text.replace("Array Slot : 3", "Array Slot : 1")).role == "faulty"


def test_a_uuid_that_was_made_unreadable_still_tells_arrays_apart() -> None:
    text = answers("4.2")["--examine raid1-12-bitmap.vdb"]
    hidden = re.sub(r"Array UUID : (\w{4})\S+", r"Array UUID : \1xxxx:uuuu:iiii:dddd", text)
    assert read_one(hidden).uuid.endswith("xxxx:uuuu:iiii:dddd")


def test_a_reshape_that_moves_the_data_is_read() -> None:
    text = (
        superblock(0, "AAAA")
        .replace("Feature Map : 0x0", "Feature Map : 0x64")
        .replace("   Super Offset", "     New Offset : 262144 sectors\n   Super Offset")
    )
    text = text.replace(
        "    Update Time", "  Reshape pos'n : 2048 (2.00 MiB 2.10 MB)\n  New Chunksize : 1M\n\n    Update Time"
    )
    (array,) = read(text).arrays
    found = array.members[0].superblock
    assert found is not None
    assert (found.data_offset, found.new_data_offset, found.reshape_backwards) == (264192, 262144, True)
    assert not found.ppl
    for features, ppl in (("0x400", True), ("0x800", True), ("0x1000", False)):
        (array,) = read(superblock(0, "AAAA").replace("Feature Map : 0x0", f"Feature Map : {features}")).arrays
        assert array.members[0].superblock is not None
        assert array.members[0].superblock.ppl is ppl


def test_whole_disks_with_a_partition_table_may_be_members() -> None:
    table = "/dev/sdb:\n   MBR Magic : aa55\nPartition[0] :   4294967295 sectors at            1 (type ee)\n"
    whole = superblock(0, "AAAA").replace("/dev/sda1", "/dev/sda")
    inventory = read(whole + table + table.replace("sdb", "sdc") + "/dev/md0: inactive\n")
    (array,) = inventory.arrays
    assert array.covered == ("/dev/sdb", "/dev/sdc")
    partitions = read(superblock(0, "AAAA") + table)
    assert [other.covered for other in partitions.arrays] == [()]
    used = read(whole + table + superblock(1, "AAAA"))
    assert [other.covered for other in used.arrays] == [()]
    text = whole.replace("AAAA", "AA..") + table
    (finding,) = [finding for finding in find_problems(read(text)) if finding.code == "cannot-run"]
    assert "/dev/sdb has a partition table and no superblock, and other members are whole disks" in finding.message
