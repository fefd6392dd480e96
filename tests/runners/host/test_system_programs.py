"""What other programs tell: on files, which they read as they read devices."""

import shutil
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.host import target_locations
from blklab.system import child_process, signatures
from tests.runners.host.signatures import partition_table, signed

pytestmark = pytest.mark.skipif(
    shutil.which("wipefs", path="/sbin:/usr/sbin:/usr/bin") is None, reason="needs util-linux"
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(bytes(16 << 20))
    return path


def fake(directory: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = directory / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


def test_signatures(image: Path) -> None:
    assert signatures.signatures(image) == []
    signed("linux_raid_member", image)
    assert signatures.signatures(image) == ["linux_raid_member at 0x1000", "linux_raid_member"]


def test_partition_tables_are_signatures(image: Path) -> None:
    image.write_bytes(partition_table().ljust(16 << 20, b"\0"))
    assert "dos at 0x1fe" in signatures.signatures(image)


@pytest.mark.parametrize(
    ("name", "script", "message"),
    [
        ("wipefs", "echo broken >&2; exit 1", r"exit status 1 \(broken\): blklab cannot tell"),
        ("wipefs", "echo nonsense", "cannot read its output"),
        ("wipefs", "echo '{}'", "cannot read its output"),
        ("blkid", "exit 4", "exit status 4"),
        ("blkid", "kill -9 $$", "exit status -9"),
    ],
)
def test_no_answer_is_no_answer(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str, message: str
) -> None:
    fake(tmp_path, name, script, monkeypatch)
    with pytest.raises(BlklabError, match=message):
        signatures.signatures(image)


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("exit 8", ["several contradicting signatures"]),
        ("echo USAGE=crypto", ["crypto"]),
        ("exit 0", ["something that blkid recognises"]),
        ("echo TYPE=xfs; echo PTTYPE=gpt", ["xfs", "gpt"]),
    ],
)
def test_what_blkid_alone_knows(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, result: list[str]
) -> None:
    fake(tmp_path, "blkid", script, monkeypatch)
    assert signatures.signatures(image) == result


def test_a_wipefs_that_prints_nothing_found_nothing(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "wipefs", "exit 0", monkeypatch)
    assert signatures.signatures(image) == []


def test_a_program_that_hangs_is_given_up(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "wipefs", "exec sleep 60", monkeypatch)
    monkeypatch.setattr(signatures, "TIMEOUT", 0.2)
    with pytest.raises(EnvironmentLacks, match=r"wipefs: .*timed out"):
        signatures.signatures(image)


def test_versions_and_lsblk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "fio", "echo fio-3.33", monkeypatch)
    fake(tmp_path, "mdadm", "echo 'mdadm - v4.2 - 2021-12-30' >&2", monkeypatch)
    output = target_locations.versions()
    assert (output["fio"], output["mdadm"]) == ("3.33", "4.2")
    fake(tmp_path, "lsblk", """echo '{"blockdevices": []}'""", monkeypatch)
    assert target_locations.lsblk() == {"blockdevices": []}
    fake(tmp_path, "lsblk", "exit 1", monkeypatch)
    assert target_locations.lsblk() is None
    with pytest.raises(EnvironmentLacks, match="blklab-none is not installed"):
        child_process.find("blklab-none", "nothing")
