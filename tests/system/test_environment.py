"""What is kept of the machine with a result."""

import json

from blklab.system.environment import environment, governors, memory
from blklab.system.layers import layers
from blklab.system.roots import Roots
from tests.system.machine import Machine

MDSTAT = """Personalities : [raid1] [raid10]
md127 : active raid1 sdb1[1] sda1[0]
      260096 blocks super 1.2 [2/2] [UU]
"""


def test_everything_that_is_told(machine: Machine) -> None:
    machine.proc("cpuinfo", "processor\t: 0\nmodel name\t: CPU @ 3\nprocessor\t: 1\n")
    machine.proc("meminfo", "MemTotal:       16384 kB\nHugePages_Total:       0\n")
    machine.proc("mdstat", MDSTAT)
    machine.proc("sys/vm/dirty_ratio", "20")
    machine.write(
        machine.roots.sys / "devices/system/cpu/cpu0",
        {"cpufreq/scaling_governor": "powersave", "cpufreq/scaling_driver": "intel_pstate"},
    )
    sysfs = machine.roots.sys / "block"
    machine.write(sysfs / "sda", {"queue/scheduler": "[none] bfq", "queue/write_cache": "write back"})
    machine.write(sysfs / "sda/device", {"model": "ST4000DM004  ", "rev": "0001"})
    machine.write(sysfs / "sda/sda1", {"start": "2048"})
    machine.write(
        sysfs / "md127/md",
        {"chunk_size": "0", "dev-sda1/state": "in_sync", "dev-sdb1/state": "faulty", "level": "raid1"},
    )
    machine.mount("253:0", machine.root, "xfs", "/dev/mapper/vg-lv", "rw,logbufs=8")
    result = environment(layers(["253:0"], machine.roots), machine.roots)
    assert result["cpu"]["model"] == "CPU @ 3"
    assert (result["cpu"]["count"], result["memory_bytes"]) == (2, 16384 * 1024)
    assert result["cpu"]["governor"] == ["intel_pstate powersave"]
    assert governors(machine.roots) == {"intel_pstate powersave": ["cpu0"]}
    assert result["mdstat"] == MDSTAT.strip()
    assert result["vm"] == {"dirty_ratio": "20"}
    devices = {device["name"]: device for device in result["devices"]}
    assert list(devices) == ["dm-0", "md127", "sda1", "sdb1", "sda", "sdb"]
    assert devices["sda"]["queue"] == {"scheduler": "[none] bfq", "write_cache": "write back"}
    assert devices["sda"]["hardware"] == {"model": "ST4000DM004", "rev": "0001"}
    assert devices["sda1"]["start_bytes"] == 1048576
    assert devices["md127"]["md"]["members"] == {"sda1": {"state": "in_sync"}, "sdb1": {"state": "faulty"}}
    assert devices["dm-0"]["mounts"] == [
        {"point": str(machine.root), "type": "xfs", "options": "rw", "filesystem": "rw,logbufs=8"}
    ]
    assert json.loads(json.dumps(result)) == result


def test_a_machine_that_tells_nothing(machine: Machine) -> None:
    (machine.roots.sys / "class/block/sdb1").unlink()
    machine.write(machine.roots.sys / "block/sda/device", {"model": "x"})
    (machine.roots.sys / "block/sda/device/model").write_bytes(b"\xff\xfe\n")
    result = environment(layers(["9:127"], machine.roots), machine.roots)
    assert (result["memory_bytes"], result["mdstat"], result["cpu"]["governor"]) == (None, None, None)
    devices = {device["name"]: device for device in result["devices"]}
    assert devices["sdb1"]["gone"] is True
    assert devices["sda"]["hardware"]["model"] == "��"
    assert json.dumps(result, ensure_ascii=False).encode()


def test_this_machine() -> None:
    roots = Roots()
    result = environment([], roots)
    assert result["cpu"]["count"] >= 1
    assert result["memory_bytes"] == memory(roots)["MemTotal"] > 0
