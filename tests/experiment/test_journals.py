"""Where the journal of a filesystem is."""

from typing import Any

import pytest

from blklab.errors import UsageError
from blklab.experiment.cells import ExperimentPlan
from blklab.runners.sim.runner import outcomes
from tests.experiment.conftest import Expand

MIRROR = """
[devices.disk]
model = "wd40efrx"
size = "10GiB"
count = 2

[devices.ssd]
model = "s4510"
size = "1GiB"
count = 2

[stacks.data]
level = 1
members = ["disk"]

[stacks.log]
level = 1
members = ["ssd"]

[workloads.writes]
rw = "randwrite"
bs = "4k"
size = "1GiB"
fsync = 1

[settings]
kernel = "6.1"
runtime = "2s"
filesystem = "none"
"""


def planned(expand: Expand, filesystem: str, more: str = "") -> ExperimentPlan:
    return expand('filesystem = "none"', f"filesystem = {filesystem}", more=more, text=MIRROR)


def documents(expand: Expand, filesystem: str, more: str = "") -> list[dict[str, Any]]:
    return [dict(cell.document) for cell in planned(expand, filesystem, more).cells]


def test_a_journal_on_an_array(expand: Expand) -> None:
    (document,) = documents(expand, '{ type = "xfs", journal = "log" }')
    assert document["filesystem"] == {"commit_ns": 30 * 10**9}
    assert document["journal"]["log"] == "xfs"
    assert [slot["node"] for slot in document["journal"]["device"]["md"]["members"]] == [{"device": 2}, {"device": 3}]
    assert [slot["node"] for slot in document["stack"]["md"]["members"]] == [{"device": 0}, {"device": 1}]


def test_a_journal_on_a_device(expand: Expand) -> None:
    (document,) = documents(expand, '{ type = "ext4", journal = "ssd1" }', '[matrix]\nstack = ["data"]\n')
    assert document["journal"] == {"log": "jbd2", "device": {"device": 2}}
    assert len(document["devices"]) == 3


def test_a_journal_on_the_stack_itself(expand: Expand) -> None:
    more = '[matrix]\nstack = ["data"]\n'
    (document,) = documents(expand, '{ type = "ext3", journal = "internal" }', more)
    assert document["journal"] == {"log": "jbd2"}
    (document,) = documents(expand, '"ext4"', more)
    assert "journal" not in document


def test_a_matrix_of_places(expand: Expand) -> None:
    more = '[matrix]\n"settings.filesystem.journal" = ["internal", "log"]\n'
    plan = planned(expand, '{ type = "xfs" }', more)
    assert [cell.labels["stack"] for cell in plan.cells] == ["data", "data"], "the log is no stack to measure"
    assert ["device" in cell.document["journal"] for cell in plan.cells] == [False, True]
    assert not plan.notes


def test_cells_that_cannot_be_compared(expand: Expand) -> None:
    more = '[matrix]\n"settings.filesystem" = ["xfs", { type = "xfs", journal = "log" }]\n'
    (note,) = planned(expand, '"xfs"', more).notes
    assert note.startswith("an fsync commits only in cells whose filesystem has `journal`")


@pytest.mark.parametrize(
    ("kernel", "type_", "lost"), [("6.1", "ext4", True), ("6.15", "ext4", False), ("6.1", "xfs", False)]
)
def test_data_that_fsync_does_not_flush(expand: Expand, kernel: str, type_: str, lost: bool) -> None:
    filesystem = 'filesystem = { type = "' + type_ + '", journal = "log" }'
    plan = expand('filesystem = "none"', filesystem, text=MIRROR.replace('"6.1"', f'"{kernel}"'))
    assert any("a power failure can lose it (fixed in 6.15" in note for note in plan.notes) is lost


def test_a_cache_is_no_place(expand: Expand) -> None:
    more = '[stacks.cached]\nkind = "lvmcache"\norigin = "ssd1"\ncache = "ssd2"\n[matrix]\nstack = ["data"]\n'
    with pytest.raises(UsageError, match=r"'cached' is a cache: expected a device, an array or a logical volume"):
        planned(expand, '{ type = "xfs", journal = "cached" }', more)


@pytest.mark.parametrize("type_", ["ext4", "xfs"])
def test_a_fast_journal_is_not_slower(expand: Expand, type_: str) -> None:
    more = '[matrix]\n"settings.filesystem.journal" = ["internal", "log"]\n'
    cells = documents(expand, '{ type = "' + type_ + '" }', more)
    inside, outside = (outcome.write.iops for outcome in outcomes(cells))
    assert outside > inside
