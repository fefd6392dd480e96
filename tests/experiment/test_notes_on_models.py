"""Notes on models that stand for a class of devices."""

from math import exp
from pathlib import Path

import pytest

from blklab.devices import stock_models
from blklab.experiment.cells import plan
from blklab.experiment.load import ExperimentSource


def notes_on(**keys: object) -> list[str]:
    raw = {
        "devices": {"d": keys},
        "stacks": {"alone": {"device": "d"}},
        "workloads": {"w": {"rw": "randread", "time_based": True}},
        "settings": {"runtime": "1s"},
    }
    return [note for note in plan(ExperimentSource(Path("e.toml"), raw)).notes if "typical" in note]


@pytest.mark.parametrize("keys", [{}, {"nand": "qlc"}, {"dram": False, "rated_random_write_iops": 20_000}])
def test_the_note_on_a_typical_disk_says_what_was_simulated(keys: dict[str, object]) -> None:
    (note,) = notes_on(model="nvme-consumer", **keys)
    deviations = stock_models.stock("nvme-consumer", keys)["uncertainty"]
    factor = exp(max(deviations["read"], deviations["write"]))
    assert f"others differ by a factor of {factor:.1f}" in note
    for key in keys:
        assert f"{key} = " in note


def test_features_and_deviations_of_the_user_are_in_the_note() -> None:
    (note,) = notes_on(model="nvme-consumer", dram=False, uncertainty={"read": 0.1, "write": 0.2})
    assert note.startswith("nvme-consumer with dram = false is a typical device of its class")
    assert "others differ by a factor of 1.2" in note


def test_features_without_effect_are_not_in_it() -> None:
    (note,) = notes_on(model="nvme-datacenter", nand="qlc")
    assert note.startswith("nvme-datacenter is a typical device of its class: others differ by about 40 %")
