"""The prices of a host of which only some were measured."""

from pathlib import Path

import pytest

from blklab.experiment import cells, load
from blklab.experiment.host_prices import DEFAULTS, complete_prices
from blklab.runners.sim import runner

IO_NS = DEFAULTS["submit_ns"] + DEFAULTS["reap_ns"]


def test_the_measured_time_of_an_io_moves_all_prices_of_the_processor() -> None:
    prices = complete_prices({"submit_ns": 2 * IO_NS, "reap_ns": 0})
    assert prices["md_ns"] == 2 * DEFAULTS["md_ns"]
    assert prices["copy_ns"] == 2 * DEFAULTS["copy_ns"]
    assert prices["xor_rate"] == DEFAULTS["xor_rate"] // 2
    assert "lock_ns" not in prices, "how far cores are from each other is not how fast they are"
    assert complete_prices({"submit_ns": 2 * IO_NS, "reap_ns": 0, "md_ns": 7})["md_ns"] == 7
    assert complete_prices({"md_ns": 7, "cores": 4}) == {"md_ns": 7, "cores": 4}, "nothing was measured"
    assert complete_prices({"submit_ns": 0, "reap_ns": 0})["md_ns"] == 0


def test_further_pages_of_an_io_take_time() -> None:
    raw = {
        "devices": {"disk": {"kind": "throttled", "size": "1GiB"}},
        "stacks": {"disk": {"device": "disk"}},
        "workloads": {"one": {"rw": "read", "bs": "4k"}, "many": {"rw": "read", "bs": "1M"}},
        "settings": {"kernel": "6.1", "max_ios": 1000, "host": {"page_ns": 100}},
    }
    plan = cells.plan(load.ExperimentSource(Path("x.toml"), raw))
    one, many = (runner.outcome(cell.document) for cell in plan.cells)
    added_ns = (many.processor_ns or 0) / 1000 - (one.processor_ns or 0) / 1000
    assert added_ns == pytest.approx(255 * 100, rel=0.05)
