"""docs/reference names every field of results, and has no field that is not there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from blklab.compare.reproduction import judge
from blklab.experiment.cells import plan
from blklab.runners.campaign import carry_out
from blklab.runners.sim import runner as sim
from blklab.store.campaigns import Store
from tests.trace.test_documented import DOCUMENT, documented_fields, fields

EXPERIMENT = """
[devices]
a = { model = "pm983", size = "1GiB" }
b = { model = "sm883", size = "1GiB" }
[stacks]
both = { level = 1, members = ["a", "b"], bitmap = true }
[[measured]]
cell = { stack = "both" }
read_iops = 1
[workloads.mixed]
rw = "randrw"
rate = "ramp"
p99_below = "1s"
[settings]
max_ios = 100
"""


@pytest.fixture
def result(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT)
    (result,) = carry_out(sim.SimRunner(), plan(path), Store()).results
    judged = [row.as_dict() for row in judge(plan(path), {1: result.outcome})]
    return {**result.as_dict(), "labels": {}, "explanation": [], "judged": judged}


def test_every_field_is_documented(result: dict[str, Any]) -> None:
    assert set(fields(json.loads(json.dumps(result)))) - documented_fields("outcome", "result") == set()


def test_every_documented_field_is_there(result: dict[str, Any]) -> None:
    section = DOCUMENT.read_text().split("## result")[1].split("\n## ")[0]
    output = {name.rstrip("[]") for name in re.findall(r"`([a-z][a-z0-9_]*(?:\[\])?)`", section)}
    output -= {"sim", "host", "repeat", "null", "nr_requests", "p99_below"}
    output -= {"iops", "mean", "inside", "outside", "unclear", "unknown", "fitted", "limited"}  # metrics and verdicts
    assert output - set(fields(json.loads(json.dumps(result)))) == set()
