"""Arrays that are not assembled."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.mdadm_conf import parse_listed_arrays, parse_uuid
from blklab.md.remote import read_probe_file
from tests.conftest import Run
from tests.md.conftest import Arrays
from tests.md.crafted import changed

UUID = "3156a3e6:4a433ea3:f425167f:2e6739fd"  # Of raid1-12-bitmap
PROBES = Path(__file__).parents[2] / "data" / "md" / "probes"
ABSENT = {"absent", "not-assembled", "old-superblock"}
DESTRUCTIVE = ("--create", "--add", "--re-add", "--zero-superblock", "--force")


def absent(machine: Arrays) -> list[Diagnostic]:
    """What is found about arrays that are not assembled."""
    found = [finding for finding in find_problems(machine.seen()) if finding.code in ABSENT]
    for finding in found:
        assert not any(word in line for line in finding.remedy for word in DESTRUCTIVE)
    return found


def configure(machine: Arrays, text: str) -> None:
    machine.write(machine.root, {"etc__mdadm__mdadm.conf": text})


def halves(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    machine.disk("sdb", "8:16", "raid1-12-bitmap.vdb")


def test_an_array_whose_members_are_all_there(machine: Arrays) -> None:
    halves(machine)
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("absent", "critical")
    assert UUID in finding.message
    assert "mdadm.conf does not list it. 2 of its 2 members are on this host" in finding.message
    assert finding.message.endswith("All members are current: it can run")
    assert finding.remedy == ("mdadm --assemble --scan",)
    configure(machine, f"ARRAY /dev/md/home UUID={UUID}")
    (finding,) = absent(machine)
    assert (finding.subject, finding.remedy) == ("home", ("mdadm --assemble --scan",))
    assert "mdadm.conf lists it" in finding.message


def test_scan_leaves_out_what_mdadm_conf_does_not_list(machine: Arrays) -> None:
    halves(machine)
    configure(machine, "ARRAY /dev/md7 UUID=99999999:4a433ea3:f425167f:2e6739fd")
    listed, found = sorted(absent(machine), key=lambda finding: finding.subject == "md7", reverse=True)
    assert (listed.subject, listed.severity) == ("md7", "critical")
    assert "no unused disk of this host has a member of it" in listed.message
    assert not any(line[0] != "#" for line in listed.remedy)
    assert found.remedy == (f"# Add this line to mdadm.conf: ARRAY /dev/md/NAME UUID={UUID}", "mdadm --assemble --scan")


def test_a_member_that_is_behind(machine: Arrays) -> None:
    halves(machine)
    # Events and the time of the last update, in the superblock.
    changed(machine.root / "raid1-12-bitmap.vda.img", 192, struct.pack("<Q", 1709294400))
    changed(machine.root / "raid1-12-bitmap.vdb.img", 192, struct.pack("<QQ", 1709300000, 50))
    (finding,) = absent(machine)
    (events,) = (int(word) for word in [finding.message.partition("/sda (slot 0, ")[2].split(" ")[0]])
    assert events >= 40
    assert "events behind, written 2024-03-01 12:00 UTC" in finding.message
    assert "The current members suffice to run it degraded (1 of 2)" in finding.message
    assert finding.remedy[-1] == "mdadm --assemble --scan"


def test_too_few_members_get_words_and_no_command(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    # A RAID-5 of three (level and number of slots), of which one member is here.
    changed(machine.root / "raid1-12-bitmap.vda.img", 72, struct.pack("<I", 5))
    changed(machine.root / "raid1-12-bitmap.vda.img", 88, struct.pack("<II", 128, 3))
    configure(machine, f"ARRAY /dev/md0 UUID={UUID}")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("absent", "critical")
    assert "1 of its 3 members are on this host" in finding.message
    assert "none has slot 1, 2" in finding.message
    assert "The current members do not suffice to run it (1 of 3)" in finding.message
    assert all(line.startswith("# ") for line in finding.remedy)
    assert "superblocks" in finding.remedy[1]


def test_a_single_old_disk_is_a_warning_and_critical_if_it_is_expected(machine: Arrays) -> None:
    machine.disk("sda", "8:0", "raid1-12-bitmap.vda")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("not-assembled", "warning")
    configure(machine, f"ARRAY /dev/md0 UUID={UUID}")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("absent", "critical")


def test_what_is_in_use_or_ignored_is_a_note(machine: Arrays) -> None:
    halves(machine)
    machine.mount("8:0", Path("/srv"), "ext4", "/dev/sda")
    machine.proc("swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb partition 1 0 -2")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("old-superblock", "note")
    assert "/sda (mounted at /srv)" in finding.message
    (machine.roots.proc / "swaps").unlink()
    (machine.roots.proc / "self/mountinfo").unlink()
    configure(machine, f"ARRAY <ignore> UUID={UUID}")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("old-superblock", "note")
    assert "`ARRAY <ignore>`" in finding.message
    configure(machine, "ARRAY <ignore> UUID=99999999:4a433ea3:f425167f:2e6739fd")
    assert [finding.code for finding in absent(machine)] == ["absent"]


@pytest.mark.parametrize(
    "line", [f"ARRAY /dev/md/x UUID={UUID}", "ARRAY /dev/md0", "ARRAY md0", "arr <ignore> uuid=" + UUID]
)
def test_an_assembled_array_is_not_absent(machine: Arrays, line: str) -> None:
    machine.mirror()
    configure(machine, line)
    assert absent(machine) == []


def test_0_90_of_a_plain_user_is_recognised_by_sysfs(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    uuid = "79a1b61a-7e6a-220a-3c6b-183d348f9553"
    machine.array("md0", "9:0", {"sda": {}}, metadata_version="0.90", uuid=uuid)
    configure(machine, "ARRAY /dev/md/x UUID=1ab6a179:0a226a7e:3d186b3c:53958f34")
    assert absent(machine) == []


def test_an_array_without_a_known_uuid_may_be_the_listed_one(machine: Arrays) -> None:
    machine.disk("sda", "8:0")
    machine.array("md127", "9:127", {"sda": {}})
    configure(machine, f"ARRAY /dev/md0 UUID={UUID}")
    (finding,) = absent(machine)
    assert finding.severity == "warning"
    assert "the UUID of md127 could not be read" in finding.message


def test_the_command_exits_with_1_and_finds_it_by_name(
    machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    halves(machine)
    configure(machine, f"ARRAY /dev/md0 UUID={UUID}\nARRAY /dev/md7 name=host:7\n")
    done = run("md", "audit")
    assert done.status == 1
    assert "No md array is assembled." in done.out
    assert "not assembled" in done.out
    for name, expected in (("md0", ["md0"]), ("/dev/md7", ["md7"]), ("md7", ["md7"])):
        done = run("md", "audit", "--json", "--array", name)
        document = json.loads(done.out)
        assert {finding["subject"] for finding in document["findings"]} == {*expected}
        assert done.status == 1
    document = json.loads(run("md", "audit", "--json").out)
    assert [array["state"] for array in document["unassembled"]] == ["not assembled"]
    assert [member["name"] for member in document["outside"]] == ["sda", "sdb"]
    assert [line["path"] for line in document["listed"]] == ["/dev/md0", "/dev/md7"]
    done = run("md", "audit", "--array", "md9")
    assert (done.status, done.err) == (2, "blklab: error: --array md9: this host has no array md9: expected md0, md7\n")


def test_a_chosen_array_does_not_make_its_line_absent(
    machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    machine.mirror()
    configure(machine, f"ARRAY /dev/md/home UUID={UUID}")
    findings = json.loads(run("md", "audit", "--json", "--array", "md0").out)["findings"]
    assert not ABSENT & {finding["rule"] for finding in findings}


def test_an_old_recording_of_a_raid6_that_failed_names_what_it_did_not_read() -> None:
    host = read_probe_file(str(PROBES / "raid6-failed.probe"))
    assert host.inventory is not None
    (line,) = host.inventory.unread
    assert line.startswith("/dev/sdg1, /dev/sdh1: not seen: this probe did not read it: record it again")
    assert host.unseen
    assert not ABSENT & {finding.code for finding in host.findings}


def test_two_halves_of_a_mirror_are_both_assembled() -> None:
    host = read_probe_file(str(PROBES / "two-halves.probe"))
    assert host.inventory is not None
    assert host.inventory.outside == ()
    assert not ABSENT & {finding.code for finding in host.findings}


def test_array_lines_of_mdadm_conf() -> None:
    text = f"""
# ARRAY /dev/md9 UUID={UUID}
ARRAY /dev/md0 metadata=1.2 name=host:0 UUID={UUID}
array home UUID=3156a3e6.4a433ea3.f425167f.2e6739fd
   spares=1
ARR <Ignore> uuid=3156A3E64A433EA3F425167F2E6739FD # retired
ARRAY "/dev/md/a b" name='x y'
ARRAY metadata=imsm UUID={UUID}
ARRAY /dev/md/Volume0 container={UUID} member=0 UUID={UUID}
AR /dev/md3
DEVICE partitions
ARRAY
"""
    lines = list(parse_listed_arrays(text, "mdadm.conf"))
    assert [(line.path, line.uuid, line.name, line.ignored) for line in lines] == [
        ("/dev/md0", UUID, "host:0", False),
        ("/dev/md/home", UUID, "", False),
        ("<Ignore>", UUID, "", True),
        ("/dev/md/a b", "", "x y", False),
    ]
    assert [line.short_name for line in lines] == ["md0", "home", "", "a b"]


@given(
    st.integers(3, 5), st.booleans(), st.sampled_from([":", ".", "-", ""]), st.binary(min_size=16, max_size=16),
    st.lists(st.sampled_from(["spares=1", "metadata=1.2", "level=raid1", "num-devices=2", "auto=yes"])),
)  # fmt: skip
def test_a_line_has_the_same_meaning_in_every_spelling(
    length: int, upper: bool, separator: str, uuid: bytes, others: list[str]
) -> None:
    keyword = "array"[:length]
    words = [uuid.hex()[at : at + 8] for at in range(0, 32, 8)]
    line = " ".join([keyword, "/dev/md4", *others, f"uuid={separator.join(words)}"])
    (listed,) = parse_listed_arrays(line.upper().replace("/DEV/MD4", "/dev/md4") if upper else line)
    expected = ":".join(words) if any(uuid) else ""
    assert (listed.path, listed.uuid) == ("/dev/md4", expected)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for line in parse_listed_arrays(text):
        assert line.path or line.uuid or line.name
        assert line.uuid == parse_uuid(line.uuid)


def test_an_array_of_logical_volumes_may_be_that_of_a_virtual_machine(machine: Arrays) -> None:
    for at, name in enumerate(("dm-0", "dm-1")):
        machine.disk(name, f"253:{at}", f"raid1-12-bitmap.vd{'ab'[at]}", dm__uuid=f"LVM-abc{at}")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity, finding.remedy) == ("old-superblock", "note", ())
    assert "virtual machine" in finding.message
    configure(machine, f"ARRAY /dev/md0 UUID={UUID}")
    (finding,) = absent(machine)
    assert (finding.code, finding.severity) == ("absent", "critical")
