"""`blklab md plan`, as users type it."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run

DETAIL = Path(__file__).parents[3] / "examples/pasted/detail.txt"
IMAGES = [Path(__file__).parents[3] / f"examples/images/{name}.img" for name in ("sda1", "sdb1")]


def test_the_first_line_is_the_answer(run: Run) -> None:
    done = run("md", "plan", "reshape", "/dev/md0", "--raid-devices", "4", "--add", "/dev/sdd1", "--from", DETAIL)
    assert done.status == 0
    assert done.out.splitlines()[0] == "Yes: mdadm and Linux accept it; at least 10h 51m."
    assert "    mdadm /dev/md0 --add /dev/sdd1" in done.out.splitlines()
    assert "    mdadm --assemble /dev/md0 /dev/sda1 /dev/sdb1 /dev/sdc1 /dev/sdd1" in done.out.splitlines()


def test_a_refusal_has_the_sentence_that_mdadm_prints(run: Run) -> None:
    done = run("md", "plan", "level", "md0", "10", "--from", DETAIL)
    assert done.status == 1
    assert done.out.startswith("No: mdadm and Linux refuse it: md makes no raid10 of raid5.")
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
        (("replace", "md0", "9"), "9: no active member of /dev/md0"),
        (("grow", "md0", "--size", "1000"), "--size 1000: expected a multiple of 1 KiB"),
    ],
)
def test_what_cannot_be_asked_is_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("md", "plan", *arguments, "--from", DETAIL)
    assert done.status == 2
    assert message in done.err
