"""`blklab trace report`, from the command line to the file."""

import json
from pathlib import Path

import pytest

from blklab.render import picture_export as export
from blklab.render.chart import Chart
from blklab.trace.charts import bars
from blklab.trace.view import DeviceView
from tests.conftest import Run

SCSI = Path(__file__).parents[2] / "data" / "traces" / "scsi-errors"


def test_a_report_is_written(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    outcome = run("trace", "report", SCSI, "-o", path, "--title", "A <disk>", "--op", "read")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith(f"{path}  1.")
    html = path.read_text()
    assert html.startswith("<!DOCTYPE html>")
    assert "<title>A &lt;disk&gt;</title>" in html
    assert f"blklab trace report {SCSI} --op read" in html
    assert list(tmp_path.iterdir()) == [path]


def test_the_default_name_is_the_traces(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("trace", "report", SCSI).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["scsi-errors.html"]


def test_the_page_goes_to_stdout(run: Run) -> None:
    outcome = run("trace", "report", SCSI, "-o", "-")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("<!DOCTYPE html>")
    assert outcome.out.endswith("</html>\n")


def test_charts_are_written_too(run: Run, tmp_path: Path) -> None:
    charts = tmp_path / "charts"
    page = tmp_path / "page.html"
    outcome = run("trace", "report", SCSI, "-o", page, "--charts", charts, "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    assert document["bytes"] == page.stat().st_size
    assert document["written"][0] == str(page)
    assert sorted(document["written"][1:]) == sorted(map(str, charts.iterdir()))
    assert {path.suffix for path in charts.iterdir()} == {".png", ".svg"}


def test_charts_are_computed_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    charts = bars.size_charts

    def counted(device: DeviceView) -> list[Chart]:
        computed.append(device.label)
        return charts(device)

    monkeypatch.setattr(bars, "size_charts", counted)
    monkeypatch.setattr(export, "export", lambda _charts, _directory, _captions: [])
    assert run("trace", "report", SCSI, "-o", tmp_path / "x.html", "--charts", tmp_path / "charts").status == 0
    assert len(computed) == 1


@pytest.mark.parametrize("option", ["-o", "--charts"])
def test_a_path_that_cannot_be_written_is_refused_before_reading(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    bad = tmp_path / "file" / "below"
    output = [] if option == "-o" else ["-o", tmp_path / "page.html"]
    outcome = run("trace", "report", tmp_path / "no-such-trace", *output, option, bad)
    assert outcome.status == 2
    assert str(bad) in outcome.err
    assert "no-such-trace" not in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_help_has_examples(run: Run) -> None:
    for command in ("stat", "hist", "report"):
        outcome = run("trace", command, "--help")
        assert outcome.status == 0
        assert "Examples:" in outcome.out
        assert f"blklab trace {command} " in outcome.out


def test_cache_adds_hit_ratios_by_cache_size(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    outcome = run("trace", "report", SCSI.parent / "pgbench-raid1", "--device", "md127", "--cache", "-o", page)
    assert outcome.status == 0
    assert "smq depends on the size of the volume, which is not known" in outcome.err
    assert outcome.err.count("\n") == 1
    html = page.read_text()
    assert "Hits of a cache with blocks of 64 KiB" in html
    assert "--cache" in html
