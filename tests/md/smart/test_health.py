"""smartctl's JSON: of real disks, by the manual, and garbled."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.md.model import DiskHealth
from blklab.md.smart import parse_devices, parse_health

DATA = Path(__file__).parents[2] / "data" / "md" / "smart"


def read(name: str) -> str:
    return (DATA / f"{name}.json").read_text()


def changed(name: str, **keys: Any) -> DiskHealth:
    return parse_health(json.dumps({**json.loads(read(name)), **keys}))[0]


def test_a_disk_that_fails() -> None:
    result, failure = parse_health(read("ata-failing"))
    assert not failure
    assert (result.passed, result.failing) == (False, ("Reallocated_Sector_Ct",))
    assert (result.reallocated, result.pending, result.uncorrectable) == (1975, 8, 0)
    assert (result.model, result.serial) == ("Hitachi HDS721050DLE630", "MSK423Y20S3HBC")
    assert result.wwn == "wwn-0x5000cca37fca81a8"
    assert result.link == (1_500_000_000, 6_000_000_000)
    assert (result.erc, result.erc_seconds, result.rotation) == (True, None, 7200)


def test_other_kinds() -> None:
    nvme, _ = parse_health(read("nvme"))
    assert (nvme.media_errors, nvme.used_percent, nvme.critical_warning) == (7, 3, 0)
    assert (nvme.erc, nvme.rotation, nvme.temperature) == (None, None, 35)
    scsi, _ = parse_health(read("scsi"))
    assert (scsi.grown_defects, scsi.uncorrected, scsi.temperature_limit) == (0, 0, 60)
    megaraid, _ = parse_health(read("megaraid-sata"))
    assert (megaraid.passed, megaraid.protocol, megaraid.rotation) == (True, "ATA", 0)


@pytest.mark.parametrize(
    ("name", "why"),
    [("raid-volume", "it reports no SMART values"), ("not-a-disk", "/dev/vda: Unable to detect device type")],
)
def test_why_nothing_is_told(name: str, why: str) -> None:
    assert parse_health(read(name))[1] == why


def test_disks_that_sleep() -> None:
    output = {"smartctl": {"messages": [{"string": "Device is in STANDBY mode, exit(2)"}]}}
    assert parse_health(json.dumps(output)) == (DiskHealth(), "it is in standby and was not spun up")


def test_what_samples_lack() -> None:
    erc = {"read": {"enabled": True, "deciseconds": 70}, "write": {"enabled": False}}
    assert changed("ata-failing", ata_sct_erc=erc).erc_seconds == (7.0, None)
    assert changed("ata-failing", ata_sct_capabilities=None).erc is False
    assert changed("ata-failing", model_family="Western Digital Red (SMR)").shingled
    tests = {"table": [{"status": {"passed": False, "string": "Completed: read failure"}}, {}]}
    failed = changed("ata-failing", ata_smart_self_test_log={"standard": tests})
    assert failed.self_test == "Completed: read failure"
    nvme = {"table": [{"self_test_result": {"value": 7, "string": "Completed: failed segments"}}]}
    assert changed("nvme", nvme_self_test_log=nvme).self_test == "Completed: failed segments"
    aborted = {"table": [{"self_test_result": {"value": 2, "string": "Aborted"}}]}
    assert changed("nvme", nvme_self_test_log=aborted).self_test == ""
    scsi = {"result": {"value": 4, "string": "Completed, segment failed"}}
    assert changed("scsi", scsi_self_test_0=scsi).self_test == "Completed, segment failed"
    assert changed("scsi", logical_unit_id="0x5000cca264d473d4").wwn == "wwn-0x5000cca264d473d4"
    hot = {"current": 61, "op_limit_max": 60}
    assert changed("ata-failing", temperature=hot).temperature_limit == 60


def test_raw_values_that_hold_several_numbers() -> None:
    several = {"value": 1 << 40, "string": "3 (0, 256)"}
    table = [
        {"id": 5, "name": "Reallocated_Sector_Ct", "raw": several},
        {"id": 197, "name": "Something_Else", "raw": {"value": 9, "string": "9"}},
    ]
    result = changed("ata-failing", ata_smart_attributes={"table": table})
    assert (result.reallocated, result.pending) == (3, None)


def test_devices_behind_controllers() -> None:
    assert parse_devices(read("scan-megaraid")) == [("/dev/bus/0", "megaraid,0"), ("/dev/bus/0", "megaraid,1")]
    assert parse_devices('{"devices": [{"name": "--help", "type": "x,0"}, 7, {"name": "/dev/x"}]}') == []
    assert parse_devices("[" * 100_000) == []


@given(st.sampled_from(["ata-failing", "nvme", "scsi"]), st.data())
def test_garbled_documents(name: str, data: st.DataObject) -> None:
    odd = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
        st.just([]), st.just({}), st.just([[{}]]),
    )  # fmt: skip

    def garble(result: Any) -> Any:
        if data.draw(st.integers(0, 9)) == 0:
            return data.draw(odd)
        if isinstance(result, dict):
            return {key: garble(item) for key, item in result.items()}
        return [garble(item) for item in result[:3]] if isinstance(result, list) else result

    output = json.dumps(garble(json.loads(read(name))))
    health, _ = parse_health(output)
    json.dumps(dataclasses.asdict(health), allow_nan=False)
    parse_health(output[: data.draw(st.integers(0, len(output)))])
