"""The report of a host with many arrays."""

import io
from dataclasses import replace

from rich.console import Console

from blklab.diagnostic import Diagnostic
from blklab.md import report
from blklab.md.model import Array, ArrayMember, DiskHealth, Inventory, PhysicalDisk

WIDTH = 100


def mirror(number: int) -> Array:
    """Returns a RAID-1 of two invented disks."""
    members = tuple(
        ArrayMember(name, f"/dev/{name}", slot=slot, states=("in_sync",), listed=())
        for slot, name in enumerate((f"sd{number}a", f"sd{number}b"))
    )
    return Array(
        f"md{number}", f"/dev/md{number}", "", "raid1", 0, 0, 2, "1.2", True, members, state="clean", degraded=0,
        bitmap=True,
    )  # fmt: skip


def note(array: Array) -> Diagnostic:
    """Returns a note that names an array and both of its members."""
    names = " and ".join(member.name for member in array.members)
    return Diagnostic(
        "bbl-empty", "note", array.name, f"{names} have empty lists", (f"blklab md fix bbl {array.path}",)
    )


def broken(array: Array) -> Diagnostic:
    """Returns a critical finding about the first member."""
    name = array.members[0].name
    return Diagnostic("faulty", "critical", array.name, f"{name} is faulty", (f"mdadm {array.path} -r {name}",), name)


def printed(arrays: list[Array], findings: list[Diagnostic], unseen: tuple[str, ...] = ()) -> list[str]:
    """Returns the lines of the report without trailing spaces."""
    console = Console(file=io.StringIO(), width=WIDTH, markup=False, emoji=False, highlight=False)
    ordered = sorted(findings, key=lambda finding: finding.rank)
    report.show(console, Inventory(tuple(arrays), unseen=unseen), ordered)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


HOST = [mirror(number) for number in range(200)]


def test_200_arrays_with_one_problem_fit_on_a_screen() -> None:
    lines = printed(HOST, [broken(HOST[70]), *map(note, HOST)])
    assert len(lines) <= 30
    assert "199 other arrays: clean; all members in sync, no finding above note" in lines
    assert sum(line.startswith("md70 ") for line in lines) == 1
    assert "critical  md70 sd70a: sd70a is faulty [faulty]" in lines
    assert not any(line.startswith(("md1 ", "sd1a")) for line in lines)
    assert "0 warning" in lines[-1]
    assert "200 note" in lines[-1]


def test_200_arrays_with_the_same_problem_fit_on_a_screen() -> None:
    lines = printed(HOST, [*map(broken, HOST), *map(note, HOST)])
    assert len(lines) <= 40
    assert sum("[faulty]" in line for line in lines) == sum("[bbl-empty]" in line for line in lines) == 1
    text = " ".join(" ".join(lines).split())
    assert "192 more arrays with findings or missing members; --array NAME shows" in text
    assert "The same 199 times more: md1 sd1a, md2 sd2a, " in text
    assert "md20 sd20a and 179 more (--json lists all); the commands below are for md0 sd0a" in text
    assert "mdadm /dev/md0 -r sd0a" in text
    assert "mdadm /dev/md1 " not in text


def test_an_array_with_a_failing_disk_is_shown() -> None:
    disks = (PhysicalDisk("sd5b", "/dev/sd5b", ("md5", "md7"), DiskHealth()),)
    finding = Diagnostic("smart-failed", "critical", "", "reports that it fails", (), "sd5b")
    shown, lines = report._worst_arrays(Inventory(tuple(HOST), disks=disks), [finding])
    assert [array.name for array in shown] == ["md5", "md7"]
    assert lines == ["198 other arrays: clean; all members in sync, no finding above note"]


def test_json_has_every_finding_of_200_arrays() -> None:
    document = report.as_dict(Inventory(tuple(HOST)), [*map(broken, HOST), *map(note, HOST)])
    assert (len(document["arrays"]), len(document["findings"])) == (200, 400)


def test_200_sound_arrays_are_one_line() -> None:
    checked = [replace(array, state="active") if number < 20 else array for number, array in enumerate(HOST)]
    lines = printed(checked, [])
    assert lines[0] == "200 arrays: 180 clean and 20 active; all members in sync, no finding above note"
    assert len(lines) <= 3


def test_few_arrays_are_all_shown() -> None:
    few = HOST[:8]
    lines = printed(few, list(map(note, few)))
    assert sum(line.startswith("md") and line.endswith("2/2") for line in lines) == 8
    assert sum(line.startswith("sd") for line in lines) == 16


def test_findings_that_differ_in_more_than_names_are_not_grouped() -> None:
    first, second, third = (broken(array) for array in HOST[:3])
    assert sum("[faulty]" in line for line in printed(HOST[:3], [first, second, third])) == 1
    for other in (
        replace(third, message=f"{third.message} since Monday"),
        replace(third, remedy=("reboot",)),
        replace(third, severity="warning"),
        replace(third, code="events"),
    ):
        lines = printed(HOST[:3], [first, second, other])
        assert sum("[faulty]" in line or "[events]" in line for line in lines) == 3
    assert sum("[faulty]" in line for line in printed(HOST[:2], [first, second])) == 2


def test_a_member_name_within_a_word_is_not_a_name() -> None:
    named = [replace(mirror(number), name=f"d{number}") for number in range(3)]
    findings = [Diagnostic("x", "note", array.name, f"raid{at} md{at}x") for at, array in enumerate(named)]
    assert sum("[x]" in line for line in printed(named, findings)) == 3


def test_places_that_were_not_seen_for_one_reason_are_one_line() -> None:
    unseen = tuple(f"/dev/sd{number}: not seen: permission denied" for number in range(400))
    lines = printed(HOST, [], ("md7: listed, but not there", *unseen))
    text = " ".join(" ".join(lines).split())
    assert "• md7: listed, but not there •" in text
    assert "/dev/sd5 and 394 more: not seen: permission denied" in text
    assert len(lines) <= 8
