"""bcache: a cache device and a backing device."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from blklab.errors import BlklabError
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack

TICK = 14.0
"""Seconds until its statistics include everything: a timer adds up the counts every 13.6 s
(drivers/md/bcache/stats.c, `accounting_delay`)."""

COUNTS = ("cache_hits", "cache_misses", "cache_bypass_hits", "cache_bypass_misses", "cache_miss_collisions")
"""Files of `stats_total` (Documentation/admin-guide/bcache.rst)."""

BYPASS = ("sequential_cutoff", "congested_read_threshold_us", "congested_write_threshold_us")
"""Settings that make I/O bypass the cache: the first of the device, the others of its cache set."""


def create(guest: GuestStack, table: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> str:
    """Makes a bcache and returns its path. Raises BlklabError."""
    (backing,) = paths["backing"]
    (cache,) = paths["cache"]
    guest.load_modules("bcache")
    guest.run(
        *("make-bcache", "--wipe-bcache", "--block", f"{table['block']}"),
        *("--bucket", f"{table['bucket']}", "-B", backing, "-C", cache),
    )
    before = set(guest.glob("/sys/block/bcache*/size"))
    sets = set(guest.glob("/sys/fs/bcache/*/average_key_size"))
    for path in (cache, backing):
        guest.write("/sys/fs/bcache/register", path)
    guest.until(lambda: len(guest.glob("/sys/block/bcache*/size")) > len(before), "bcache device exists")
    size_path = _wait_for_new(guest, "/sys/block/bcache*/size", before)
    of_set = _wait_for_new(guest, "/sys/fs/bcache/*/average_key_size", sets)
    kernel = size_path.split("/")[3]
    cache_set = of_set.rpartition("/")[0]
    base = f"/sys/block/{kernel}/bcache"
    guest.undoing.append(lambda: _stop(guest, kernel, cache_set))
    guest.until(lambda: (guest.read(f"{base}/state") or "no cache") != "no cache", "bcache is attached")
    guest.write(f"{base}/cache_mode", table["mode"])
    guest.write(f"{base}/writeback_percent", str(table["writeback_percent"]))
    path = guest.add_cache(GuestLayer(table["name"], "bcache", kernel), backing, cache)
    _bypass(guest, table["name"], table)
    guest.readying.append(lambda: _clear(guest, base))
    guest.reports.append(lambda: {"kind": "bcache", **_statistics(guest, base, table["name"])})
    return path


def _wait_for_new(guest: GuestStack, pattern: str, before: set[str]) -> str:
    new = set(guest.glob(pattern)) - before
    if len(new) != 1:
        raise BlklabError(f"in the guest: found {len(new)} new {pattern}, expected one")
    return new.pop()


def _clear(guest: GuestStack, base: str) -> None:
    """Clears the statistics, after waiting until the timer has added up all counts."""
    time.sleep(TICK)
    guest.write(f"{base}/clear_stats", "1")


def _statistics(guest: GuestStack, base: str, name: str) -> dict[str, Any]:
    time.sleep(TICK)
    answers = guest.agent.read(
        [
            *(f"{base}/stats_total/{key}" for key in COUNTS),
            *(f"{base}/{key}" for key in ("state", "dirty_data", "cache_mode")),
            f"{base}/stats_total/bypassed",
        ]
    )
    figures: dict[str, Any] = {"name": name}
    for path, text in answers.items():
        key = path.rpartition("/")[2]
        value = (text or "").strip()
        figures[key] = int(value) if re.fullmatch(r"\d{1,18}", value, re.A) else value or None
    return {**figures, **buckets(guest, name)}


@contextmanager
def disable_bypass(guest: GuestStack, table: Mapping[str, Any]) -> Iterator[None]:
    """Makes a bcache cache everything during the block."""
    _bypass(guest, table["name"], dict.fromkeys(BYPASS, 0))
    yield
    _bypass(guest, table["name"], table)


def _bypass(guest: GuestStack, name: str, values: Mapping[str, Any]) -> None:
    base = f"/sys/block/{guest.find_layer(name).kernel}/bcache"
    cutoff, *thresholds = BYPASS
    guest.write(f"{base}/{cutoff}", str(values[cutoff]))
    for key in thresholds:
        guest.write(f"{base}/cache/{key}", str(values[key]))


def buckets(guest: GuestStack, name: str) -> dict[str, int]:
    """Returns the use of buckets, in per cent: `unused`, `clean`, `dirty`, `metadata`."""
    base = f"/sys/block/{guest.find_layer(name).kernel}/bcache"
    output = guest.read(f"{base}/cache/cache0/priority_stats") or ""
    shares = re.findall(r"^(Unused|Clean|Dirty|Metadata):\s+(\d{1,3})%", output, re.M | re.A)
    return {f"{name.lower()}_percent": int(share) for name, share in shares}


def _stop(guest: GuestStack, kernel: str, cache_set: str) -> None:
    guest.write(f"/sys/block/{kernel}/bcache/stop", "1")
    guest.until(lambda: not guest.glob(f"/sys/block/{kernel}/size"), "bcache device is gone")
    if guest.glob(f"{cache_set}/average_key_size"):
        guest.write(f"{cache_set}/stop", "1")
        guest.until(lambda: not guest.glob(f"{cache_set}/average_key_size"), "bcache's cache set is gone")
