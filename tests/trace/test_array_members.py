"""Who queued the I/O of an array's members, on real recordings of a check."""

from pathlib import Path

import pytest

from blklab.trace.array_members import members_table, sentence
from blklab.trace.view import ProfileView
from tests.trace.conftest import read_trace

TRACES = Path(__file__).parents[1] / "data" / "traces"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "check-raid1",
            "For each byte written to md0, 2.03 bytes are written to its members; md itself queued 89 % of the I/O of"
            " the members (md0_raid1 and md0_resync); md checked, resynced, recovered or reshaped the array.",
        ),
        (
            "check-raid5",
            "For each byte written to md0, 2.02 bytes are written to its members; md itself queued 99.6 % of the I/O of"
            " the members (md0_raid5); md checked, resynced, recovered or reshaped the array.",
        ),
        (
            "pgbench-raid1",
            "For each byte written to md127, 2.01 bytes are written to its members; md itself queued 1.5 % of the I/O"
            " of the members (md127_raid1).",
        ),
    ],
)
def test_a_check_and_md_itself_are_named(name: str, text: str) -> None:
    view = read_trace(TRACES / name)
    assert [part.text for part in sentence(view, view.focus)] == [text]


def test_each_member_names_who_queued_its_io() -> None:
    view = read_trace(TRACES / "check-raid1")
    table = members_table(view, view.focus)
    assert [row[0] for row in table.rows] == ["vda", "vdb"]
    assert table.rows[0][-1].startswith("md0_resync ")
    assert "fio" in table.rows[0][-1]


def test_a_disk_has_no_members() -> None:
    view: ProfileView = read_trace(TRACES / "bfq")
    assert not members_table(view, view.focus)
    assert sentence(view, view.focus) == []
