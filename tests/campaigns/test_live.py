"""A campaign while it runs."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from blklab.campaigns.live import LiveCampaign, minimum_seconds, show_campaign
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.render.formatting import sparkline
from blklab.runners.fio.process import FioProgress


def cell(number: int, seconds: int = 10) -> Cell:
    document = {"runtime_ns": seconds * 10**9, "ramp_ns": 2 * 10**9, "host": {"steady": None}}
    return Cell(number, {"stack": "here", "bs": f"{number}k", "repeat": "1"}, document, 0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def campaign(clock: Callable[[], float]) -> LiveCampaign:
    return LiveCampaign([cell(1), cell(2), cell(3)], ["bs"], clock)


def test_a_sparkline() -> None:
    assert sparkline([0, 4, 8]) == "▁▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_steady_rounds_take_time_too() -> None:
    steady = {"rounds": 5, "round_ns": 10**9}
    document = {"runtime_ns": None, "ramp_ns": 0, "host": {"steady": steady}}
    assert minimum_seconds([Cell(1, {}, document, 0), cell(2)]) == 5 + 12


def test_what_is_shown(campaign: LiveCampaign, clock: Clock) -> None:
    assert campaign.lines() == ["0 of 3 cells, about 0:36 left", "preparing"]
    clock.now += 6
    campaign.update(campaign.cells[0], FioProgress(4, 12, phase="measure"))
    assert campaign.lines() == ["0 of 3 cells, about 0:30 left", "cell 1 bs=1k: measure 0:04 of 0:12"]
    for rate in (1000.0, 2000.0):
        campaign.update(campaign.cells[0], FioProgress(5, 12, rate, 500.0))
    assert campaign.lines()[2].strip() == "▅█ 2,500 IOPS"
    # A new phase, or a new cell, begins a new line of blocks.
    campaign.update(campaign.cells[1], FioProgress(1, None, phase="fill"))
    assert campaign.lines()[1:] == ["cell 2 bs=2k: fill 0:01"]


def test_what_is_left_follows_what_the_cells_took(campaign: LiveCampaign, clock: Clock) -> None:
    clock.now += 3700
    assert campaign.lines()[0] == "0 of 3 cells"
    campaign.set_done(1)
    assert campaign.lines()[0] == "1 of 3 cells, about 2:03:20 left"
    campaign.set_done(3)
    assert campaign.lines()[0] == "3 of 3 cells, about 0:00 left"


def test_only_a_terminal_shows_it() -> None:
    plan = ExperimentPlan("", [cell(1)], ["bs"], "host", Path("x.toml"), {})
    for terminal in (True, False):
        written = io.StringIO()
        console = Console(file=written, force_terminal=terminal, width=80)
        with show_campaign(console, plan) as campaign:
            campaign.update(plan.cells[0], FioProgress(1, 12))
        assert bool(written.getvalue()) == terminal
