"""Explain a simulated run: saturated parts, shares of devices, choices of the balancer, waits."""

from collections.abc import Iterator, Sequence
from typing import cast

from blklab.documents import outcome as simulated
from blklab.documents.cell import Cell
from blklab.outcome import CROWDED, LEAST_SHOWN, DeviceResult, Outcome, count_lookups
from blklab.units import format_count, format_duration, format_rate, format_size

BUSY = 0.95  # A part is saturated if it is busy for more than this share of the time

REASONS = {  # The reasons of the read balancer
    "only": "no other member could serve them",
    "sequential": "they continued its last read",
    "idlest": "it had the fewest I/Os pending",
    "nearest": "its head was nearest",
    "lowest": "its copy has the lowest address (far and offset layouts)",
}

PARTS = {"interface": "its interface", "media": "its media", "flushes": "flushing"}
"""Names of the parts of a device."""

COPIES = 1.05
"""Bytes that flash programs for a written one, above which a sentence says so."""


def explain(document: Cell, outcome: Outcome) -> list[str]:
    """Returns sentences with figures of a simulation, the most important first."""
    return [
        *_limits(document, outcome),
        *_states(document, outcome),
        *_wear(document, outcome),
        *_cleaning(document, outcome),
        *_shares(outcome),
        *_targets(document, outcome),
        *_chance(outcome),
        *_hits_over_time(outcome),
        *_waits(document, outcome),
        *_controller_waits(document, outcome),
    ]


def _states(document: Cell, outcome: Outcome) -> Iterator[str]:
    """Says what the state of each flash disk did to its reads and writes."""
    for device, of_cell in zip(outcome.devices, document["devices"], strict=True):
        model = {key: value for key, value in of_cell["model"].items() if isinstance(value, int)}
        state = str(of_cell["model"].get("condition", "fresh"))
        for direction, ios in zip(("read", "write"), device.ios, strict=True):
            fresh_ns, used_ns = (model.get(f"{kind}{direction}_command_ns", 0) for kind in ("", "sustained_"))
            if ios and used_ns and used_ns != fresh_ns and state not in {"fresh", "unwritten"}:
                yield (
                    f"Each {direction} command of {device.name} takes {format_duration(used_ns)}, "
                    f'as measured on such disks in use. `state = "fresh"` has {format_duration(fresh_ns)}, '
                    "from the data sheet."
                )
        reads, writes = device.ios
        if state == "unwritten" and reads:
            yield (
                f"{device.name} answered reads without its flash: its blocks were never written. "
                "A disk with data is slower."
            )
        if state == "worn" and writes:
            yield (
                f"{device.name} is worn: its writes take three times as long. "
                "Only one model of worn disks is known to blklab."
            )
        full_ns = _work(device)["media_cache_full_ns"]
        if full_ns is not None and of_cell["model"]["kind"] != "hdd":
            when = "begins full" if state in {"used", "worn"} else f"was full after {full_ns / 1e9:.1f} s"
            unit = model["units"] * model["program_bytes"] * 1e9
            cache_rate, full_rate = (format_rate(unit / model[key]) for key in ("program_ns", "fold_ns"))
            yield (
                f"The cache of single-bit cells of {device.name} {when}: "
                f"its flash takes up to {cache_rate} while the cache has space, "
                f"and {full_rate} when cached data must be moved first."
            )


def _wear(document: Cell, outcome: Outcome) -> Iterator[str]:
    """Says how much more a used flash disk programs than is written to it."""
    for device, of_cell in zip(outcome.devices, document["devices"], strict=True):
        written = device.sectors[1] * 512
        flash = _work(device)["flash_bytes"]
        if of_cell["model"].get("used") and written and flash > written * COPIES:
            yield (
                f"{device.name} programs {flash / written:.1f} bytes of flash for each byte written: "
                "a used disk copies valid pages before it erases a block, "
                "and a cache of single-bit cells is moved when idle."
            )


def _cleaning(document: Cell, outcome: Outcome) -> Iterator[str]:
    """Says when the media cache of a shingled disk, or a disk's media log, was full."""
    for device, of_cell in zip(outcome.devices, document["devices"], strict=True):
        full_ns = _work(device)["media_cache_full_ns"]
        bands = _work(device)["bands_cleaned"]
        if full_ns is None or _work(device)["flash_bytes"]:
            continue
        when = f"of {device.name} was full after {full_ns / 1e9:.1f} s: from then on,"
        if of_cell["model"].get("media_log_writes"):
            yield f"The media log {when} each write went to its place. The disk empties it when it is idle."
        else:
            yield (
                f"The media cache {when} writes waited until a band was rewritten "
                f"({format_count(bands)} bands in all). `media_cache_fill` is how full it is at first."
            )


def _work(device: DeviceResult) -> simulated.DiskWork:
    return cast(simulated.DiskWork, device.work)  # only simulations have it


def saturation(device: DeviceResult, runtime_ns: int) -> tuple[float, str]:
    """Returns the busy share of a device's busiest part, and the name of the part."""
    work = _work(device)
    flush_ns = device.flush_ns or 0
    parts = {
        "interface": work["interface_ns"] / runtime_ns,
        "media": (work["media_ns"] - flush_ns) / runtime_ns,
        "flushes": flush_ns / runtime_ns,
    }
    part = max(parts, key=lambda name: parts[name])
    return parts[part], part


def _of_time(share: float) -> str:
    return f"{100 * share:.0f} % of the time"


def _limits(document: Cell, outcome: Outcome) -> Iterator[str]:
    runtime = outcome.observed_ns
    busy = [(*saturation(device, runtime), device) for device in outcome.devices]
    saturated_parts = [f"{disk.name} ({PARTS[part]} {_of_time(share)})" for share, part, disk in busy if share >= BUSY]
    for name, devices in _behind_controllers(document, outcome).items():
        share = sum(device.controller_ns or 0 for device in devices) / runtime
        if share >= BUSY:
            saturated_parts.append(f"controller {name} ({_of_time(share)})")
    limits = list(_processor_limits(document, outcome))
    yield from limits
    if saturated_parts:
        yield f"Saturated: {', '.join(saturated_parts)}."
    cpu = _processor(document, outcome)
    if cpu >= 0.9:
        yield f"The CPUs of the jobs are the limit: they are busy {_of_time(cpu)}."
    elif not (saturated_parts or limits) and (throttled_devices := [d for d in outcome.devices if _is_throttled(d)]):
        share, part = saturation(throttled_devices[0], runtime)
        yield f"Writeback throttling of {throttled_devices[0].name} is the limit ({PARTS[part]} {_of_time(share)})."
    elif not (saturated_parts or limits):
        share, part, busiest = max(busy, key=lambda entry: entry[0])
        limit = "The time of each I/O and the queue depth limit the rate."
        if _is_paced(document):
            limit = "The load asks for no more."
        yield (
            f"No device is at its limit: the busiest is {busiest.name} ({PARTS[part]} {_of_time(share)}), "
            f"and the jobs' CPUs are busy {100 * cpu:.0f} % of it. {limit}"
        )


def _is_paced(document: Cell) -> bool:
    """Whether I/Os arrive at a rate of their own: that of a trace, or that of each job."""
    if document["replay"]:
        return bool(document["replay"]["timed"])
    return bool(document["jobs"]) and all(job["rate_iops"] for job in document["jobs"])


def _processor_limits(document: Cell, outcome: Outcome) -> Iterator[str]:
    """Says which locks and threads of arrays and caches, and whether the cores, are in use most of the time."""
    for target in cast(Sequence[simulated.TargetReport], outcome.targets):
        limiter = {"lvmcache": "dm-cache"}.get(target["kind"], target["kind"])
        limits = f"{limiter} limits {target['name']} (kernel {document['kernel']})"
        locks = {lock["name"]: lock["held_ns"] for lock in cast(list[simulated.LockUse], target.get("locks", []))}
        thread_ns = 0
        thread = ""
        remedy = ""
        if target["kind"] == "md":
            thread_ns = target["thread_ns"]
            thread = "the thread of its rows"
            remedy = " (`group_thread_cnt` adds threads)"
        elif target["kind"] == "bcache":
            thread_ns = target["worker_ns"]
            thread = "the worker that inserts keys into the btree"
        name, held_ns = max(locks.items(), key=lambda item: item[1], default=("", 0))
        if max(held_ns, thread_ns) < CROWDED * outcome.observed_ns:
            continue
        share = min(1, max(held_ns, thread_ns) / outcome.observed_ns)
        if held_ns > thread_ns:
            yield f"{limits}: {name} is held {_of_time(share)}. Such locks differ by a factor of twelve."
        else:
            yield f"{limits}: {thread} is busy {_of_time(share)}{remedy}."
    if (busy_share := outcome.cores_busy or 0) >= CROWDED:
        yield f"The CPUs are busy {_of_time(busy_share)}: jobs and md's threads share them (host.cores)."


def _behind_controllers(document: Cell, outcome: Outcome) -> dict[str, list[DeviceResult]]:
    """Returns the devices behind each controller, by its name."""
    devices_by_controller: dict[str, list[DeviceResult]] = {}
    for device, of_cell in zip(outcome.devices, document["devices"], strict=True):
        name = of_cell.get("controller")
        if name:
            devices_by_controller.setdefault(name, []).append(device)
    return devices_by_controller


def _is_throttled(device: DeviceResult) -> bool:
    return bool((device.throttle_waits or 0) > 0.01 * max(1, sum(device.ios)))


def _processor(document: Cell, outcome: Outcome) -> float:
    jobs = sum(job["numjobs"] for job in document["jobs"]) + bool(document["replay"])
    return (outcome.processor_ns or 0) / (max(1, jobs) * outcome.observed_ns)


def _shares(outcome: Outcome) -> Iterator[str]:
    runtime = outcome.observed_ns
    if len(outcome.devices) < 2:
        return
    for direction, name in ((0, "reads"), (1, "writes")):
        total = sum(device.ios[direction] for device in outcome.devices)
        if not total:
            continue
        parts = []
        for device in outcome.devices:
            ios = device.ios[direction]
            depth = device.ticks_ns[direction] / runtime
            took = format_duration(device.ticks_ns[direction] / ios) if ios else "–"
            merges = device.merges[direction] / max(1, ios)
            merging = f", {merges:.2g} merged into each" if merges >= 0.05 else ""
            figures = f"{ios * 1e9 / runtime:,.0f} per second, {took} each, " if outcome.is_known else ""
            parts.append(f"{device.name} {100 * ios / total:.1f} % ({figures}{depth:.1f} in its queue{merging})")
        yield f"Shares of the {name}: {'; '.join(parts)}."


def _targets(document: Cell, outcome: Outcome) -> Iterator[str]:
    for target in cast(Sequence[simulated.TargetReport], outcome.targets):
        if target["kind"] == "md":
            yield from _md(document, target)
        elif target["kind"] == "lvmcache":
            yield from _dm_cache(target)
        elif target["kind"] == "bcache":
            yield from _bcache(target)
        elif target["kind"] == "writecache":
            yield from _writecache(target)
        elif sum(target["held"]):
            reads, other_bios = map(format_count, target["held"])
            yield f"{target['name']} delayed {reads} reads and {other_bios} other bios."


def _chance(outcome: Outcome) -> Iterator[str]:
    for name, (low, high) in ((outcome.interval and outcome.interval.hits) or {}).items():
        if high - low >= LEAST_SHOWN:
            yield f"{name}: nine of ten runs have {100 * low:.1f} % to {100 * high:.1f} % of hits, by chance."


def _hits_over_time(outcome: Outcome) -> Iterator[str]:
    """Compares the first, the middle and the last tenth of the time, if their shares of hits differ."""
    counts = outcome.look_ups
    tenth = len(counts) // 10
    middle = len(counts) * 9 // 20
    if tenth:
        first = _hit_share(counts[:tenth])
        between = _hit_share(counts[middle : middle + tenth])
        last = _hit_share(counts[-tenth:])
        if max(first, between, last) - min(first, between, last) > 0.01:
            three = f"{100 * first:.1f} % in the first tenth of the time, {100 * between:.1f} % in the middle"
            yield f"Hits over time: {three}, {100 * last:.1f} % in the last tenth."


def _hit_share(counts: Sequence[Sequence[int]]) -> float:
    """Returns the share of hits, from numbers of hits and misses."""
    hits = sum(hits for hits, _ in counts)
    return hits / sum(hits + misses for hits, misses in counts)


def _dm_cache(cache: simulated.LvmcacheTargetReport) -> Iterator[str]:
    hits, misses = count_lookups(cache)
    name = cache["name"]
    promotions = cache["promotions"]
    full = cache["used_blocks"] == cache["blocks"]
    if not hits + misses:
        return
    yield (
        f"{name}: {100 * hits / (hits + misses):.1f} % of the bios hit; "
        f"{format_count(promotions)} blocks were promoted and {format_count(cache['demotions'])} demoted; "
        f"{format_count(cache['metadata_writes'])} metadata writes."
    )
    if misses > 4 * promotions and misses > hits / 100:
        if full and cache["dirty"] > 0.9 * cache["blocks"]:
            reason = "nearly all of its blocks are dirty, and only clean ones can be replaced"
        elif full:
            reason = "it is full, and the policy replaces few blocks"
        else:
            reason = "the policy does not promote blocks that are missed rarely"
        yield f"{name}: most misses promoted nothing: {reason}."
    if cache["waited"] > (hits + misses) / 100:
        yield f"{name}: {format_count(cache['waited'])} bios waited until their block was copied."


def _bcache(cache: simulated.BcacheTargetReport) -> Iterator[str]:
    hits, misses = count_lookups(cache)
    if hits + misses:
        yield f"{cache['name']}: {100 * hits / (hits + misses):.1f} % of the reads that did not bypass it hit."
    if cache["bypassed_bytes"]:
        yield (
            f"{cache['name']}: {format_size(cache['bypassed_bytes'])} bypassed it: sequential I/O, "
            "a slow cache device, its mode, or nearly all of its buckets are dirty."
        )


def _writecache(cache: simulated.WritecacheTargetReport) -> Iterator[str]:
    name = cache["name"]
    reads = cache["reads"]
    writes = cache["writes"]
    if writes:
        back = format_count(cache["writebacks"])
        commits = format_count(cache["commits"])
        share = 100 * (1 - cache["writes_around"] / writes)
        yield (
            f"{name} took {share:.1f} % of the blocks that were written. It wrote {back} back. "
            f"{commits} commits stopped all I/O while they ran."
        )
    if reads:
        yield f"{name}: {100 * cache['read_hits'] / reads:.1f} % of the blocks that were read were in it."
    if cache["writes_around"]:
        yield (
            f"{name} was full: {format_count(cache['writes_around'])} blocks went to the slow device. "
            "Since Linux 5.14, nothing is written back until 3 s after the last of them."
        )


def _md(document: Cell, array: simulated.MdReport) -> Iterator[str]:
    choices = []
    for slot, stats in enumerate(array["slots"]):
        for reason, count in stats.items():
            if reason in REASONS and isinstance(count, int) and count:
                choices.append((slot, reason, count))
    total = sum(count for *_, count in choices)
    if total and len(array["slots"]) > 1:
        choices.sort(key=lambda choice: -choice[2])
        shares = [
            f"{100 * count / total:.1f} % went to slot {slot} because {REASONS[reason]}"
            for slot, reason, count in choices[:4]
            if count / total >= 0.001
        ]
        balancer = f"The balancer of {array['name']} (kernel {document['kernel']})"
        yield f"{balancer} chose for {format_count(total)} reads: {'; '.join(shares)}."
    if array["bitmap_writes"]:
        yield f"{array['name']} wrote its bitmap {format_count(array['bitmap_writes'])} times."


def _waits(document: Cell, outcome: Outcome) -> Iterator[str]:
    runtime = outcome.observed_ns
    for device, of_cell in zip(outcome.devices, document["devices"], strict=True):
        kind = of_cell["model"]["kind"]
        suffix = "" if kind == "nvme" else ", and served nothing else then"
        protection = " It has no power-loss protection." if of_cell["model"].get("flush_ns") and kind != "hdd" else ""
        ios = max(1, sum(device.ios))
        if _is_throttled(device):
            yield (
                f"Writeback throttling of {device.name} put tasks to sleep "
                f"{format_count(device.throttle_waits or 0)} times. md submits writes without REQ_IDLE, "
                "so they count as buffered writes. With a write cache, "
                "sleeping tasks continue only after all writes are complete."
            )
        if (waits := device.tag_waits or 0) / ios > 0.01:
            yield f"All tags (nr_requests) of {device.name} were in use {format_count(waits)} times, so a task waited."
        if (flush_ns := device.flush_ns or 0) / runtime > 0.05:
            share = _of_time(min(1, flush_ns / runtime))
            average = format_duration(flush_ns / (device.flushes or 1))
            yield (
                f"{device.name} spent {share} in {format_count(device.flushes or 0)} flushes, {average} each{suffix}. "
                f"Journal commits and fsync cause flushes.{protection}"
            )
        if (durable_ns := _work(device)["durable_ns"]) / runtime > 0.05:
            share = _of_time(min(1, durable_ns / runtime))
            yield f"{device.name} spent {share} on writes with forced unit access.{protection}"


def _controller_waits(document: Cell, outcome: Outcome) -> Iterator[str]:
    """Says how long controllers held completions back, and how often writes waited for their caches."""
    for name, devices in _behind_controllers(document, outcome).items():
        if held_ns := sum(device.held_ns or 0 for device in devices):
            average = format_duration(held_ns / max(1, sum(sum(device.ios) for device in devices)))
            yield f"Controller {name} coalesces interrupts: it held completions back for {average} on average."
        if waits := sum(device.cache_waits or 0 for device in devices):
            yield (
                f"The write cache of controller {name} was full: "
                f"{format_count(waits)} writes waited until older ones were on the disks."
            )
