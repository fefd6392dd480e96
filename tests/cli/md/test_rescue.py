"""`blklab md rescue`, as users type it."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.md.audit.test_cases import read_case
from tests.md.conftest import Arrays, image, machine

__all__ = ["machine"]

IMAGES = [str(Path(__file__).parents[3] / f"examples/images/{name}.img") for name in ("sda1", "sdb1")]


@pytest.fixture(autouse=True)
def _here(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blklab.cli.md.rescue.Roots", lambda: machine.roots)


def test_the_first_line_is_the_answer(run: Run, tmp_path: Path) -> None:
    read_case("01-raid5-three-of-four-stale", tmp_path)
    done = run("md", "rescue", *sorted(tmp_path.glob("sd*.img")))
    assert done.status == 1
    assert done.out.splitlines()[0].startswith("md0: The data are probably all there.")


def test_json_has_the_condition_and_what_not_to_type(run: Run, tmp_path: Path) -> None:
    read_case("17-inactive-array-wrong-layout", tmp_path)
    (probe,) = tmp_path.glob("*.probe")
    done = run("md", "rescue", "--probed", probe, "--json")
    document = json.loads(done.out)
    (array,) = document["arrays"]
    assert done.status == 1
    assert document["format_version"] == 1
    assert array["condition"] == "behind"
    assert array["chosen"] == ["/dev/sdd1", "/dev/sdb1", "/dev/sde1"]
    assert [group["events"] for group in array["groups"]] == [4025, 4019]
    assert any(line.startswith("--create") for line in array["forbidden"])


def test_metadata_are_saved_and_named(run: Run, tmp_path: Path) -> None:
    done = run("md", "rescue", *IMAGES, "--save-metadata", tmp_path / "saved")
    assert "every range was read twice and compared" in done.err
    assert (tmp_path / "saved/members.json").exists()


def test_a_directory_that_exists_does_not_hide_the_answer(run: Run, tmp_path: Path) -> None:
    done = run("md", "rescue", *IMAGES, "--save-metadata", tmp_path)
    assert done.status == 2
    assert "made a short time ago" in done.out
    assert "exists, expected a new directory" in done.err


def test_a_member_of_an_array_that_runs_is_not_called_stopped(run: Run, machine: Arrays) -> None:
    machine.mirror(bitmap__location="none")
    done = run("md", "rescue", "/dev/sda")
    assert "It runs, with 2 of 2 members" in done.out


def test_an_array_that_runs_needs_no_rescue(run: Run, machine: Arrays) -> None:
    machine.mirror(bitmap__location="none")
    done = run("md", "rescue")
    assert done.status == 0
    assert "It runs, with 2 of 2 members. It needs no rescue." in done.out


def test_a_name_that_does_not_exist_is_refused_with_those_that_do(run: Run, machine: Arrays) -> None:
    machine.mirror(bitmap__location="none")
    done = run("md", "rescue", "/dev/md9")
    assert done.status == 2
    assert "/dev/md9: no array or member of this name; arrays that were found: md0" in done.err


def test_sectors_of_a_member_are_saved(run: Run, tmp_path: Path) -> None:
    path = image("raid1-12-bitmap.vda", tmp_path)
    file = tmp_path / "sectors"
    done = run("md", "rescue", "--save", "2048-2055", "--from", path, file)
    assert done.status == 0
    assert "4 KiB of array 3156a3e6:4a433ea3:f425167f:2e6739fd, from slot 0" in " ".join(done.out.split())
    assert len(file.read_bytes().partition(b"\n")[2]) == 4096
    done = run("md", "rescue", "--save", "0-7", "--from", path, tmp_path / "more", "--json")
    document = json.loads(done.out)
    assert document["header"]["ranges"][0]["sectors"] == 8
    assert (document["elsewhere"], document["listed"], document["unread"]) == ([], [], [])
    done = run("md", "rescue", "--save", "0-7", "--from", path, file)
    assert (done.status, "exists, expected a new file" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--save", "1-2"], "expected --save BEGIN-END --from DEVICE FILE"),
        (["--save", "1-2", "--from", IMAGES[0]], "expected --save BEGIN-END --from DEVICE FILE"),
        (["--from", IMAGES[0], "file"], "expected --save BEGIN-END --from DEVICE FILE"),
        (["--save", "2-1", "--from", IMAGES[0], "file"], "expected the first and the last sector"),
        ([IMAGES[0], "--probed", "x"], "expected one file, and no other argument"),
        ([IMAGES[0], "nothing"], "expected only images of members"),
    ],
)
def test_what_makes_no_sense(run: Run, words: list[str], message: str) -> None:
    done = run("md", "rescue", *words)
    assert done.status == 2
    assert message in done.err


def test_the_kernels_log_of_this_host_is_read(run: Run, machine: Arrays) -> None:
    machine.mirror(bitmap__location="none")
    messages = (
        "md/raid1:md0: Disk failure on sdb, disabling device.",
        "md/raid1:md9: Disk failure on sdx, disabling device.",
    )
    (machine.roots.dev / "kmsg").write_text("".join(f"4,{n},{n}000000,-;{text}\n" for n, text in enumerate(messages)))
    done = run("md", "rescue")
    assert "• kernel log: sdb was disabled; the log does not show why" in done.out
    assert "• [0.000000] sdb: disk failure, disabled" in done.out
    assert "kernel log" not in run("md", "rescue", "--no-log").out
    only_log = run("md", "rescue", "/dev/md9")
    assert (only_log.status, "/dev/md9: only the kernel's log has this name" in only_log.err) == (2, True)
    assert "--no-log: works only on this host" in run("md", "rescue", "--no-log", *IMAGES).err
    unknown = run("md", "rescue", "md8")
    assert "md8: no array or member of this name" in unknown.err
