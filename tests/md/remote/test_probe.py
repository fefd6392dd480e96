"""The probe reads the same as blklab on the host itself, with any shell."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from blklab.md import report
from blklab.md.audit import find_problems
from blklab.md.remote import PROBE, read_recorded_inventory
from blklab.md.remote.probe_output import parse_output
from tests.md.conftest import Arrays
from tests.md.remote.conftest import probe

SHELLS = [["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"]]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_what_is_seen_from_afar_is_what_is_seen_on_the_spot(rich: Arrays, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed: apt-get install {shell[0]}")
    here = rich.seen()
    assert len(here.arrays) == 2
    there = read_recorded_inventory(parse_output(probe(rich.root, *shell)))
    facts = [
        json.dumps(report.as_dict(item, find_problems(item)), indent=1).replace(f"{rich.root}/", "/")
        for item in (here, there)
    ]
    assert facts[0] == facts[1]
    for seen in (here, there):  # The JSON does not have these
        assert seen.software is not None
        assert seen.software.timers == ("mdcheck_continue.timer",)
        assert (seen.arrays[0].bitmap_chunk, seen.arrays[0].bitmap_sector) == (64 << 20, 8)
        members = {member.name: member for array in seen.arrays for member in array.members}
        assert (members["sdc1"].logical_block, members["sdc1"].optimal_io) == (512, 65536)
    assert '"/dev/sda"' in facts[1]
    assert '"unequal"' in facts[1]
    assert "is part of dm-0" in facts[1]


def test_busybox_alone_is_enough(rich: Arrays, tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed: apt-get install busybox")
    # Its own dd and od, not those of the system.
    applets = tmp_path / "applets"
    applets.mkdir()
    for name in ("sed", "dd", "od"):
        (applets / name).symlink_to(busybox)
    script = tmp_path / "probe.sh"
    script.write_text(PROBE.read_text().replace("PATH=$PATH:", f"PATH={applets}:$PATH:"))
    assert parse_output(probe(rich.root, busybox, "sh", script=script)) == parse_output(probe(rich.root))


def test_it_is_a_tidy_script() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: scripts/setup test")
    done = subprocess.run(["shellcheck", "--shell=sh", str(PROBE)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


HOSTILE = [
    "md_$(touch ran)", "md_`touch ran`", "md_a b", "-md_n", "md_*", "md_';touch ran;'", "md_\\n%s",
    'md_"', "md_\ud800",
]  # fmt: skip


def test_names_are_never_more_than_names(machine: Arrays) -> None:
    names = [name.encode(errors="surrogatepass").decode(errors="surrogateescape") for name in HOSTILE]
    for at, name in enumerate(names):
        machine.disk(f"sd{name}", f"8:{at}", "raid1-12.vda")
        machine.array(name, f"9:{at}", {f"sd{name}": {}})
    before = sorted(machine.root.rglob("*"))
    result = read_recorded_inventory(parse_output(probe(machine.root)))
    here = machine.seen()
    assert [item.name for item in result.arrays] == [item.name for item in here.arrays]
    assert {item.name for item in result.arrays} == set(names)
    assert all(item.members[0].superblock for item in result.arrays)
    assert sorted(machine.root.rglob("*")) == before
    assert not Path("ran").exists()


def test_a_name_of_two_lines_is_left_out(machine: Arrays) -> None:
    machine.mirror()
    machine.disk("sd\nend", "8:64")
    machine.array("md_\nend\nfile x", "9:1", {"sd\nend": {}})
    result = read_recorded_inventory(parse_output(probe(machine.root)))
    assert [item.name for item in result.arrays] == ["md0"]


def test_without_the_right_to_read(machine: Arrays, tmp_path: Path) -> None:
    machine.mirror()
    # As dd prints it for any user.
    dd = tmp_path / "applets" / "dd"
    dd.parent.mkdir()
    dd.write_text("#!/bin/sh\necho \"dd: failed to open '/dev/sd:a': Permission denied\" >&2\nexit 1\n")
    dd.chmod(0o755)
    script = tmp_path / "probe.sh"
    script.write_text(PROBE.read_text().replace("PATH=$PATH:", f"PATH={dd.parent}:$PATH:"))
    (array,) = read_recorded_inventory(parse_output(probe(machine.root, script=script))).arrays
    assert array.unseen == tuple(
        f"/dev/{name}: not seen: permission denied: run blklab as root" for name in ("sda", "sdb")
    )


def test_a_machine_with_nothing(tmp_path: Path) -> None:
    result = read_recorded_inventory(parse_output(probe(tmp_path)))
    assert result.unseen == ("/sys/block does not exist: cannot read any array",)


def test_half_a_script_does_nothing(tmp_path: Path) -> None:
    script = tmp_path / "half.sh"
    script.write_text(PROBE.read_text().rpartition("\n\n")[0][:-20])
    done = subprocess.run(["sh", "-s"], input=script.read_bytes(), capture_output=True, check=False, timeout=60)
    assert done.stdout == b""
