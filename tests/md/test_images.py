"""Arrays out of images."""

import io
import json
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from blklab.diagnostic import Diagnostic
from blklab.md import images, report
from blklab.md.audit import find_problems
from blklab.md.good_copies import find_lost_ranges
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.superblocks import SectorRange, read_superblocks
from blklab.text.natural_order import natural_order
from tests.conftest import Run
from tests.md.conftest import DATA, image
from tests.md.crafted import changed, with_block_size, with_lockless_bitmap

TEXT = DATA.parent / "text"


def audited(*paths: Path) -> list[Diagnostic]:
    return find_problems(images.read_images(paths))


def rules(result: list[Diagnostic]) -> dict[str, Diagnostic]:
    return {item.code: item for item in reversed(result)}


@pytest.mark.parametrize(
    "name",
    ["raid1-12", "raid1-12-bitmap", "raid1-11", "raid1-10", "raid1-090", "raid10-n2", "raid10-f2",
     "raid10-o2", "raid1-12-conf-bblno"],
)  # fmt: skip
def test_recorded_arrays_as_mdadm_has_them(name: str, tmp_path: Path) -> None:
    paths = [image(f"{name}.{disk}", tmp_path) for disk in ("vda", "vdb")]
    result = images.read_images(paths)
    (array,) = result.arrays
    assert [member.slot for member in array.members] == [0, 1]
    text = (TEXT / f"{name}.examine.txt").read_text()

    def values_of(field: str) -> list[str]:
        return re.findall(rf"^ *{field} : (.*?) *$", text, re.M)

    assert values_of("Raid Level") == [array.level] * 2
    assert array.uuid in values_of("(?:Array )?UUID")[0]
    assert array.size == int(values_of("Array Size")[0].split()[0]) * 1024
    listed = (TEXT / f"{name}.badblocks.txt").read_text()
    assert ("is empty" in listed) == all(item.bad_blocks for item in array.members)
    wanted = "bbl-empty" if "is empty" in listed else "bbl-none"
    assert wanted in rules(find_problems(result))


def test_entries_and_what_not_to_do(tmp_path: Path) -> None:
    paths = [image(f"raid1-12-populated.{disk}", tmp_path) for disk in ("vda", "vdb")]
    result = rules(audited(*paths))
    entries = result["bbl-entries"]
    assert entries.severity == "critical"
    assert entries.message == (
        "bad-block list has 5 entries, 1,608 sectors: 4096-4103 (array 2048-2055), 10000-10099"
        " (array 7952-8051), 20000-21499 (array 17952-19451); one copy fewer there: the only good"
        " copy is on raid1-12-po…ated.vdb.img"
    )
    assert entries.ranges[0] == {"member_sector": 4096, "sectors": 8, "array_ranges": [{"sector": 2048, "sectors": 8}]}
    assert result["repair-corrupts"].severity == "critical"
    assert "DO NOT run `repair`" in result["repair-corrupts"].message
    assert not any(item.remedy for item in result.values()), "it is not assembled here"


def test_a_full_list(tmp_path: Path) -> None:
    result = rules(audited(image("raid1-12-full.vda", tmp_path)))
    assert "512 entries" in result["bbl-full"].message
    assert result["not-given"].message.startswith("the member of slot 1 was not given")


def test_zeros_that_are_said_to_be_a_list(tmp_path: Path) -> None:
    result = rules(audited(image("raid1-12-add-failed-6.12-zero-bbl.vdc", tmp_path)))
    assert "512 of its entries have 0 sectors" in result["bbl-zeros"].message
    assert "bbl-entries" not in result
    assert "1 of 2 members is missing" in result["degraded"].message


def test_the_same_entries_on_both(tmp_path: Path) -> None:
    item, other = (image(f"raid1-12-populated.{disk}", tmp_path) for disk in ("vda", "vdb"))
    head = bytearray(item.read_bytes()[:65536])
    list_of_one = head[12288 : 12288 + 4096]
    content = bytearray(other.read_bytes()[:65536])
    content[12288 : 12288 + 4096] = list_of_one
    content[4096 + 8] |= 8
    other.write_bytes(content + bytes(1 << 20))
    result = rules(audited(item, other))
    assert "3 bad ranges" in result["bbl-copied"].message
    assert "array sectors 2048-2055, 7952-8051, 17952-19451" in result["bbl-lost"].message
    assert result["checksum"].member == "raid1-12-po…ated.vdb.img"


@pytest.mark.parametrize("changed", [False, True], ids=["copy", "newer"])
def test_images_of_one_slot_are_one_member(changed: bool, tmp_path: Path, run: Run) -> None:
    listed = image("raid1-12-populated.vda", tmp_path)
    copy = tmp_path / "copy.img"
    copy.write_bytes(listed.read_bytes())
    if changed:  # the copy is of an earlier moment, without the entries, and with fewer events
        with copy.open("r+b") as file:
            file.seek(12288)
            file.write(b"\xff" * 4096)
            file.seek(4096 + 200)
            file.write(b"\x01")
    for paths in ((listed, copy), (copy, listed)):
        result = rules(audited(*paths, image("raid1-12-populated.vdb", tmp_path)))
        assert {"bbl-entries", "same-slot", "repair-corrupts"} <= set(result)
        assert not {"bbl-lost", "bbl-copied"} & set(result)
        outcome = run("md", "audit", "--image", *paths)
        assert (outcome.status, "bbl-lost" in outcome.out) == (1, False)
        assert "[bbl-entries]" in outcome.out


@pytest.mark.parametrize("level", ["raid1", "raid10", "raid5", "raid6"])
@given(data=st.data())
def test_a_copy_of_a_member_changes_no_lost_range(level: str, data: st.DataObject) -> None:
    disks = 4
    members = [
        ArrayMember(
            name=f"{slot}.img",
            path="",
            slot=slot,
            states=("in_sync",),
            data_offset=0,
            listed=tuple(SectorRange(at * 8, 8) for at in data.draw(st.sets(st.integers(0, 30), max_size=6))),
        )
        for slot in range(disks)
    ]
    array = Array(
        "md0", "", "", level, 0x102 if level == "raid10" else 2, 4096, disks, "1.2", True, tuple(members), 512
    )
    copies = data.draw(st.lists(st.sampled_from(members), max_size=4))
    copied = [replace(member, name=f"copy {at} of {member.name}") for at, member in enumerate(copies)]
    doubled = replace(array, members=(*data.draw(st.permutations([*members, *copied])),))
    assert find_lost_ranges(doubled) == find_lost_ranges(array)
    assert bool(rules(find_problems(Inventory((doubled,)))).get("bbl-copied")) == bool(
        rules(find_problems(Inventory((array,)))).get("bbl-copied")
    )


def test_the_size_of_an_array_counts_no_member_twice(tmp_path: Path) -> None:
    first = image("raid1-12.vda", tmp_path)
    head = bytearray(first.read_bytes()[:8192])
    head[4096 + 72 : 4096 + 76] = bytes(4)  # RAID-0
    paths = [tmp_path / name for name in ("a.img", "b.img")]
    for path in paths:
        path.write_bytes(head + bytes(1 << 20))
    (array,) = images.read_images(paths).arrays
    assert (array.level, array.size, array.absent) == ("raid0", None, (1,))


def test_arrays_of_one_name_are_told_apart(tmp_path: Path) -> None:
    result = images.read_images([image("raid1-12.vda", tmp_path), image("raid10-n2.vda", tmp_path)]).arrays
    assert len({array.name for array in result}) == 2


def test_names_of_images_are_short_and_differ(tmp_path: Path) -> None:
    long = "nas-disk-WDC_WD40EFRX-68N32N0_WD-WCC7K{}ABCDEFGH-2024-05-01.img"
    names = ["one/sda.img", "two/sda.img", "sdb.img", long.format(0), long.format(1), "x" * 60, "x" * 61]
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(image("raid1-12.vda", tmp_path).read_bytes()[:65536])
    (array,) = images.read_images(paths).arrays
    shown = [member.name for member in array.members]
    assert len(set(shown)) == len(names)
    assert {member.path for member in array.members} == set(map(str, paths))
    assert max(map(len, shown)) <= 63  # the two names of x differ only in their length
    (array,) = images.read_images(paths[:5]).arrays
    assert max(len(member.name) for member in array.members) <= 48
    assert {"one/sda.img", "two/sda.img"} <= {member.name for member in array.members}


def test_one_that_is_behind(tmp_path: Path) -> None:
    paths = [image(f"raid1-12-populated.{disk}", tmp_path) for disk in ("vda", "vdb")]
    changed(paths[1], 200, bytes(8))
    result = rules(audited(*paths))
    assert "2 events behind (event count 0, the others have 2)" in result["events"].message


def test_leftovers(tmp_path: Path) -> None:
    path = image("raid1-12.vda", tmp_path)
    old = image("raid1-090.vda", tmp_path)
    with path.open("r+b") as file, old.open("rb") as other:
        for at in (256 << 20) - 131072, (256 << 20) - 65536:
            file.seek(at)
            other.seek(at)
            file.write(other.read(65536))
    result = rules(audited(path))
    assert "has a second superblock, " in result["two-superblocks"].message


def test_images_from_the_command_line(run: Run, tmp_path: Path) -> None:
    paths = [image(f"raid1-12-populated.{disk}", tmp_path) for disk in ("vda", "vdb")]
    done = run("md", "audit", "--image", paths[0], paths[1])
    assert done.status == 1
    assert "DO NOT run `repair`" in done.out
    assert "5 entries" in done.out
    document = json.loads(run("md", "audit", "--json", "--image", paths[0]).out)
    assert document["format_version"] == 1
    assert document["counts"]["critical"] == 2
    assert document["arrays"][0]["slots_not_given"] == [1]
    assert len(document["arrays"][0]["members"][0]["bad_blocks"]["disk"]) == 5
    sound = [image(f"raid1-12-bitmap.{disk}", tmp_path) for disk in ("vda", "vdb")]
    assert run("md", "audit", "--image", *sound).status == 0
    assert run("md", "audit", "--severity", "note", "--image", *sound).status == 1


def test_what_cannot_be_seen(run: Run, tmp_path: Path) -> None:
    done = run("md", "audit", "--image", tmp_path / "none")
    assert done.status == 3
    assert done.err.count("\n") == 1
    assert done.err == f"blklab: error: {tmp_path}/none: no such file or directory; name readable images\n"
    done = run("md", "audit", tmp_path / "none")
    assert done.status == 2
    blank = tmp_path / "blank"
    blank.write_bytes(bytes(1 << 20))
    done = run("md", "audit", "--image", blank, tmp_path / "none")
    assert done.status == 1
    assert "is not a member of an md array: no superblock" in " ".join(done.out.split())
    assert "Not seen" in done.out


def test_firmware_raid_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "disk"
    path.write_bytes(bytes((1 << 20) - 1024) + b"Intel Raid ISM Cfg Sig. 1.3.00".ljust(1024, b"\0"))
    done = run("md", "audit", "--image", path)
    assert done.status == 0
    assert "has metadata of Intel IMSM" in " ".join(done.out.split())


def test_hostile_names(run: Run, tmp_path: Path) -> None:
    path = image("raid1-12.vda", tmp_path)
    content = bytearray(path.read_bytes()[:65536])
    content[4096 + 32 : 4096 + 64] = b"\x1b[2J$(reboot);`id`\xe2\x80\xae\x00".ljust(32, b"\0")
    hostile = tmp_path / "\x1b]0;x\x07 $(reboot)\n"
    hostile.write_bytes(content + bytes(1 << 20))
    for words in (["--image", hostile], ["--json", "--image", hostile]):
        done = run("md", "audit", *words)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.out)
        assert "\u202e" not in done.out


def members_shown(*paths: Path) -> str:
    """Returns the state and the members of the only array, as the table of arrays has them."""
    (row,) = report.arrays_table(images.read_images(paths)).rows
    return " ".join(row[-2:])


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (
            8,
            struct.pack("<I", 0x8001),
            "unknown feature bits 0x8000, expected only 0x1fff: the superblock is damaged, or of a kernel newer than"
            " 7.1",
        ),
        (92, b"\xff" * 4, "raid_disks is 4294967295, expected 1 to 128"),
        (92, bytes(4), "raid_disks is 0, expected 1 to 128"),
        (92, struct.pack("<I", 129), "raid_disks is 129, expected 1 to 128"),
        (136, bytes(8), "data_size is 0, expected at least 10"),
    ],
)
def test_superblocks_that_the_kernel_refuses(at: int, content: bytes, message: str, tmp_path: Path) -> None:
    good, bad = (image(f"raid1-12-bitmap.{disk}", tmp_path) for disk in ("vda", "vdb"))
    assert members_shown(good, bad) == "clean 2/2"
    changed(bad, at, content)
    findings = audited(good, bad)
    refused = next(finding for finding in findings if finding.code == "refused")
    assert (refused.severity, refused.member) == ("critical", bad.name)
    expected = f"the kernel refuses its superblock 1.2: {message}; assemble the array without this member"
    assert refused.message == expected
    assert not {"damage", "checksum", "unlike", "not-given"} & {finding.code for finding in findings}
    assert members_shown(good, bad) == "clean 1/2"
    (array,) = images.read_images([good, bad]).arrays
    reason = "raid-disks" if at == 92 else "features" if at == 8 else "data-size"
    document = array.as_dict()
    assert document["usable_members"] == 1
    assert [refusal["reason"] for refusal in document["members"][1]["superblock"]["refusal_reasons"]] == [reason]


def test_an_array_whose_superblocks_are_all_refused_is_not_clean(tmp_path: Path) -> None:
    paths = [changed(image(f"raid1-12-populated.{disk}", tmp_path), 92, b"\xff" * 4) for disk in ("vda", "vdb")]
    assert members_shown(*paths) == "refused 0/128"
    (array,) = images.read_images(paths).arrays
    assert (array.degraded, array.size) == (None, None)
    findings = [finding for finding in audited(*paths) if finding.code == "refused"]
    assert [finding.message.rpartition(": ")[2] for finding in findings] == [
        "raid_disks is 4294967295, expected 1 to 128"
    ] * 2


@pytest.mark.parametrize("disks", [0, 28, 1 << 31])
def test_slots_of_version_0_90_that_cannot_be(disks: int, tmp_path: Path) -> None:
    path = image("raid1-090.vda", tmp_path)
    with path.open("r+b") as file:
        file.seek(-65536, io.SEEK_END)
        words = [*struct.unpack("<1024I", file.read(4096))]
        words[10] = disks
        words[38] = 0
        total = sum(words)
        words[38] = ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF
        file.seek(-65536, io.SEEK_END)
        file.write(struct.pack("<1024I", *words))
    (refused,) = (finding for finding in audited(path) if finding.severity == "critical")
    assert refused.message == f"the kernel refuses its superblock 0.90: raid_disks is {disks}, expected 1 to 27"


def test_a_wrong_checksum_is_reported_once(tmp_path: Path) -> None:
    good, bad = (image(f"raid1-12-bitmap.{disk}", tmp_path) for disk in ("vda", "vdb"))
    changed(bad, 216, b"\xff\xff", sign=False)
    about = [finding.code for finding in audited(good, bad) if finding.member == bad.name]
    assert about == ["checksum"]
    assert members_shown(good, bad) == "clean 1/2"


def test_what_only_newer_kernels_know_is_no_damage(tmp_path: Path) -> None:
    paths = [with_block_size(disk, tmp_path) for disk in ("vda", "vdb")]
    assert members_shown(*paths) == "clean 2/2"
    findings = [finding for finding in audited(*paths) if finding.severity != "note"]
    assert {(finding.code, finding.severity) for finding in findings} == {("newer-kernel", "warning")}
    assert findings[0].message == (
        "its logical block size is 4096 bytes, expected 0 before Linux 6.19: Linux 6.18 and older refuse this member, "
        "and rescue media are often older; use the array with Linux 6.19 or newer"
    )


def test_a_lockless_bitmap_is_read_and_needs_a_newer_kernel(tmp_path: Path) -> None:
    paths = [with_lockless_bitmap(disk, tmp_path) for disk in ("vda", "vdb")]
    for path in paths:
        (superblock,) = read_superblocks(path).members
        assert superblock.bitmap_lockless
        assert superblock.bitmap_superblock is not None
        assert superblock.bitmap_superblock.chunk == 16 << 20
    findings = [finding for finding in audited(*paths) if finding.code == "newer-kernel"]
    assert {finding.severity for finding in findings} == {"warning"}
    assert "Linux 6.17 and older, and mdadm before 4.6" in findings[0].message


def test_the_members_of_an_array_of_images_are_usable_slots(tmp_path: Path) -> None:
    first, second = (image(f"raid1-12-bitmap.{disk}", tmp_path) for disk in ("vda", "vdb"))
    copy = tmp_path / "copy.img"
    copy.write_bytes(first.read_bytes()[:131072])
    assert members_shown(first, second) == "clean 2/2"
    assert members_shown(first, second, copy) == "clean 2/2"
    assert members_shown(first, copy) == "clean 1/2"
    assert members_shown(second) == "clean 1/2"
    assert {"same-slot", "not-given"} <= {finding.code for finding in audited(first, copy)}
    changed(first, 200, struct.pack("<Q", 1 << 20))  # Events: the other one is out of date
    assert members_shown(first, second) == "clean 1/2"


def test_arrays_and_images_are_in_natural_order(tmp_path: Path) -> None:
    paths = []
    for number in (10, 9, 100):
        path = image("raid1-12.vda", tmp_path).rename(tmp_path / f"{number}.img")
        changed(path, 16, bytes([number] * 16))
        paths.append(changed(path, 32, f"host:{number}".encode().ljust(32, b"\0")))
    assert [array.name for array in images.read_images(paths).arrays] == ["host:9", "host:10", "host:100"]
    assert [natural_order(name) for name in ("md2", "md10")] == sorted(natural_order(name) for name in ("md10", "md2"))
    assert sorted(["sdaa", "sdb", "sda10", "sda", "sda2"], key=natural_order) == ["sda", "sda2", "sda10", "sdb", "sdaa"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


NAMES = sorted(path.name.split(".head")[0] for path in DATA.glob("*head64k.gz"))


@given(
    st.sampled_from(NAMES),
    st.lists(
        st.tuples(
            st.sampled_from([0, 4096, 12288, (256 << 20) - 131072 + 122880, (256 << 20) - 65536]),
            st.one_of(st.integers(0, 260), st.integers(0, 4096)),
            st.binary(min_size=1, max_size=16) | st.just(b"\xff" * 8),
        ),
        max_size=6,
    ),
)
@example("raid10-n2.vda", [(4096, 92, b"\xff" * 4)])
@example("raid10-f2.vda", [(4096, 76, b"\xff" * 4), (4096, 8, b"\x08")])
@example("raid10-f2.vda", [(4096, 76, b"\x00" * 4), (4096, 8, b"\x08")])
@example("raid1-12-full.vda", [(4096, 72, b"\x05\0\0\0\x02\0\0\0"), (4096, 88, b"\x01")])
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_make_it_fail(directory: Path, name: str, changes: list[tuple[int, int, bytes]]) -> None:
    path = image(name, directory)
    with path.open("r+b") as file:
        for at, beyond, content in changes:
            file.seek(at + beyond)
            file.write(content)
    whole = image("raid1-12-full.vdb", directory)
    result = images.read_images([path, whole])
    document = report.as_dict(result, find_problems(result))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    console = Console(file=io.StringIO(), markup=False, emoji=False, highlight=False)
    report.show(console, result, find_problems(result))


def test_a_directory_is_no_image(run: Run, tmp_path: Path) -> None:
    done = run("md", "audit", "--image", tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err == f"blklab: error: {tmp_path}: is a directory: name the images in it\n"
