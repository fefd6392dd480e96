"""A machine with caches: sysfs, and a dmsetup that prints what it is given."""

from pathlib import Path

import pytest

from tests.system.machine import Machine


class CacheMachine(Machine):
    """Disks, dm devices with tables and status, and bcaches."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.printed: dict[str, list[str]] = {"table": [], "status": []}
        (root / "bin").mkdir()
        self.proc("sys/kernel/random/boot_id", "first")

    def mapped(self, name: str, number: str, title: str, table: str, status: str, slaves: str = "") -> None:
        """Makes a dm device with one line of its table and of its status."""
        self.device(name, number, slaves=slaves, dm__name=title, dm__uuid=f"LVM-{title}")
        self.printed["table"].append(f"{title}: 0 2088960 {table}")
        self.say(title, status)

    def say(self, title: str, status: str) -> None:
        """Sets the status of a dm device."""
        others = [line for line in self.printed["status"] if not line.startswith(f"{title}: ")]
        self.printed["status"] = [*others, f"{title}: 0 2088960 {status}"]
        program = self.root / "bin" / "dmsetup"
        cases = "\n".join(f"{word}) cat <<'E'\n" + "\n".join(lines) + "\nE\n;;" for word, lines in self.printed.items())
        program.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n')
        program.chmod(0o755)

    def bcache(self, **files: str) -> None:
        """Makes bcache0: sda is cached on sdb. Values are as Linux 6.1 prints them."""
        backing, cache = self.device("sda", "8:0"), self.device("sdb", "8:16")
        node = self.device("bcache0", "252:0")
        cache_set = self.roots.sys / "fs/bcache/6a2e"
        self.write(cache / "bcache", {
            "bucket_size": "512.0k", "nbuckets": "2048", "written": "1.5G", "io_errors": "0",
            "cache_replacement_policy": "[lru] fifo random",
            "priority_stats": "Unused:\t\t25%\nClean:\t\t70%\nDirty:\t\t4%\nMetadata:\t1%\nAverage:\t1",
        })  # fmt: skip
        self.write(cache_set, {
            "congested_read_threshold_us": "2000", "congested_write_threshold_us": "0", "cache_available_percent": "98",
        })  # fmt: skip
        (cache_set / "cache0").symlink_to(cache / "bcache")
        attributes = {
            "cache_mode": "writethrough [writeback] writearound none", "state": "dirty", "dirty_data": "40.0M",
            "sequential_cutoff": "4.0M", "writeback_percent": "10", "writeback_running": "1",
            "stats_total__cache_hits": "900", "stats_total__cache_misses": "100",
            "stats_total__cache_bypass_hits": "1", "stats_total__cache_bypass_misses": "2",
            "stats_total__bypassed": "1.2G", **files,
        }  # fmt: skip
        self.write(backing / "bcache", attributes)
        (backing / "bcache" / "cache").symlink_to(cache_set)
        (node / "bcache").symlink_to(backing / "bcache")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheMachine:
    made = CacheMachine(tmp_path)
    monkeypatch.setattr("blklab.system.dmsetup.PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return made
