"""A bisection of md's sources on a real kernel, with disks of unequal speed."""

import json
from pathlib import Path

import pytest

from tests.bisect.md_history import FOUR, git, md_repository
from tests.conftest import Run

pytestmark = pytest.mark.guest


@pytest.mark.usefixtures("lab_cache")
def test_the_commit_that_made_raid10_slow(experiment: Path, tmp_path: Path, run: Run) -> None:
    tree = md_repository(tmp_path / "md", FOUR)
    outcome = run(
        *("bisect", experiment, "--tree", tree, "--module", "raid10", "--good", "c0", "--bad", "c4"),
        *("--fail-if", "iops < 0.6*baseline", "--json"),
    )
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["culprit"]["name"] == git(tree, "rev-parse", "c2")
    assert "md/raid10: choose the nearest copy" in document["culprit"]["message"]
    assert document["confirmed"]
    slow, fast = (next(each for each in document["check"] if each["verdict"] == verdict) for verdict in ("bad", "good"))
    assert fast["figures"][0]["value"] > 2 * slow["figures"][0]["value"]
    assert git(tree, "status", "--porcelain") == "", "the user's tree stays as it is"


@pytest.mark.usefixtures("lab_cache")
def test_a_patch_that_makes_raid10_slow(experiment: Path, tmp_path: Path, run: Run) -> None:
    tree = md_repository(tmp_path / "md", FOUR)
    patch = tmp_path / "nearest.patch"
    patch.write_text(f"{git(tree, 'diff', 'c1', 'c2')}\n")
    outcome = run(
        *("bisect", experiment, "--tree", tree, "--module", "raid10", "--good", "c1", "--patch", patch),
        *("--fail-if", "iops < 0.6*baseline", "--json"),
    )
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["culprit"]["subject"].startswith("nearest.patch on ")
    assert document["confirmed"]
    slow, fast = (next(each for each in document["check"] if each["verdict"] == verdict) for verdict in ("bad", "good"))
    assert fast["figures"][0]["value"] > 2 * slow["figures"][0]["value"]
    assert git(tree, "status", "--porcelain") == "", "the user's tree stays as it is"
