"""What a device is made of, as a tree: on machines made of files."""

import os
from pathlib import Path

import pytest

from blklab.system.layers import SysfsLayer, layers, node_of
from blklab.system.mounts import list_all_mounts, mounts
from blklab.system.roots import Roots, state_directory
from blklab.trace.record.recording import describe_stack
from tests.system.machine import Machine


def tree(machine: Machine, *numbers: str) -> dict[str, tuple[str, tuple[str, ...], bool]]:
    result = layers(numbers, machine.roots)
    return {layer.name: (layer.kind, layer.above, layer.leaf) for layer in result}


def only(machine: Machine, name: str, *numbers: str) -> SysfsLayer:
    [layer] = [layer for layer in layers(numbers, machine.roots) if layer.name == name]
    return layer


def test_a_volume_on_an_array_of_partitions(machine: Machine) -> None:
    assert tree(machine, "253:0") == {
        "dm-0": ("dm", (), False),
        "md127": ("md", ("dm-0",), False),
        "sda1": ("partition", ("md127",), False),
        "sdb1": ("partition", ("md127",), False),
        "sda": ("disk", ("sda1",), True),
        "sdb": ("disk", ("sdb1",), True),
    }
    partition = only(machine, "sda1", "253:0")
    assert partition.number == "8:1"
    assert partition.disk is not None
    assert partition.disk.name == "sda"


def test_two_arrays_on_one_disk(machine: Machine) -> None:
    machine.device("sda2", "8:2", parent="sda")
    machine.device("md1", "9:1", slaves="sda2")
    assert tree(machine, "9:127", "9:1")["sda"] == ("disk", ("sda1", "sda2"), True)


def test_a_number_is_no_path(machine: Machine) -> None:
    assert node_of("8:0", machine.roots) is not None
    for name in (str(machine.root), "../../block/sda", "8:0/queue", ""):
        assert node_of(name, machine.roots) is None


def test_what_is_unplugged_stays_without_a_place(machine: Machine) -> None:
    (machine.roots.sys / "class/block/sdb1").unlink()
    assert tree(machine, "9:127")["sdb1"] == ("other", ("md127",), True)
    gone = only(machine, "sdb1", "9:127")
    assert (gone.number, gone.node, gone.disk) == (None, None, None)
    assert tree(machine, "8:99") == {"8:99": ("other", (), True)}


def test_nvme_multipath_has_hidden_paths(machine: Machine) -> None:
    machine.device("nvme0n1", "259:0", device__model="X")
    machine.device("nvme0c0n1", "", device__model="X")
    machine.device("nvme0c1n1", "", device__model="X")
    machine.device("nvme1c0n1", "", device__model="another")
    paths = {
        "nvme0n1": ("disk", (), False),
        "nvme0c0n1": ("disk", ("nvme0n1",), True),
        "nvme0c1n1": ("disk", ("nvme0n1",), True),
    }
    assert tree(machine, "259:0") == paths
    assert only(machine, "nvme0c0n1", "259:0").number is None
    head = machine.roots.sys / "devices/block/nvme0n1/multipath"
    head.mkdir()
    for name in ("nvme0c0n1", "nvme0c1n1"):  # since Linux 6.15
        (head / name).symlink_to(machine.roots.sys / "block" / name)
    assert tree(machine, "259:0") == paths


def test_bcache_is_on_its_backing_device_and_its_cache(machine: Machine) -> None:
    # As bcache_device_link and register_bcache make them, without the slaves.
    cache_set = machine.roots.sys / "fs/bcache/uuid"
    cache_set.mkdir(parents=True)
    for name in ("sdb", "sdc"):
        (machine.roots.sys / "devices/block" / name / "bcache").mkdir()
    backing = machine.roots.sys / "devices/block/sdb/bcache"
    (backing / "cache").symlink_to(cache_set)
    (cache_set / "cache0").symlink_to(machine.roots.sys / "devices/block/sdc/bcache")
    node = machine.device("bcache0", "251:0")
    (node / "bcache").symlink_to(backing)
    (backing / "dev").symlink_to(node)
    assert tree(machine, "251:0") == {
        "bcache0": ("bcache", (), False),
        "sdb": ("disk", ("bcache0",), True),
        "sdc": ("disk", ("bcache0",), True),
    }


def test_a_circle_of_links_ends(machine: Machine) -> None:
    node = machine.device("md9", "9:9")
    (node / "slaves/md9").symlink_to(node)
    assert tree(machine, "9:9") == {"md9": ("md", (), False)}


def test_kinds_by_name(machine: Machine) -> None:
    for number, (name, kind) in enumerate(
        {"loop7": "loop", "md_d0": "md", "zram0": "other", "bcache12": "bcache"}.items()
    ):
        machine.device(name, f"99:{number}")
        assert tree(machine, f"99:{number}")[name][0] == kind


def test_mounts_of_every_namespace_once(machine: Machine) -> None:
    machine.mount("8:1", Path("/srv"), "ext4", "/dev/sda1")
    for pid, namespace in (("7", "mnt:[2]"), ("8", "mnt:[2]"), ("9", "mnt:[1]")):
        (machine.roots.proc / pid / "ns").mkdir(parents=True)
        (machine.roots.proc / pid / "ns/mnt").symlink_to(namespace)
        line = f"1 1 8:{pid} / /in{pid} rw - xfs /dev/sdx rw"
        (machine.roots.proc / pid / "mountinfo").write_text(line + "\nnonsense\n1 2 3 - -\n")
    (machine.roots.proc / "self/ns").mkdir()
    (machine.roots.proc / "self/ns/mnt").symlink_to("mnt:[1]")
    assert [mount.point for mount in list_all_mounts(machine.roots)] == ["/srv", "/in7"]
    assert mounts(machine.roots)[0].flags == "rw"


def test_where_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_STATE", "/somewhere")
    assert Roots().state == Path("/somewhere")
    monkeypatch.delenv("BLKLAB_STATE")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_directory() == Path("/var/lib/blklab")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/x/state")
    assert state_directory() == Path("/x/state/blklab")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/h")
    assert state_directory() == Path("/h/.local/state/blklab")


def test_a_recording_names_volumes_and_only_those_of_lvm(machine: Machine) -> None:
    mapped = machine.roots.sys / "class/block/dm-0/dm"
    mapped.mkdir(exist_ok=True)
    for uuid, label in (("LVM-abc", "my-vg/home"), ("CRYPT-LUKS2-abc", "my--vg-home")):
        (mapped / "name").write_text("my--vg-home\n")
        (mapped / "uuid").write_text(f"{uuid}\n")
        (mapped.parent / "size").write_text("8192\n")
        stack = {layer["name"]: layer for layer in describe_stack(["253:0"], machine.roots)}
        assert (stack["dm-0"]["label"], stack["dm-0"]["bytes"]) == (label, 4 << 20)
        assert (stack["md127"]["kind"], stack["md127"]["above"]) == ("md", ["dm-0"])
