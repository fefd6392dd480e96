"""What blklab reads of members is what every mdadm from Debian 11 to sid says about them.

`tests/data/md/mdadm` has the recorded answers of each version; see `mdadm_output`.
"""

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from blklab.md import images
from blklab.md.report import layout_text
from blklab.md.superblocks import Superblock, read_superblocks
from tests.md.mdadm_output import MEMBERS, member_image, outputs

RECORDED = Path(__file__).parents[1] / "data" / "md" / "mdadm"
VERSIONS = [path.stem.removeprefix("examine-") for path in sorted(RECORDED.glob("examine-*.txt"))]


def parse_answers(text: str) -> dict[tuple[str, str], str]:
    """Returns the answers by question and member, with their exit status at the end."""
    return {
        (question, name): answer
        for question, name, answer in re.findall(r"^\$ mdadm (\S+) (\S+)\.img\n(.*?^rc=\d+\n)", text, re.M | re.S)
    }


def values(answer: str) -> dict[str, str]:
    """Returns `Key : value` of an answer."""
    return {key.strip(): value.strip() for key, value in re.findall(r"^ *([\w -]+?) : (.*)$", answer, re.M)}


def number(value: str) -> int:
    return int(value.split(maxsplit=1)[0])


def check_superblock(printed: dict[str, str], superblock: Superblock, path: Path) -> None:
    checksum = superblock.checksum
    said = "correct" if checksum.stored == checksum.computed else f"expected {checksum.computed:x}"
    assert printed["Checksum"] == f"{checksum.stored:x} - {said}"
    assert printed["Raid Level"] == superblock.level_name
    assert number(printed["Raid Devices"]) == superblock.raid_disks
    assert printed["Events"] == str(superblock.events)
    updated = datetime.fromtimestamp(superblock.updated, UTC)
    assert printed["Update Time"] == f"{updated:%a %b} {updated.day:2} {updated:%H:%M:%S %Y}"
    if superblock.level == 10:
        (array,) = images.read_images([path]).arrays
        assert printed["Layout"] == layout_text(array)
        assert printed["Chunk Size"] == f"{superblock.chunk >> 10}K"
    if superblock.version == "0.90":
        assert printed["Version"].startswith("0.90")
        assert printed["UUID"].startswith(superblock.uuid)
        return
    assert printed["Version"] == superblock.version
    assert (printed["Array UUID"], printed["Device UUID"]) == (superblock.uuid, superblock.device)
    assert printed["Name"].split(" ")[0] == superblock.name
    assert number(printed["Avail Dev Size"]) == superblock.data_size
    assert number(printed.get("Data Offset", "0")) == superblock.data_offset
    assert number(printed["Super Offset"]) * 512 == superblock.offset
    assert printed["Device Role"] == f"Active device {superblock.slot}"
    assert printed["Array State"].split()[0] == "".join("A" if there else "." for there in superblock.present)
    assert ("Internal Bitmap" in printed) == superblock.bitmap
    if listed := superblock.bad_blocks:
        offset = listed.sector - superblock.offset // 512
        assert printed["Bad Block Log"].startswith(f"{listed.room} entries available at offset {offset} sectors")
    assert ("Bad Block Log" in printed) == (listed is not None)


def check_bad_blocks(answer: str, superblock: Superblock) -> None:
    found = [(int(sector), int(many)) for sector, many in re.findall(r"^ *(\d+) for (\d+) sectors$", answer, re.M)]
    listed = superblock.bad_blocks
    assert found == ([(entry.sector, entry.sectors) for entry in listed.entries] if listed else [])
    if superblock.version == "0.90":
        assert "0.90 metadata does not support badblocks" in answer
    elif not found:
        assert ("No bad-blocks list configured" if listed is None else "Bad-blocks list is empty") in answer


def check_bitmap(answer: str, superblock: Superblock) -> None:
    printed, bitmap = values(answer), superblock.bitmap_superblock
    if bitmap is None:
        assert answer.endswith("rc=1\n")
        return
    assert number(printed["Version"]) == bitmap.version
    if superblock.bitmap_lockless:
        assert "unknown bitmap version 6" in answer, "no mdadm up to 4.6 prints it"
        return
    assert printed["UUID"] == bitmap.uuid == superblock.uuid
    assert printed["Chunksize"] == f"{bitmap.chunk >> 20} MB"
    assert printed["Daemon"] == f"{bitmap.daemon_sleep}s flush period"
    assert number(printed["Sync Size"]) * 2 == bitmap.sync_size


def check_member(answers: dict[tuple[str, str], str], name: str, directory: Path) -> None:
    """Compares what blklab reads of a member with what an mdadm said."""
    path = member_image(name, directory)
    (superblock,) = read_superblocks(path).members
    check_superblock(values(answers["--examine", name]), superblock, path)
    check_bad_blocks(answers["--examine-badblocks", name], superblock)
    if ("--examine-bitmap", name) in answers:
        check_bitmap(answers["--examine-bitmap", name], superblock)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("member", MEMBERS)
def test_blklab_reads_what_mdadm_said(version: str, member: str, tmp_path: Path) -> None:
    answers = parse_answers((RECORDED / f"examine-{version}.txt").read_text())
    assert ("--examine-bitmap", member) in answers
    check_member(answers, member, tmp_path)


def test_the_oldest_and_the_newest_mdadm_of_debian_are_recorded() -> None:
    assert VERSIONS == ["4.1", "4.2", "4.4", "4.6"]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_mdadm_warns_of_a_superblock_for_newer_kernels(version: str) -> None:
    """Up to 4.6, mdadm does not print the logical block size of the crafted superblock, so blklab must."""
    answers = parse_answers((RECORDED / f"examine-{version}.txt").read_text())
    printed, usual = (values(answers["--examine", name]) for name in ("crafted-block-size", "raid1-12-bitmap.vdb"))
    assert printed.keys() == usual.keys()
    assert printed["Checksum"].endswith(" - correct")


def test_blklab_reads_what_the_mdadm_of_this_machine_says(tmp_path: Path) -> None:
    found = shutil.which("mdadm", path="/usr/sbin:/sbin:/usr/bin:/bin")
    program = os.environ.get("BLKLAB_MDADM", found or "").split()
    if not program:
        pytest.skip("mdadm is not installed: apt-get install mdadm, or name a command that runs it in BLKLAB_MDADM")
    try:
        said = list(outputs(program))
    except (OSError, subprocess.CalledProcessError):  # no loop devices, or no rights
        said = list(outputs(program, bitmaps=False))
    for member in MEMBERS:
        check_member(parse_answers("".join(said)), member, tmp_path)
