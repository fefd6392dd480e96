"""`blklab md overlays` and `md fix assemble`: what they print, and one line for each mistake."""

import json
from pathlib import Path

from blklab.md.rescue.overlay_record import OverlayRecord, TrialResult, Verdict, write_record
from tests.conftest import Run


def write(directory: Path, verdict: Verdict, *, uuid: str = "a:b:c:d") -> None:
    """Writes the record of overlays that were removed."""
    trial = TrialResult(verdict, ["What was seen."])
    write_record(OverlayRecord("0a1b", "another boot", uuid, "host:0", [], [], trial, stopped=True), directory)


def test_the_result_and_the_next_command_are_shown(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "good")
    shown = run("md", "overlays", "show", str(tmp_path))
    assert shown.status == 0
    assert "host:0: The array runs on the overlays, and nothing is wrong with what was checked." in shown.out
    assert f"blklab md fix assemble a:b:c:d --overlays {tmp_path}" in shown.out
    assert "--files-are-right" not in shown.out


def test_a_result_that_people_must_judge_says_so(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "unchecked")
    assert "--files-are-right" in run("md", "overlays", "show", str(tmp_path)).out


def test_a_failure_has_no_next_command(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "failed")
    shown = run("md", "overlays", "show", str(tmp_path)).out
    assert "Do not force it on the disks." in shown
    assert "fix assemble" not in shown


def test_after_a_search_the_files_are_copied(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "good", uuid="")
    shown = run("md", "overlays", "show", str(tmp_path)).out
    assert "copy all your files from there to other disks" in shown
    assert f"blklab md fix metadata {tmp_path}/found" in shown


def test_after_a_search_that_found_nothing_sound_no_superblocks_are_offered(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "damaged", uuid="")
    shown = run("md", "overlays", "show", str(tmp_path)).out
    assert "do not put one of them on the disks" in shown
    assert "fix metadata" not in shown


def test_the_document_has_the_facts(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "damaged")
    document = json.loads(run("md", "overlays", "show", "--json", str(tmp_path)).out)
    assert document["trial"] == {"verdict": "damaged", "lines": ["What was seen."]}
    assert (document["array_uuid"], document["stopped"], document["usage"]) == ("a:b:c:d", True, {})


def test_overlays_that_are_gone_can_be_stopped_again(run: Run, tmp_path: Path) -> None:
    """After a restart of the machine, only files are left."""
    write(tmp_path, "good")
    (tmp_path / "overlay-0").write_bytes(b"changes")
    for _ in range(2):
        stopped = run("md", "overlays", "stop", str(tmp_path))
        assert stopped.status == 0, stopped.err
        assert "the overlays are gone" in stopped.out
    assert not (tmp_path / "overlay-0").exists()


def test_a_directory_of_something_else_is_one_line(run: Run, tmp_path: Path) -> None:
    for command in (["show"], ["stop"]):
        refused = run("md", "overlays", *command, str(tmp_path))
        assert refused.status == 2
        assert refused.err.count("\n") == 1
        assert "expected the directory that was given to `blklab md overlays start`" in refused.err


def test_an_array_that_is_not_here_is_one_line(run: Run, tmp_path: Path) -> None:
    for command in (
        ["md", "overlays", "start", "nothing", str(tmp_path / "new")],
        ["md", "fix", "assemble", "nothing"],
    ):
        refused = run(*command)
        assert refused.status == 2
        assert "nothing: no array or member of this name" in refused.err
        assert refused.err.count("\n") == 1
    assert not (tmp_path / "new").exists()
