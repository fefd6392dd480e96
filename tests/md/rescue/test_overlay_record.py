"""overlays.json: what was written is read again, and a damaged file is one error."""

import random
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.md.rescue.overlay_record import (
    FILE,
    MemberFacts,
    OverlayRecord,
    TrialResult,
    find_device,
    read_record,
    write_record,
)
from blklab.system.roots import Roots

FACTS = MemberFacts("/dev/sdb1", ["ata-A-part1"], 1 << 30, "a:b:c:d", "1:2:3:4", 1, 4019, 1_767_225_600, False)
RECORD = OverlayRecord(
    id="0a1b2c3d",
    boot_id="3f5a",
    array_uuid="a:b:c:d",
    array_name="host:0",
    members=[FACTS],
    masked_rules=["64-md-raid-assembly.rules"],
    trial=TrialResult("good", ["It runs."]),
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)
    assert read_record(tmp_path) == RECORD
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_directory_without_a_record_says_which_one_is_expected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the directory that was given to `blklab md overlays start`"):
        read_record(tmp_path)


def test_a_damaged_record_is_one_error(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)
    content = (tmp_path / FILE).read_bytes()
    source = random.Random(1)
    refused = 0
    for _ in range(500):
        mutant = bytearray(content)
        for _ in range(source.randint(1, 4)):
            mutant[source.randrange(len(mutant))] = source.randrange(256)
        (tmp_path / FILE).write_bytes(mutant[: source.randint(1, len(mutant))])
        try:
            read_record(tmp_path)
        except BlklabError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 400


def test_a_member_without_ids_is_found_by_its_name_and_size_only(tmp_path: Path) -> None:
    """A device that is not here is not found, and its name alone proves nothing."""
    roots = Roots(sys=tmp_path, dev=tmp_path / "dev")
    assert find_device(FACTS, roots) is None
    assert find_device(MemberFacts("/dev/null", [], 1, "a", "b", 0, 1, 1, False), roots) is None
