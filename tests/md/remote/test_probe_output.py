"""What a hostile machine may print: it is refused, or does no harm."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.md.probing import NOT_RECORDED
from blklab.md.remote import audit_output, read_recorded_inventory
from blklab.md.remote import probe_output as streams
from blklab.md.remote.probe_output import is_complete, parse_output
from tests.md.conftest import Arrays
from tests.md.remote.conftest import probe


def stream(*lines: str) -> bytes:
    return "\n".join(["blklab-probe 1", *lines, "end", ""]).encode(errors="surrogateescape")


def test_what_is_printed_around_it_does_not_count() -> None:
    body = stream("file /proc/mdstat", " a", "", " b", "mdadm", " mdadm - v4.2 - 2021-12-30")
    result = parse_output(b"Welcome!\nend\n" + body.replace(b"\n", b"\r\n") + b"Bye.\n")
    assert result.files == {"/proc/mdstat": b"a\nb"}
    software = read_recorded_inventory(result).software
    assert software is not None
    assert software.mdadm == (4, 2)


def test_output_is_complete_with_its_last_line() -> None:
    body = b"end\n" + stream("file /proc/mdstat", " end", "file /proc/swaps", " a")
    for data in (body, body.replace(b"\n", b"\r\n"), body + b"Bye.\nend\n"):
        # It is complete as soon as it has the first line `end` after the header.
        complete = [size for size in range(1, len(data) + 1) if is_complete(data[:size], size - 1)]
        assert complete[0] == data.index(b"\nend", 5) + 4


def test_lines_that_od_leaves_out() -> None:
    item = "0000000 01" + " 02" * 15
    result = parse_output(
        stream("disk /dev/sda", " sectors 8", " at 0", f" {item}", " *", " 0000048 ff ee", " 0000050")
    )
    disk = result.disks["/dev/sda"]
    assert disk.size == 4096
    assert disk.pieces == [(0, bytearray((b"\1" + b"\2" * 15) * 3 + b"\xff\xee"))]


@pytest.mark.parametrize(
    ("data", "output"),
    [
        (b"", "not the output of a probe"),
        (b"bash: sh: command not found\n", "not the output of a probe"),
        (b"blklab-probe 2\nend\n", "expected `blklab-probe 1`"),
        (b"blklab-probe 1\nfile /proc/mdstat\n a", "incomplete"),
        (b"blklab-probe 1\nfile /proc/mdstat\n end", "incomplete"),
        (stream("file /etc/../root/.ssh/id_rsa"), "line 2 of the output: the path"),
        (stream("file etc/passwd"), "the path"),
        (stream("file /home/x"), "the path"),
        (stream("file /etc//x"), "the path"),
        (stream("file /etc/\0"), "the path"),
        (stream("file /etc/" + "x" * 256), "the path"),
        (stream("file /sys" + "/x" * 1100), "the path"),
        (stream("file /dev/sda"), "the path"),
        (stream("link /sys/a", " /etc/passwd"), "the path '/etc/passwd'"),
        (stream("link /sys/a", " ../../etc"), "the path"),
        (stream("link /sys/a"), "the path ''"),
        (stream("link /sys/a", " /sys/b", " /sys/c"), "the path '/sys/b"),
        (stream("directory /sys" + "/x" * 64), "the path"),
        (stream(*(f"unread /etc/{at}" for at in range(100_001))), "line 100002 of the output: more"),
        (stream("file /proc/mdstat", *[" " + "x" * 99] * 90_000), "more than 8 MiB of files"),
        (stream("link /sys/a", " /sys/b", "file /sys/a/c"), "which is not a directory, as a parent or a target"),
        (stream("link /sys/a", " /sys/b", "link /sys/b", " /sys/a"), "as a parent or a target"),
        (stream("link /sys/a", " /sys/a"), "as a parent or a target"),
        (stream("link /sys/a", " /sys/a/b"), "as a parent or a target"),
        (stream("file /sys/a", "link /sys/a", " /sys/b"), "same path in records"),
        (stream("run /sys/a"), "a record `run`"),
        (stream("disk /dev/sda", " sectors 99999999999999999999"), "the number"),
        (stream("disk /dev/sda", " at 0", " 0000016 00"), "offset 16, expected 0"),
        (stream("disk /dev/sda", " at 0", " 0000000 0g"), "bytes '0g'"),
        (stream("disk /dev/sda", " at 0", " 0000000" + " 01" * 16, " *", " 99999984"), "offset 99999984"),
        (stream("disk /dev/sda", *[" at 0"] * 3), "a third piece"),
        (stream(*(f"directory /sys/{at}/{at}" for at in range(60000))), "more than 100,000"),
    ],
)
def test_what_no_probe_prints(data: bytes, output: str) -> None:
    with pytest.raises(BlklabError) as error:
        parse_output(data)
    assert output in str(error.value)
    assert "\n" not in str(error.value)
    assert output in audit_output("web1", data).failure


def test_disks_are_not_let_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_DISK_BYTES", 1 << 20)
    lines = [" sectors 512", " at 0", " 0000000" + " 01" * 16, " *", " 0262144"]
    disks = [line for at in range(5) for line in (f"disk /dev/sd{at}", *lines)]
    with pytest.raises(BlklabError, match="more than 1 MiB of disks"):
        parse_output(stream(*disks))


def test_a_disk_of_a_hundred_terabytes(machine: Arrays) -> None:
    machine.mirror("raid1-12-populated")
    data = probe(machine.root).replace(b" sectors 524288", b" sectors 214748364800")
    (array,) = read_recorded_inventory(parse_output(data)).arrays
    assert [member.entries for member in array.members] == [5, 0]


def test_no_name_leads_to_a_file_of_this_machine(machine: Arrays, tmp_path: Path) -> None:
    machine.mirror("raid1-12-populated")
    # A recorded member of this machine, for which a hostile one asks by every name it can give.
    own = (machine.roots.dev / "sda").resolve()
    directions = [str(own).replace("/", "!"), "x!" + "..!" * 12 + str(own)[1:].replace("/", "!")]
    node = "/sys/devices/block/md0"
    lines = ["directory /sys/block", "link /sys/block/md0", f" {node}"]
    for name, value in {"array_state": "clean", "chunk_size": "65536", "level": "raid5"}.items():
        lines += [f"file {node}/md/{name}", f" {value}"]
    for direction in directions:
        assert not (tmp_path / "dev" / direction).exists()
        lines += [f"file {node}/md/dev-{direction}/slot", " 0"]
    lines += [f"file {node}/dev", f" {own.parent}", f"file {node}/loop/backing_file", f" {own}"]
    lines += ["file /proc/self/mountinfo", f" 1 1 {own.parent} / / rw - btrfs {own} rw"]
    lines += ["file /proc/swaps", " Filename", f" {own} file 1 0 1"]
    touched = []
    real = os.stat

    def stat_recorded(path: object, *rest: object, **more: object) -> os.stat_result:
        touched.append(os.fspath(path) if isinstance(path, (str, Path)) else "")
        return real(path, *rest, **more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "stat", stat_recorded)
        (array,) = read_recorded_inventory(parse_output(stream(*lines))).arrays
    assert len(array.members) == 2
    assert all(member.superblock is None for member in array.members)
    assert all(member.unseen == NOT_RECORDED for member in array.members)
    assert touched
    assert str(own) not in touched
    assert str(own.parent) not in touched


WORDS = st.sampled_from(
    ["/sys", "/block", "/md0", "/md", "/dev-sda", "/dev", "/proc", "/etc", "/self", "/mountinfo",
     "/..", "/.", "/", "/array_state", "/block", "/class", "/uuid", "/a\\b", "/!x", "/slot", "/dev"]
)  # fmt: skip
PATHS = st.lists(WORDS, min_size=1, max_size=6).map("".join)
BODIES = st.lists(
    st.one_of(
        st.sampled_from([" clean", " 0", " sectors 8", " at 0", " 0000000 00", " *", " refused no"]),
        PATHS.map(lambda path: f" {path}"),
        st.text(max_size=8).map(lambda text: f" {text}"),
    ),
    max_size=4,
)
KINDS = st.sampled_from(["file", "link", "directory", "disk", "unread", "mdadm", "end", "x"])
RECORDS = st.tuples(KINDS, PATHS, BODIES).map(lambda record: [f"{record[0]} {record[1]}", *record[2]])


@given(st.lists(RECORDS, max_size=12))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_output_is_parsed_or_one_error(records: list[list[str]]) -> None:
    facts = audit_output("web1", stream(*(line for record in records for line in record)))
    assert bool(facts.failure) == (facts.inventory is None)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    machine = Arrays(tmp_path_factory.mktemp("machine"))
    machine.mirror("raid1-12-populated")
    return probe(machine.root)


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_nor_of_a_stream_that_was_changed(recorded: bytes, data: st.DataObject) -> None:
    changed = bytearray(recorded)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    facts = audit_output("web1", bytes(changed))
    assert bool(facts.failure) == (facts.inventory is None)
