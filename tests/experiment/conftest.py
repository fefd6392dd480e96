"""A small experiment that tests change a word of."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blklab.errors import UsageError
from blklab.experiment.cells import ExperimentPlan, plan

SMALL = """
[devices.nvme]
model = "pm983"
size = "10GiB"

[devices.ssd]
model = "sm883"
size = "10GiB"

[stacks.near]
level = 10
layout = "n2"
chunk = "512K"
members = ["nvme", "ssd"]

[workloads.reads]
rw = "randread"
bs = "4k"
size = "8GiB"

[settings]
kernel = "4.19"

[matrix]
"""

Expand = Callable[..., ExperimentPlan]
Fails = Callable[..., str]


@pytest.fixture
def expand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Expand:
    """Returns a function that expands the small experiment, `old` replaced by `new`."""
    monkeypatch.chdir(tmp_path)

    def expand(old: str = "", new: str = "", *, more: str = "", text: str = SMALL) -> ExperimentPlan:
        assert old in text
        Path("exp.toml").write_text(text.replace(old, new, 1) + more if old else text + more)
        return plan(Path("exp.toml"))

    return expand


@pytest.fixture
def fails(expand: Expand) -> Fails:
    """Returns a function that returns what is said of the small experiment so changed."""

    def fails(old: str = "", new: str = "", *, more: str = "") -> str:
        with pytest.raises(UsageError) as caught:
            expand(old, new, more=more)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return fails
