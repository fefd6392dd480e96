"""Bisections on real kernels that take many minutes."""

import json
import subprocess
from pathlib import Path

import pytest

from blklab.bisect.request import LabOptions, ModuleSources, TreeEnds, kernel_headers
from blklab.bisect.source import BuildFailed
from blklab.runners.lab.image import GuestImage
from tests.bisect.md_history import BROKEN, FOUR, MD, REPAIRED, TWELVE, git, md_repository
from tests.conftest import Run
from tests.runners.lab.conftest import KERNEL

pytestmark = pytest.mark.guest


@pytest.mark.usefixtures("lab_cache")
def test_twelve_commits(experiment: Path, tmp_path: Path, run: Run) -> None:
    """One commit panics, one changes `read_balance` without an effect; git may choose one that does not build."""
    tree = md_repository(tmp_path / "md", TWELVE)
    log = tmp_path / "log"
    outcome = run(
        *("bisect", experiment, "--tree", tree, "--module", "raid10", "--good", "c0", "--bad", "c12"),
        *("--fail-if", "iops < 0.9*baseline", "--log", log, "--json"),
    )
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["culprit"]["subject"] == "md/raid10: choose the nearest copy"
    assert document["confirmed"]
    reasons = [each["reason"] for each in document["verdicts"] if each["verdict"] == "skipped"]
    assert any("Kernel panic - not syncing: md/raid10: too strict" in reason for reason in reasons)
    git(tree, "bisect", "replay", str(log))
    assert git(tree, "rev-parse", "refs/bisect/bad") == document["culprit"]["name"]


@pytest.mark.usefixtures("lab_cache")
def test_a_commit_that_does_not_build_has_the_message_of_the_compiler(tmp_path: Path) -> None:
    tree = md_repository(tmp_path / "md", (BROKEN, REPAIRED))
    source = ModuleSources(tree, ["raid10"], KERNEL, TreeEnds("c0", "c2"), tmp_path / "work", LabOptions(None, print))
    with pytest.raises(BuildFailed, match="error: expected"):
        source.runner(source.commit(git(tree, "rev-parse", "c1")))


BUILD = """#!/bin/sh -e
make -C {headers} M="$PWD/{md}" raid10.ko
cp -a {modules} "$INSTALL_MOD_PATH/"
cp {md}/raid10.ko "$INSTALL_MOD_PATH/lib/modules/{version}/kernel/{md}/"
cp {vmlinuz} "$INSTALL_PATH/vmlinuz-{version}"
"""


def test_a_tree_with_a_build_command(
    guest_image: GuestImage, lab_cache: Path, experiment: Path, tmp_path: Path, run: Run
) -> None:
    """The command builds the module and puts it next to a packaged kernel; a whole kernel takes too long here."""
    base = tmp_path / "base"
    base.mkdir()
    for archive in lab_cache.glob("kernel-*/modules.cpio"):
        if guest_image.version.encode() in archive.read_bytes()[:4096]:
            with archive.open("rb") as stream:
                subprocess.run(["cpio", "-idmu", "--quiet"], cwd=base, stdin=stream, check=True, capture_output=True)
    tree = md_repository(tmp_path / "md", FOUR[:2])
    script = tmp_path / "build"
    directory = kernel_headers(guest_image.version, lambda _note: None)
    script.write_text(
        BUILD.format(
            headers=directory, md=MD, modules=base / "usr/lib", version=guest_image.version, vmlinuz=guest_image.kernel
        )
    )
    script.chmod(0o755)
    outcome = run(
        *("bisect", experiment, "--tree", tree, "--build", script, "--good", "c2", "--bad", "c0"),
        *("--fail-if", "iops > 1.5*baseline", "--json"),
    )
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["culprit"]["name"] == git(tree, "rev-parse", "c2")
    assert (document["fixes"], document["confirmed"]) == (True, True)
