"""Keys that say more of a flash disk than its model does."""

from pathlib import Path
from typing import Any

import pytest

from blklab.devices import stock_models
from blklab.errors import UsageError
from blklab.experiment.cells import plan
from blklab.experiment.load import ExperimentSource


def _notes(device: dict[str, Any]) -> list[str]:
    raw = {
        "devices": {"d": device},
        "stacks": {"alone": {"device": "d"}},
        "workloads": {"w": {"rw": "randread", "time_based": True}},
        "settings": {"runtime": "1s"},
    }
    return list(plan(ExperimentSource(Path("x.toml"), raw)).notes)


def test_features_of_a_disk_that_has_its_own_rates_have_no_effect() -> None:
    notes = _notes({"model": "nvme-datacenter", "nand": "tlc", "rated_random_read_iops": 10**6})
    assert "d: nand, rated_random_read_iops: no effect, the model nvme-datacenter has its own rates" in notes
    table = {key: value for key, value in stock_models.stock("pm983").items() if key != "uncertainty"}
    assert "d: dram: no effect, the device has its own rates" in _notes({**table, "dram": True})
    assert not any("no effect" in note for note in _notes({"model": "nvme-consumer", "nand": "tlc"}))


def test_the_slot_of_a_disk_that_has_its_own_rates_has_no_effect() -> None:
    table = {key: value for key, value in stock_models.stock("pm983").items() if key != "uncertainty"}
    assert "d: pcie: no effect, the device has its own rates" in _notes({**table, "pcie": "3x1"})
    assert not any("no effect" in note for note in _notes({"model": "pm983", "pcie": "3x1"}))


@pytest.mark.parametrize(("key", "value"), [("dram", "yes"), ("dram", 1)])
def test_features_that_say_nothing_are_refused(key: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"devices\.d\.{key}: found"):
        _notes({"model": "nvme-consumer", key: value})


def test_a_rate_that_the_experiment_states_holds_for_a_disk_in_use() -> None:
    stated = {"read_command_ns": 10_000, "write_command_ns": 20_000, "read_bandwidth": 10**9}
    raw = {
        "devices": {"d": {"model": "nvme-consumer", **stated}},
        "stacks": {"alone": {"device": "d"}},
        "workloads": {"w": {"rw": "randread", "time_based": True}},
        "settings": {"runtime": "1s"},
    }
    model = plan(ExperimentSource(Path("x.toml"), raw)).cells[0].document["devices"][0]["model"]
    assert {key: model[key] for key in stated} == stated
    hidden = {"sustained_read_command_ns", "sustained_write_command_ns", "cached_write_command_ns"}
    assert not {*hidden, "sustained_read_bandwidth"} & {key for key, value in model.items() if value}
    assert model["sustained_write_bandwidth"]
