"""The disks and arrays of a host, as parts of a question."""

from pathlib import Path

import pytest

from blklab.advise.this_host import pools_of_this_host
from blklab.errors import UsageError
from tests.system.machine import Machine

SSD = {"device__vendor": "ATA", "device__model": "Samsung SSD 870 EVO 1TB", "queue__rotational": "0"}


def test_unused_disks_are_named_and_arrays_compared(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for at, name in enumerate(("sda", "sdb", "sdc")):
        machine.device(name, f"8:{16 * at}", **SSD, wwid=f"naa.500{at}")
        machine.device(f"{name}1", f"8:{16 * at + 1}", parent=name)
    machine.device("vda", "253:0")
    array = machine.device("md0", "9:0", slaves="sda1 sdb1")
    files = {"level": "raid1", "raid_disks": "2", "layout": "0", "chunk_size": "0", "array_state": "clean"}
    machine.write(array, {f"md__{name}": value for name, value in files.items()})
    for slot, name in enumerate(("sda1", "sdb1")):
        member = array / "md" / f"dev-{name}"
        machine.write(member, {"slot": str(slot), "state": "in_sync"})
        (member / "block").symlink_to(machine.roots.sys / "class/block" / name)
    notes: list[str] = []
    pools, paths, present = pools_of_this_host(machine.roots, {"870-evo": 90.0}, "steady", notes.append)
    assert [(pool.name, pool.count, pool.price, pool.bytes) for pool in pools] == [("870-evo", 3, 90.0, 1 << 30)]
    # sda and sdb belong to the array: no command may name them.
    assert set(paths) <= {"870-evo-3"}
    assert any(note.startswith("vda: left out: virtual disk") for note in notes)
    assert sum("is in use, so the commands do not name it" in note for note in notes) == 2
    (have,) = present
    assert have.words == "what you have: md0, RAID-1"
    assert have.stacks["present-md0"]["members"] == ["870-evo-1", "870-evo-2"]
    assert have.failures == 1


def test_a_host_without_known_disks_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.device("vda", "253:0")
    with pytest.raises(UsageError, match="--this-host: no disk of this host has a model"):
        pools_of_this_host(machine.roots, {}, "steady", lambda _: None)
