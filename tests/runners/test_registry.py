"""A runner is one module and one entry: this file's appears wherever those of ours do."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from blklab.experiment import sim_cell
from blklab.experiment.cell_form import CellForm
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.outcome import DirectionResult, Outcome
from blklab.runners.base import Ledger, Runner
from blklab.runners.registry import RUNNERS, RunnerKind, RunnerOption
from blklab.store.series import FinishedRun
from tests.conftest import Run

FORM = CellForm("oracle", sim_cell.document, settings_are_keys=True)


class Oracle(Runner):
    """A runner that always says the same."""

    def __init__(self, iops: int) -> None:
        self.iops = iops

    def check(self, plan: ExperimentPlan) -> None:
        """Takes every plan."""

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        for cell in cells:
            if ledger.begin(cell):
                read = DirectionResult(self.iops, iops=self.iops, bw_bytes=self.iops << 12)
                ledger.end(cell, FinishedRun(Outcome(10**9, read), 0.5))


def make(*, iops: str | None, **_tell: Callable[[str], object]) -> Oracle:
    return Oracle(int(iops or 100))


class OracleDescriptions:
    COLUMNS: Mapping[str, Callable[[Cell], str]] = {
        "stack": lambda _cell: "a guess",
        "workload": lambda _cell: "what you ask",
    }

    def notes(self, plan: ExperimentPlan, /) -> list[str]:
        return [f"{len(plan.cells)} cells would be guessed"]


def explain(_cell: object, _outcome: object) -> list[str]:
    return ["The oracle does not say why."]


IOPS = RunnerOption("iops", help="With the oracle: what it says.", metavar="N", elsewhere="nothing is guessed")
KIND = RunnerKind(
    "oracle",
    summary="guesses",
    did="guessed",
    make=lambda: make,
    form=lambda: FORM,
    descriptions=OracleDescriptions,
    explain=lambda: explain,
    predicts=True,
    options=[IOPS],
)


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(RUNNERS, KIND.name, KIND)
    path = tmp_path / "exp.toml"
    path.write_text(
        """devices.disk = { model = "sm883", size = "64MiB" }
        stacks.one = { members = ["disk"], level = "linear" }
        workloads.reads = { rw = "randread", bs = "4k", size = "16MiB" }
        settings.max_ios = 40
        matrix.iodepth = [1, 2]
        """
    )
    return path


@pytest.mark.usefixtures("experiment")
def test_the_help_offers_it(run: Run) -> None:
    words = " ".join(run("run", "--help").out.split())
    assert f"[{'|'.join(RUNNERS)}]" in words
    assert "|oracle]" in words
    assert "oracle: guesses" in words
    assert "--iops N With the oracle: what it says." in words


def test_its_words_are_in_the_table_of_cells(experiment: Path, run: Run) -> None:
    out = run("run", experiment, "--on", "oracle", "--dry-run").out
    assert "one: a guess" in out
    assert "reads: what you ask" in out
    assert "2 cells would be guessed" in out


def test_its_options_are_its_own(experiment: Path, run: Run) -> None:
    outcome = run("run", experiment, "--iops", "7")
    assert outcome.status == 2
    assert "--iops: nothing is guessed: only --on oracle takes it" in outcome.err


def test_it_is_kept_compared_and_reported(experiment: Path, run: Run, tmp_path: Path) -> None:
    assert "guessed" in run("run", experiment, "--on", "oracle", "--iops", 700, "--explain").out
    assert run("run", experiment).status == 0
    stored = json.loads(run("runs", "list", "--json").out)
    assert {item["runner"] for item in stored} == {"oracle", "sim"}

    compared = json.loads(run("compare", "exp@sim", "exp@oracle", "--metric", "iops", "--json").out)
    assert "oracle" in json.dumps(compared)

    page = tmp_path / "page.html"
    assert run("report", "exp@oracle", "exp@sim", "-o", page).status == 0
    assert "guessed and simulated" in page.read_text()
