"""I/O of other programs during a measurement."""

from typing import Any

import pytest

from blklab.outcome import DeviceResult, DirectionResult, Outcome
from blklab.runners.host.runner import foreign_io

MIB = 1 << 20


@pytest.mark.parametrize(
    ("direct", "jobs_mib", "devices", "message"),
    [
        ("1", 100, [("md0", [], 105), ("sda", ["md0"], 300)], None),
        ("1", 100, [("md0", [], 150), ("sda", ["md0"], 150)], "md0: other programs transferred 50 MiB"),
        ("0", 100, [("md0", [], 150)], None),
        ("1", 0, [("sda", [], 4)], None),
        ("1", 0, [("sda", [], 5)], "sda: other programs transferred 5 MiB during the run, and the jobs 0 B"),
        ("1", 100, [("sda", [], 80), ("sdb", [], 90)], "sda, sdb: other programs transferred 70 MiB"),
    ],
)
def test_io_of_others_is_what_the_topmost_devices_did_more(
    direct: str, jobs_mib: int, devices: list[tuple[str, list[str], int]], message: str | None
) -> None:
    document: Any = {"jobs": [{"name": "job", "options": {"direct": direct}}]}
    outcome = Outcome(
        read=DirectionResult(io_bytes=jobs_mib * MIB),
        devices=[DeviceResult(name, above=above, sectors=[mib * MIB // 512, 0]) for name, above, mib in devices],
    )
    warnings = foreign_io(document, outcome)
    assert len(warnings) == (message is not None)
    assert message is None or warnings[0].startswith(message)
    document["jobs"] = []
    assert foreign_io(document, outcome) == []
