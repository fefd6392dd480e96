"""`blklab md plan`, as users type it."""

import json
from pathlib import Path

import pytest

from blklab.system.identity import BlockDevice, of_node
from blklab.system.roots import Roots
from tests.conftest import Run
from tests.md.conftest import Arrays, machine, program

__all__ = ["machine"]

DETAIL = Path(__file__).parents[3] / "examples/pasted/detail.txt"
IMAGES = [Path(__file__).parents[3] / f"examples/images/{name}.img" for name in ("sda1", "sdb1")]


def test_the_first_line_is_the_answer(run: Run) -> None:
    done = run("md", "plan", "reshape", "/dev/md0", "--raid-devices", "4", "--add", "/dev/sdd1", "--from", DETAIL)
    assert done.status == 0
    assert done.out.splitlines()[0] == "Yes: mdadm and Linux accept it; at least 10h 51m."
    assert "    mdadm /dev/md0 --add /dev/sdd1" in done.out.splitlines()
    assert "    mdadm --assemble /dev/md0 --uuid=5b0d5e6f:1c2d3e4f:50617283:94a5b6c7" in done.out.splitlines()


def test_a_refusal_has_the_sentence_that_mdadm_prints(run: Run) -> None:
    done = run("md", "plan", "level", "md0", "10", "--from", DETAIL)
    assert done.status == 1
    assert done.out.startswith("No: mdadm and Linux refuse it: md makes no RAID-10 of a RAID-5.")
    assert "It prints: Impossible level change requested" in done.out


def test_rate_and_load_make_an_interval(run: Run) -> None:
    question = ("md", "plan", "replace", "md0", "1", "/dev/sdd1", "--from", DETAIL, "--rate", "100M", "--json")
    idle = json.loads(run(*question).out)
    loaded = json.loads(run(*question, "--load", "50%").out)
    assert idle["accepted"]
    assert idle["duration"]["fastest"] < idle["duration"]["likely"] < idle["duration"]["slowest"]
    assert loaded["duration"]["likely"] > 1.9 * idle["duration"]["likely"]


def test_images_are_arrays_too(run: Run) -> None:
    sources = [word for image in IMAGES for word in ("--from", image)]
    done = run("md", "plan", "level", "(none):0", "5", *sources, "--json")
    document = json.loads(done.out)
    assert done.status == 0
    assert document["commands"] == ["mdadm --grow /dev/md0 --level=5"]
    assert document["duration"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reshape", "md0"), "expected --raid-devices, --chunk or --layout"),
        (("grow", "md7"), "md7: the files have no such array: expected md0"),
        (("add", "", "/dev/sdx"), "ARRAY: expected the name of an array"),
        (("add", "md0", "/dev/sdx", "sdx"), "this disk is named twice"),
        (("replace", "md0", "9"), "9: no active member of /dev/md0"),
        (("grow", "md0", "--size", "1000"), "--size 1000: expected a multiple of 1 KiB"),
        (("grow", "md0", "--size", "0"), "--size 0: expected a multiple of 1 KiB, less than 8 EiB"),
        (("grow", "md0", "--size", "99E"), "expected a multiple of 1 KiB, less than 8 EiB"),
        (("grow", "md0", "--rate", "0"), "--rate 0: expected more than 0 bytes per second"),
        (("reshape", "md0", "--chunk", "100"), "--chunk 100: expected a multiple of 1 KiB"),
        (("reshape", "md0", "--chunk", "0"), "--chunk 0: expected a multiple of 1 KiB"),
    ],
)
def test_what_cannot_be_asked_is_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("md", "plan", *arguments, "--from", DETAIL)
    assert done.status == 2
    assert message in done.err


@pytest.fixture
def host(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """A machine with a mirror of sda and sdb, mdadm 4.2 and Linux 6.1."""

    def resolve(name: str, roots: Roots) -> BlockDevice:
        return of_node((roots.sys / "class/block" / Path(name).name).resolve(strict=True), roots)

    monkeypatch.setattr("blklab.cli.md.plan.Roots", lambda: machine.roots)
    monkeypatch.setattr("blklab.md.repair.plan.resolve", resolve)
    monkeypatch.setattr("blklab.md.repair.slot_plan.resolve", resolve)
    program(machine, "4.2")
    machine.mirror(sync_speed_min="1000 (system)", sync_speed_max="2040 (local)")
    return machine


def test_an_array_of_this_host_is_judged_with_its_limits(host: Arrays, run: Run) -> None:
    document = json.loads(run("md", "plan", "replace", "md0", "sdb", "--json").out)
    assert document["no_effect"].startswith("the array has no spare")
    assert document["answer"].startswith("No use: mdadm 4.2 and Linux 6.1 accept it, but")
    host.disk("sdc", "8:32")
    replaced = json.loads(run("md", "plan", "replace", "md0", "sdb", "sdc", "--json").out)
    assert replaced["accepted"]
    assert replaced["limits"] == {"minimum": 1000, "maximum": 2040, "are_known": True}
    assert replaced["duration"]["at_maximum"] == 261120 / 2040
    assert replaced["duration"]["at_minimum"] == 261120 / 1000
    (command,) = replaced["commands"]
    assert command.startswith("blklab md fix replace ")


def test_a_disk_of_this_host_that_is_too_small_is_refused(host: Arrays, run: Run) -> None:
    host.disk("sdc", "8:32", size=str(250 * 2048))
    done = run("md", "plan", "add", "md0", "sdc")
    assert done.status == 1
    assert "sdc is too small by 6 MiB: the array uses 522,240 sectors of each member" in done.out
    assert "/dev/sdc not large enough to join array" in done.out


def test_a_member_of_another_array_is_a_danger_without_a_command(host: Arrays, run: Run) -> None:
    host.disk("sdc", "8:32", "raid10-n2.vda")
    done = run("md", "plan", "add", "md0", "sdc")
    assert done.status == 1
    assert "but it can lose data" in done.out.splitlines()[0]
    assert "mdadm --add overwrites it without asking" in done.out
    assert "What to do" not in done.out


def test_a_file_that_is_missing_or_a_directory_is_named(run: Run, tmp_path: Path) -> None:
    missing = run("md", "plan", "grow", "md0", "--from", tmp_path / "none")
    directory = run("md", "plan", "grow", "md0", "--from", tmp_path)
    assert (missing.status, directory.status) == (2, 2)
    assert "none: no such file" in missing.err
    assert "this is a directory" in directory.err
