"""Changelogs of kernels: those of Debian and Ubuntu are files, those of Red Hat are lines of rpm."""

import gzip
from pathlib import Path

import pytest

from blklab.md.audit.kernel_bugs import check_kernel_bugs, read_bugs
from blklab.md.kernel_changelog import read_md_changes
from blklab.md.model import Software
from tests.md.audit.test_kernel_bugs import EXAMPLES
from tests.md.conftest import Arrays, machine

__all__ = ["machine"]

DEBIAN = (Path(__file__).parents[1] / "data/md/kernel-changelog/debian-6.12.107.txt").read_bytes()
RELEASE = "6.1.0-37-amd64"


def install_changelog(machine: Arrays, content: bytes, name: str = "changelog.gz") -> None:
    directory = machine.root / "usr/share/doc" / f"linux-image-{RELEASE}"
    directory.mkdir(parents=True)
    (directory / name).write_bytes(content)


def test_the_changelog_of_a_debian_kernel_names_each_known_fix(machine: Arrays) -> None:
    install_changelog(machine, gzip.compress(DEBIAN))
    changes = read_md_changes(machine.roots, runs_programs=False)
    assert changes is not None
    assert {bug.fix.lower() for bug in read_bugs() if bug.fix} <= changes
    assert "md/raid1,raid10: don't ignore io flags" in changes  # without (CVE-2025-22125)


@pytest.mark.parametrize(
    "line",
    [
        "- md/raid1: fix data lost for writemostly rdev (Nigel Croxon) [RHEL-12345]",
        "- [md] md/raid1: fix data lost for writemostly rdev (Nigel Croxon) [2176108]",
        "    - md/raid1: fix data lost for writemostly rdev {CVE-2025-1}",
        "    - md/raid1: fix data lost for writemostly rdev (LP: #1907262)",
    ],
)
def test_what_distributions_add_is_not_a_part_of_the_subject(machine: Arrays, line: str) -> None:
    install_changelog(machine, gzip.compress(line.encode()), "changelog.Debian.gz")
    changes = read_md_changes(machine.roots, runs_programs=False)
    assert changes == frozenset({"md/raid1: fix data lost for writemostly rdev"})


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(DEBIAN)[:200]])
def test_a_damaged_changelog_is_none(machine: Arrays, content: bytes) -> None:
    install_changelog(machine, content)
    assert read_md_changes(machine.roots, runs_programs=False) is None


def test_a_kernel_whose_changelog_names_the_fix_is_not_accused() -> None:
    array, kernel = EXAMPLES["write-behind"]
    (unknown,) = check_kernel_bugs(array, Software(kernel=kernel))
    assert "your distribution may have it earlier" in unknown.message
    (unfixed,) = check_kernel_bugs(array, Software(kernel=kernel, md_changes=frozenset({"md: other"})))
    assert "the changelog of this kernel's package does not name it" in unfixed.message
    fix = "md/raid1: fix data lost for writemostly rdev"
    assert list(check_kernel_bugs(array, Software(kernel=kernel, md_changes=frozenset({fix})))) == []
