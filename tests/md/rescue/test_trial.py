"""What is concluded from what programs print on the overlays; the programs are replaced."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from blklab.md.repair.operations import CommandOutput
from blklab.md.rescue import trial
from blklab.md.rescue.trial import ContentCheck, check_content, judge, try_array
from blklab.system.roots import Roots

Answers = dict[str, tuple[int, str]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], list[str]]:
    """Replaces programs: each command line that begins so ends with this status and prints this line."""

    def replace(answers: Answers) -> list[str]:
        typed: list[str] = []

        def run(line: str) -> CommandOutput:
            typed.append(line)
            for begin, (status, printed) in answers.items():
                if line.startswith(begin):
                    return CommandOutput(status, (printed,) if printed else ())
            return CommandOutput(0, ())

        monkeypatch.setattr(trial, "try_command", run)
        return typed

    return replace


def check(tmp_path: Path) -> ContentCheck:
    return check_content("/dev/md127", tmp_path / "files", lambda _: "/dev/dm-9", lambda *_: None)


def test_a_clean_filesystem_with_proven_files_is_good(answer: Callable[[Answers], list[str]], tmp_path: Path) -> None:
    typed = answer({"blkid": (0, "TYPE=ext4")})
    (tmp_path / "files").mkdir()
    (tmp_path / "files/log.gz").write_bytes(gzip.compress(b"line\n" * 100))
    checked = check(tmp_path)
    assert checked.verdict == "good"
    assert "the checksums in 1 of them hold" in checked.lines[-1]
    programs = [line.split()[0] for line in typed]
    assert programs == ["blkid", "mount", "umount", "e2fsck", "mount"]
    assert all("/dev/md127" not in line for line in typed[1:])  # Only the snapshot is mounted and checked


def test_errors_of_the_check_are_damage_although_the_files_can_be_read(
    answer: Callable[[Answers], list[str]], tmp_path: Path
) -> None:
    answer({"blkid": (0, "TYPE=ext4"), "e2fsck": (4, "/dev/dm-9: ********** WARNING: Filesystem still has errors **")})
    checked = check(tmp_path)
    assert checked.verdict == "damaged"
    assert "the check of its ext4 found errors" in checked.lines[0]


def test_a_broken_file_is_damage_although_the_check_finds_nothing(
    answer: Callable[[Answers], list[str]], tmp_path: Path
) -> None:
    answer({"blkid": (0, "TYPE=xfs")})
    (tmp_path / "files").mkdir()
    (tmp_path / "files/log.gz").write_bytes(gzip.compress(b"line\n" * 100)[:-6])
    checked = check(tmp_path)
    assert checked.verdict == "damaged"
    assert "Broken: log.gz." in " ".join(checked.lines)


def test_a_journal_that_cannot_be_replayed_is_damage_and_the_files_are_shown(
    answer: Callable[[Answers], list[str]], tmp_path: Path
) -> None:
    typed = answer({"blkid": (0, "TYPE=ext4"), "mount -o nosuid": (32, "mount: wrong fs type.")})
    checked = check(tmp_path)
    assert checked.verdict == "damaged"
    assert "its ext4 cannot be mounted as it is: mount: wrong fs type." in checked.lines[0]
    assert "mount -o ro,noload," in typed[-1]


@pytest.mark.parametrize("kind", ["LVM2_member", "crypto_LUKS", "ntfs"])
def test_what_blklab_does_not_know_is_not_checked(
    answer: Callable[[Answers], list[str]], tmp_path: Path, kind: str
) -> None:
    answer({"blkid": (0, f"TYPE={kind}")})
    checked = check(tmp_path)
    assert checked.verdict == "unchecked"
    assert kind in checked.lines[0]


def test_an_array_without_any_content_is_probably_put_together_wrongly(
    answer: Callable[[Answers], list[str]], tmp_path: Path
) -> None:
    answer({"blkid": (2, "")})
    assert check(tmp_path).verdict == "damaged"


def test_an_array_that_does_not_run_is_a_failure(answer: Callable[[Answers], list[str]], tmp_path: Path) -> None:
    answer({"mdadm": (1, "mdadm: failed to RUN_ARRAY /dev/md127: Input/output error")})
    roots = Roots(sys=tmp_path / "sys")
    tried = try_array("/dev/md127", "mdadm --assemble …", tmp_path, lambda _: "", lambda *_: None, roots)
    assert tried.verdict == "failed"
    assert "failed to RUN_ARRAY" in tried.lines[0]


def test_the_worst_of_several_filesystems_counts() -> None:
    assert judge(["good", "unchecked", "good"]) == "unchecked"
    assert judge(["good", "damaged", "unchecked"]) == "damaged"
    assert judge([]) == "unchecked"
