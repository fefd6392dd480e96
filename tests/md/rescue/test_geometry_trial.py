"""Several geometries are tried on overlays: only the superblocks of the one that is left are saved."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blklab.md.rescue import geometry_trial
from blklab.md.rescue.geometry_search import GeometryHints
from blklab.md.rescue.geometry_trial import SearchPlan, search_on_overlays
from blklab.md.rescue.overlay_record import OverlayRecord, TrialResult, Verdict
from blklab.system.roots import Roots
from tests.md.rescue.test_diagnosis import make_member


def try_all(verdicts: list[Verdict], directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns what is done if geometries have these results on the overlays."""
    done: list[str] = []
    left = iter(verdicts)

    def try_next(*_: Any) -> OverlayRecord:
        verdict = next(left)
        done.append(f"try {verdict}")
        return OverlayRecord(verdict, "boot", "", "the old array", [], [], TrialResult(verdict, []))

    found = SimpleNamespace(geometries=tuple(verdicts))
    monkeypatch.setattr(geometry_trial, "find_geometries", lambda *_: found)
    monkeypatch.setattr(geometry_trial, "save_members", lambda *_: None)
    monkeypatch.setattr(geometry_trial, "_try_geometry", try_next)
    monkeypatch.setattr(geometry_trial, "undo", lambda record, *_: done.append(f"undo {record.id}"))
    monkeypatch.setattr(geometry_trial, "_save_superblocks", lambda record, *_: done.append(f"save {record.id}"))
    roots = Roots(dev=directory / "dev")
    plan = SearchPlan((make_member("sda", 0),), directory / "try", GeometryHints(), (), ())
    search_on_overlays(plan, lambda *_: None, roots)
    return done


def test_the_first_geometry_that_is_good_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = try_all(["damaged", "damaged", "good", "good"], tmp_path, monkeypatch)
    assert done == ["try damaged", "undo damaged", "try damaged", "undo damaged", "try good", "save good"]


def test_superblocks_of_a_damaged_filesystem_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert try_all(["damaged"], tmp_path, monkeypatch) == ["try damaged"]
