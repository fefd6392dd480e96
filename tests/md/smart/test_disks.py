"""The disks beneath arrays: which are asked, what is found, what is said of those that are not."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from blklab.diagnostic import Diagnostic
from blklab.md import probing
from blklab.md.audit import find_problems
from blklab.md.model import Inventory
from blklab.md.probing import Probe
from blklab.md.smart import add_health
from tests.conftest import Run
from tests.md.conftest import Arrays
from tests.md.smart.test_health import read


class Said(Probe):
    """smartctl, as it is told to answer: by path and type."""

    def __init__(self, scan: str = "", **answers: str) -> None:
        self.answers, self.scanned = answers, scan
        self.asked: list[tuple[str, str]] = []

    def read_smart(self, path: str, kind: str = "") -> tuple[str, str]:
        self.asked.append((Path(path).name, kind))
        output = self.answers.get(kind.replace(",", "") or Path(path).name, "")
        return output, "" if output else "silent"

    def read_controllers(self) -> tuple[str, str]:
        return self.scanned, ""


def disks(machine: Arrays, **files: str) -> None:
    """A RAID-1 of two partitions."""
    for at, name in enumerate(("sda", "sdb")):
        queue = {"queue__rotational": "1", "device__timeout": "30", **files}
        machine.disk(name, f"8:{16 * at}", **queue)
        machine.device(f"{name}1", f"8:{16 * at + 1}", parent=name, start="2048")
        (machine.roots.dev / f"{name}1").write_bytes(b"")
    machine.array("md0", "9:0", {"sda1": {}, "sdb1": {}})


def document(name: str, **keys: Any) -> str:
    return json.dumps({**json.loads(read(name)), **keys})


def examined_disks(machine: Arrays, reader: Said) -> tuple[Inventory, dict[tuple[str, str], Diagnostic]]:
    seen = add_health(machine.seen(), machine.roots, reader)
    return seen, {(item.member, item.code): item for item in find_problems(seen)}


def test_each_disk_is_asked_once(machine: Arrays) -> None:
    disks(machine)
    machine.array("md1", "9:1", {"sda1": {}, "sdb1": {}})
    reader = Said(sda=read("ata-failing"), sdb=read("scsi"))
    seen, rules = examined_disks(machine, reader)
    assert sorted(reader.asked) == [("sda", ""), ("sdb", "")]
    assert [item.arrays for item in seen.disks or ()] == [("md0", "md1")] * 2
    assert rules["sda", "smart-failed"].severity == "critical"
    assert "Reallocated_Sector_Ct is below its threshold" in rules["sda", "smart-failed"].message
    assert "8 pending sectors" in rules["sda", "smart-unreadable"].message
    assert "1,975 sectors" in rules["sda", "smart-reallocated"].message
    assert "1.5 Gb/s, the disk supports 6.0 Gb/s" in rules["sda", "link-speed"].message
    assert rules["sda", "link-speed"].remedy == ("smartctl --all " + str(machine.roots.dev / "sda"),)
    assert not any(name == "sdb" for name, _ in rules)


def test_nothing_is_asked_unless_it_is_told_to_be(machine: Arrays) -> None:
    disks(machine)
    assert machine.seen().disks is None


ERC = {"read": {"enabled": False}, "write": {"enabled": False}}
SEVEN = {direction: {"enabled": True, "deciseconds": 70} for direction in ("read", "write")}


@pytest.mark.parametrize(
    ("timeout", "keys", "remedy"),
    [
        ("30", {"ata_sct_erc": ERC}, "smartctl --log=scterc,70,70"),
        ("180", {"ata_sct_erc": ERC}, ""),
        ("30", {"ata_sct_erc": SEVEN}, ""),
        ("7", {"ata_sct_erc": SEVEN}, "smartctl --log=scterc,70,70"),
        ("30", {"ata_sct_capabilities": None}, "echo 180 > /sys/block/sda/device/timeout"),
        ("180", {"ata_sct_capabilities": None}, ""),
        ("30", {"ata_sct_capabilities": None, "rotation_rate": 0}, ""),
        ("30", {}, ""),  # it can, and was not asked
        ("none", {"ata_sct_erc": ERC}, ""),
    ],
)
def test_time_outs(machine: Arrays, timeout: str, keys: dict[str, Any], remedy: str) -> None:
    disks(machine, device__timeout=timeout)
    _, rules = examined_disks(machine, Said(sda=document("ata-failing", **keys), sdb=read("scsi")))
    if not remedy:
        assert ("sda", "timeout") not in rules
    else:
        assert rules["sda", "timeout"].remedy[0].startswith(remedy)


RULE = re.compile(r'(?:[A-Z]+(?:\{[A-Za-z_/]+\})?(?:==|=|\+=)"[^"]*"(?:, |$))+')
"""A line of udev(7): keys with an operator and a value in double quotes, with commas between them."""


@pytest.mark.parametrize(
    ("keys", "disk", "setting"),
    [
        (
            {"ata_sct_erc": ERC},
            'ENV{ID_WWN}=="0x5000cca37fca81a8"',
            'RUN+="/usr/sbin/smartctl --log=scterc,70,70 /dev/%k"',
        ),
        ({"ata_sct_capabilities": None}, 'ENV{ID_WWN}=="0x5000cca37fca81a8"', 'ATTR{device/timeout}="180"'),
        ({"ata_sct_capabilities": None, "wwn": None}, 'ENV{ID_SERIAL_SHORT}=="', 'ATTR{device/timeout}="180"'),
    ],
)
def test_time_outs_last_with_a_rule_of_udev(machine: Arrays, keys: dict[str, Any], disk: str, setting: str) -> None:
    disks(machine, device__timeout="30")
    _, rules = examined_disks(machine, Said(sda=document("ata-failing", **keys), sdb=read("scsi")))
    now, comment, append, reload = rules["sda", "timeout"].remedy
    assert "sda" in now
    assert "To undo it, delete this line" in comment
    echo, rule, sign, file = shlex.split(append)
    assert (echo, sign, file) == ("echo", ">>", "/etc/udev/rules.d/61-disk-timeouts.rules")
    assert RULE.fullmatch(rule)
    assert rule.startswith('ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ' + disk)
    assert rule.endswith(setting)
    assert "sda" not in rule
    assert reload == "udevadm control --reload"


@pytest.mark.parametrize("serial", ["", "a b", 'x", RUN+="y', "'; reboot", "$kernel"])
def test_a_hostile_serial_number_is_in_no_rule(machine: Arrays, serial: str) -> None:
    disks(machine, device__timeout="30")
    said = Said(sda=document("ata-failing", ata_sct_erc=ERC, wwn=None, serial_number=serial), sdb=read("scsi"))
    _, rules = examined_disks(machine, said)
    _, last = rules["sda", "timeout"].remedy
    assert last == "# For each boot: make a udev rule or a script. The disk tells no WWN or serial number for it."


def test_striped_disks_may_try_on(machine: Arrays) -> None:
    disks(machine)
    machine.write(machine.roots.sys / "block/md0", {"md__level": "raid0"})
    _, rules = examined_disks(machine, Said(sda=document("ata-failing", ata_sct_erc=ERC), sdb=read("scsi")))
    assert ("sda", "timeout") not in rules


def test_flash(machine: Arrays) -> None:
    disks(machine)
    log = json.loads(read("nvme"))["nvme_smart_health_information_log"]
    worn = {**log, "percentage_used": 130, "critical_warning": 0b1001}
    hot = {**log, "media_errors": 0, "critical_warning": 0b10}
    _, rules = examined_disks(
        machine,
        Said(
            sda=document("nvme", nvme_smart_health_information_log=worn),
            sdb=document("nvme", nvme_smart_health_information_log=hot),
        ),
    )
    assert "130 %" in rules["sda", "smart-worn"].message
    assert "blocks are left, it is read-only" in rules["sda", "smart-failed"].message
    assert "7 media errors" in rules["sda", "smart-unreadable"].message
    assert rules["sdb", "smart-hot"].severity == "warning"
    assert ("sdb", "smart-failed") not in rules


def test_shingled(machine: Arrays) -> None:
    disks(machine, queue__zoned="host-aware")
    _, rules = examined_disks(machine, Said(sda=read("scsi"), sdb=read("scsi")))
    assert "SMR" in rules["sdb", "smart-shingled"].message


def test_behind_a_controller(machine: Arrays) -> None:
    disks(machine)
    machine.write(machine.roots.sys / "block/sdb", {"device__wwid": "naa.5000cca37fca81a8"})
    reader = Said(
        scan=read("scan-megaraid"),
        sda=read("raid-volume"),
        sdb=read("raid-volume"),
        megaraid0=read("ata-failing"),
        megaraid1=document("ata-failing", wwn=None, serial_number="ANOTHER"),
    )
    seen, rules = examined_disks(machine, reader)
    assert seen.disks is not None
    assert [(item.name, item.kind, item.arrays) for item in seen.disks] == [
        ("sda", "", ("md0",)),
        ("sdb", "megaraid,0", ("md0",)),
        ("/dev/bus/0 megaraid,1", "megaraid,1", ()),
    ]
    assert seen.unseen == ("sda: not seen: SMART: it reports no SMART values",)
    assert "--device=megaraid,0" in rules["sdb", "smart-failed"].remedy[0]
    assert "its array is unknown" in rules["/dev/bus/0 megaraid,1", "smart-failed"].message


def test_disks_that_sleep_hide_nothing(machine: Arrays) -> None:
    disks(machine)
    asleep = json.dumps({"smartctl": {"messages": [{"string": "Device is in STANDBY mode, exit(2)"}]}})
    reader = Said(scan=read("scan-megaraid"), sda=asleep, sdb=read("scsi"))
    seen, _ = examined_disks(machine, reader)
    assert seen.unseen == ("sda: not seen: SMART: it is in standby and was not spun up",)
    assert len(reader.asked) == 2


def put_smartctl(machine: Arrays, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a program there, and has us be root."""
    path = machine.root / "bin" / "smartctl"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(probing, "PATH", str(path.parent))
    monkeypatch.setattr("os.geteuid", lambda: 0)


def test_the_program(machine: Arrays, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    disks(machine)
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    asked, output = machine.root / "asked", machine.root / "said.json"
    output.write_text(read("ata-failing"))
    put_smartctl(machine, monkeypatch, f'echo "$@" >> {asked}\n/bin/cat {output}\nexit 216')
    done = run("md", "audit", "--smart")
    assert done.status == 1
    assert "sda: reports that it fails: Reallocated_Sector_Ct" in " ".join(done.out.split())
    options = "--json --all --log=scterc --log=scttempsts --nocheck=standby"
    assert set(asked.read_text().splitlines()) == {f"{options} {machine.roots.dev}/{name}" for name in ("sda", "sdb")}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec /bin/sleep 100", "the disk did not answer"),
        ("echo nonsense", "smartctl printed no JSON: install smartctl 7.0 or newer"),
    ],
)
def test_programs_that_do_not_answer(
    machine: Arrays, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    disks(machine)
    put_smartctl(machine, monkeypatch, script)
    monkeypatch.setattr(probing, "TIMEOUT_S", 0.3)
    seen = add_health(machine.seen(), machine.roots)
    assert len(seen.unseen) == 1
    assert f"SMART of 2 disks: not seen: {reason}" in seen.unseen[0]


def test_without_the_program_or_rights(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "PATH", str(machine.root))
    assert "apt-get install smartmontools" in Probe().read_controllers()[1]
    put_smartctl(machine, monkeypatch, "echo {}")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "as root" in Probe().read_smart("/dev/sda")[1]


def test_images_have_no_disks(run: Run, tmp_path: Path) -> None:
    done = run("md", "audit", "--smart", "--image", str(tmp_path / "x"))
    assert (done.status, "--smart: works only on this host" in done.err) == (2, True)
