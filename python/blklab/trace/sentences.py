"""Five sentences that describe a workload, for the terminal and for pages."""

from collections.abc import Iterator, Sequence

from blklab.documents.profile import ArrivalsSummary, StreamsSummary, ZipfFit
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.trace.view import BLOCK, OPS, UNKNOWN, DeviceView, OriginGroup
from blklab.units import SECTOR

FEW_LOST = 0.001  # Share of I/Os with lost events below which nothing is said
ALMOST_ALL = 0.95  # Share from which a value is called nearly the only one
FEWEST = 20  # Minimum number of I/Os for a statement about their order


START = {  # The beginning of the description of a device whose I/Os were not recorded from their queueing
    "D": "This trace has no Q events, or not all: I/Os are counted when they were dispatched (D), without queueing. ",
    "C": "This trace has only C events: I/Os are counted when they completed; latency and depth are unknown. ",
}
STARTED = {"Q": "queued", "D": "dispatched", "C": "completed"}


def sentences(device: DeviceView) -> list[Sentence]:
    """Returns five sentences that describe the workload of a device."""
    return [
        Sentence("Load", _load(device)),
        Sentence("Pattern", _pattern(device)),
        Sentence("Latency", _latency(device)),
        Sentence("Locality", _locality(device)),
        Sentence("Origin", _origin(device)),
    ]


def brief_sentences(device: DeviceView) -> list[Sentence]:
    """Returns the same five topics, each as one short line."""
    mix = [f"{formatting.share(device.op(op).share_of_ios)} {formatting.ops(op)}" for op in device.ops]
    rates = [f"{formatting.number(device.iops)} IOPS", formatting.rate(device.throughput)]
    load = f"{START.get(device.start, '')}{' and '.join(rates)}: {formatting.listing(mix)}"
    if not device.capabilities.directions:
        load += "; the trace does not distinguish reads and writes"
    op_sizes = [(op, _sizes(device, op).partition(" (")[0]) for op in ("read", "write") if device.op(op).sizes.count]
    callers = [
        f"{group.label} {formatting.share(group.total / device.ios)}" for group in device.groups("processes")[:3]
    ]
    parts = {
        "Load": load if device.ios else _load(device),
        "Sizes": ", ".join(f"{formatting.ops(op)} {sizes}" for op, sizes in op_sizes),
        "Pattern": _brief_pattern(device),
        "Latency": _brief_latency(device),
        "Locality": _brief_locality(device),
        "Origin": ", ".join(callers) if device.ios else "",
    }
    return [Sentence(topic, text) for topic, text in parts.items() if text]


def _brief_pattern(device: DeviceView) -> str:
    parts = []
    for op in ("read", "write"):
        streams = device.streams(op)
        if streams.ios >= FEWEST:
            parts.append(f"{formatting.ops(op)} {formatting.share(streams.sequential_share)} sequential")
    arrivals = device.data.pattern.arrivals.pattern
    if arrivals:
        parts.append(f"arrivals are {arrivals}")
    return ", ".join(parts)


def _brief_latency(device: DeviceView) -> str:
    parts = []
    for op in ("read", "write"):
        response = device.response(op)
        if response:
            _, took = response
            median = formatting.duration(took.p50)
            parts.append(f"{formatting.ops(op)} {median} (p99 {formatting.duration(took.p99)})")
    if device.has_depth:
        parts.append(f"{formatting.number(device.data.in_flight.mean)} in flight")
    stalls = device.data.slow.stalls
    if stalls:
        longest = formatting.duration(max(stall.length_ns for stall in stalls))
        parts.append(f"{formatting.plural(len(stalls), 'stall')} of up to {longest}")
    return ", ".join(parts)


def _brief_locality(device: DeviceView) -> str:
    hotness = device.data.hotness
    if not hotness.accesses:
        return ""
    accesses_per_block = hotness.accesses_per_block or 0.0
    often = f"each {formatting.number(accesses_per_block)} times"
    if accesses_per_block < 1.05:
        often = "hardly any of them twice"
    return f"{formatting.size(hotness.unique_bytes)} of distinct blocks, {often}"


# --- load: how much, of what, how large -----------------------------------------------------------


def _load(device: DeviceView) -> str:
    if not device.ios:
        completions = sum(device.life(op).without_queue for op in device.ops)
        requests = formatting.plural(completions, "request")
        return (
            f"No I/O was queued on {device.label} as a bio; it dispatched {requests} of its driver or passed through."
        )
    text = START.get(device.start, "") + f"{device.label} received {formatting.plural(device.ios, 'I/O')}"
    if device.bytes:
        text += f" and {formatting.size(device.bytes)}"
    if device.span_ns and device.iops is not None:
        text += f" in {formatting.duration(device.span_ns)}"
        rates = [f"{formatting.number(device.iops)} IOPS"]
        if device.bytes:
            rates.append(formatting.rate(device.throughput))
        text += f" ({', '.join(rates)})"
    ops_with_ios = [op for op in device.ops if device.op(op).ios]
    if len(ops_with_ios) == 1:
        sizes = _sizes(device, ops_with_ios[0])
        if not device.capabilities.directions:
            sizes_text = f"they are {sizes}; " if sizes else ""
            return f"{text}: {sizes_text}the trace does not distinguish reads and writes."
        return f"{text}: nothing but {formatting.ops(ops_with_ios[0])}" + (f", {sizes}." if sizes else ".")
    sizes_by_op = [(op, _sizes(device, op)) for op in ops_with_ios]
    size_list = formatting.listing([f"{formatting.ops(op)} are {sizes}" for op, sizes in sizes_by_op if sizes])
    sorted_ops = sorted(ops_with_ios, key=lambda op: -device.op(op).ios)
    mix = formatting.listing(
        [f"{formatting.share(device.op(op).share_of_ios)} {formatting.ops(op)}" for op in sorted_ops]
    )
    return f"{text}: {mix}" + (f"; {size_list}." if size_list else ".")


def _sizes(device: DeviceView, op: str) -> str:
    """Returns the sizes of an operation's I/Os, to follow `reads are`; empty if they have none."""
    sizes = device.op(op).sizes
    if not sizes.count:
        return ""
    low, high = sizes.min_bytes, sizes.max_bytes
    mode = sizes.mode_bytes
    if low == high:
        return f"all {formatting.size(mode)}"
    at_mode = next((entry.count for entry in sizes.exact if entry.bytes == mode), 0)
    share = at_mode / sizes.count
    heavy = max(sizes.exact, key=lambda entry: entry.count * entry.bytes)
    by_bytes = heavy.count * heavy.bytes / sizes.total_bytes
    bytes_text = ""
    if heavy.bytes != mode and by_bytes >= 0.25:
        bytes_text = f"; {formatting.share(by_bytes)} of the bytes in I/Os of {formatting.size(heavy.bytes)}"
    if share >= 0.5:
        how = "nearly all" if share >= ALMOST_ALL else "mostly"
        return f"{how} {formatting.size(mode)} ({formatting.share(share)}{bytes_text}; up to {formatting.size(high)})"
    median = formatting.size(sizes.median_bytes)
    return f"{formatting.size(low)} to {formatting.size(high)} (median {median}{bytes_text})"


# --- pattern: sequential or random, steady or bursty ----------------------------------------------


def _pattern(device: DeviceView) -> str:
    pattern = device.data.pattern
    streams = {op: device.streams(op) for op in ("read", "write")}
    names = {op: formatting.ops(op) if device.capabilities.directions else "I/Os" for op in streams}
    sentences_of_order = [
        _order(names[op], streams_of_op) for op, streams_of_op in streams.items() if streams_of_op.ios >= FEWEST
    ]
    few = [
        f"{names[op]} ({streams_of_op.ios})" for op, streams_of_op in streams.items() if 0 < streams_of_op.ios < FEWEST
    ]
    parts = [formatting.listing(sentences_of_order)] if sentences_of_order else []
    if few:
        parts.append(f"{formatting.listing(few)} are too few to call sequential or random")
    seeks = pattern.seeks
    seek_count = seeks.forward + seeks.backward
    if seek_count >= FEWEST and seeks.median_distance_sectors:
        parts.append(f"half of all seeks go further than {formatting.size(SECTOR * seeks.median_distance_sectors)}")
    parts.append(_arrivals(pattern.arrivals, device.capabilities.clock_ns))
    return _sentence(parts)


def _order(name: str, streams: StreamsSummary) -> str:
    share = streams.sequential_share or 0.0
    evidence = f"{formatting.share(share)} of them continue a stream"
    if share < 0.2:
        degree = "random" if share < 0.05 else "mostly random"
        return f"{name} are {degree} ({evidence})"
    degree = "partly sequential" if share < 0.5 else "mostly sequential"
    degree = "sequential" if share >= ALMOST_ALL else degree
    run = formatting.size(streams.run_bytes.mean)
    lanes = streams.peak_concurrent_streams
    at_once = f", up to {lanes} streams at once" if lanes > 1 else ""
    return f"{name} are {degree} ({evidence}, runs of {run} on average{at_once})"


def _arrivals(arrivals: ArrivalsSummary, clock_ns: int | None) -> str:
    if arrivals.pattern and (clock_ns is None or (arrivals.inter_arrival_ns.mean or 0.0) < clock_ns):
        return "the clock of the trace is too coarse to describe the rhythm of arrivals"
    if not arrivals.pattern:
        return "too few arrivals to describe their rhythm"
    text = f"arrivals are {arrivals.pattern}"
    if arrivals.pattern == "random":
        text += " and independent"
    if arrivals.peak_to_mean is not None and arrivals.peak_to_mean >= 1.05:
        busiest = formatting.plural(arrivals.peak_iops, "I/O")
        ratio = formatting.number(arrivals.peak_to_mean)
        text += f": the busiest second had {busiest}, {ratio} times the mean"
    return text


# --- latency and queue depth ----------------------------------------------------------------------


def _latency(device: DeviceView) -> str:
    responses = {}
    for op in OPS:
        response = device.response(op)
        if response:
            responses[op] = response
    ops = [op for op, (_, took) in responses.items() if took.count >= FEWEST] or list(responses)
    depth = _depth(device)
    if not ops:
        text = "no I/O was recorded from queueing to completion, so latency is unknown"
        return _sentence([text, depth])
    parts: list[str] = []
    for op in ops:
        stage, quantiles = responses[op]
        p50 = formatting.duration(quantiles.p50)
        p99 = formatting.duration(quantiles.p99)
        if parts:
            parts.append(f"{formatting.ops(op)} {p50} and {p99}")
            continue
        parts.append(f"{formatting.ops(op)} take {p50} at the median and {p99} at the 99th percentile")
        since = "queued" if stage == "Q2C" else "dispatched"
    text = f"{', '.join(parts)} ({stage}: from being {since} to completion)"
    return _sentence([text, *_uncertain(device), _inside(device, ops[0]), depth, _stalls(device), _failures(device)])


def _uncertain(device: DeviceView) -> Iterator[str]:
    """Yields how far the 99th percentiles can be off because events were lost."""
    lost = device.data.lost + device.data.unmatched_completions
    total = device.ios + device.data.unmatched_completions
    if lost < FEW_LOST * total:
        return
    yield (
        f"{formatting.plural(lost, 'I/O')} ({formatting.share(lost / max(1, total))}) lost their beginning or "
        "end in the recording, and these times are those of the others"
    )
    for op in OPS:
        histogram = device.life(op).histogram
        count = sum(number for *_, number in histogram)
        if count < FEWEST:
            continue
        # If all that were lost took no time, or longer than all others
        highest_rank = 0.99 * (count + lost)
        low_bin = _bin_of_rank(histogram, highest_rank - lost)
        high_bin = _bin_of_rank(histogram, highest_rank)
        lower_bound = formatting.duration(low_bin[0] if low_bin else None)
        upper_bound = f"at most {formatting.duration(high_bin[1])}" if high_bin else "no upper bound is known"
        yield f"the 99th percentile of {formatting.ops(op)} is at least {lower_bound}, and {upper_bound}"


def _bin_of_rank(bins: Sequence[tuple[int, int, int]], rank: float) -> tuple[int, int] | None:
    """Returns begin and end of the bin with the I/O of a rank; None if there are fewer I/Os."""
    so_far = 0
    for begin, end, number in bins:
        so_far += number
        if so_far >= rank:
            return begin, end
    return None


def _inside(device: DeviceView, op: str) -> str:
    """Returns the share of the latency before dispatch: waiting instead of service."""
    total = device.latency(op)
    service = device.latency(op, "d2c")
    if total is None or service is None or not total.mean:
        return ""
    waiting = max(0.0, 1 - (service.mean or 0.0) / total.mean)
    if waiting < 0.05:
        return ""
    return f"{formatting.ops(op)} spend {formatting.share(waiting)} of the time before dispatch"


def _depth(device: DeviceView) -> str:
    level = device.data.in_flight
    if level.mean is None or not device.ends or device.start == "C":
        return ""
    mean = formatting.number(level.mean)
    if mean == "0" and level.mean:
        mean = "less than 0.01"
    subject = "I/O is" if mean == "1" else "I/Os are"
    text = f"{mean} {subject} in flight on average"
    text += f" (at most {level.max:,}"
    if level.idle_share is not None and level.idle_share >= 0.005:
        text += f"; none for {formatting.share(level.idle_share)} of the time"
    return text + ")"


def _stalls(device: DeviceView) -> str:
    if not (stalls := device.data.slow.stalls):
        return ""
    longest = max(stalls, key=lambda stall: stall.length_ns)
    start = formatting.duration(longest.start_ns)
    length = formatting.duration(longest.length_ns)
    text = f"at {start}, nothing completed for {length} although I/Os were in flight"
    if len(stalls) == 1:
        return text
    share = sum(stall.length_ns for stall in stalls) / device.span_ns if device.span_ns else None
    return f"{text}, the longest of {len(stalls)} stalls, which are {formatting.share(share)} of the time"


def _failures(device: DeviceView) -> str:
    if not device.failed:
        return ""
    kinds: dict[str, int] = {}
    for errors in device.errors.values():
        for name, number in errors.items():
            short = name.split(" (")[0]
            kinds[short] = kinds.get(short, 0) + number
    kinds_text = formatting.listing([name for name, _ in sorted(kinds.items(), key=lambda kind: -kind[1])])
    return f"{formatting.plural(device.failed, 'I/O')} failed with {kinds_text}"


def _sentence(parts: list[str]) -> str:
    text = "; ".join(part for part in parts if part)
    return text[:1].upper() + text[1:] + "."


# --- locality: hot blocks and working set ---------------------------------------------------------


def _locality(device: DeviceView) -> str:
    hotness = device.data.hotness
    if not hotness.accesses:
        return "No data was read or written, so there is no working set."
    about = "about " if hotness.sampled else ""
    text = f"The I/O touched {about}{formatting.size(hotness.unique_bytes)} of distinct"
    text += f" {formatting.size(BLOCK)} blocks"
    often = hotness.accesses_per_block
    if often is not None and often < 1.05:
        return f"{text}, hardly any of them twice; {_zipf(hotness.zipf)}."
    text += f", each {formatting.number(often)} times on average"
    hot = {share.fraction: share.io_share for share in hotness.hottest}
    fractions = [f for f in (0.01, 0.2) if f in hot and f * hotness.unique_blocks >= 1]
    if fractions:
        shares = [f"the hottest {formatting.share(f)} take {formatting.share(hot[f])}" for f in fractions]
        text += f"; {formatting.listing(shares)} of the accesses"
    return f"{text}; {_zipf(hotness.zipf)}."


def _zipf(zipf: ZipfFit) -> str:
    reason = formatting.zipf_reason(zipf)
    match zipf.verdict:
        case "zipf":
            return (
                f"popularity follows Zipf's law with exponent {formatting.number(zipf.exponent)} (off by at most "
                f"{formatting.share(zipf.ks_distance)} of the accesses)"
            )
        case "uniform":
            return f"not Zipf but uniform: {reason}"
        case _:
            return f"not Zipf: {reason}"


# --- origin: who asked ----------------------------------------------------------------------------


def _origin(device: DeviceView) -> str:
    if not device.ios:
        return "No I/O was queued here."
    parts = [_processes(device), _sources(device) if device.capabilities.layers else ""]
    cpus = device.groups("cpus")
    if len(cpus) > 1 and (top := cpus[0].total / device.ios) >= max(0.5, 1.5 / len(cpus)):
        parts.append(f"{cpus[0].label} {STARTED[device.start]} {formatting.share(top)} of it")
    return _sentence(parts)


def _processes(device: DeviceView) -> str:
    groups = device.groups("processes")
    if not groups or [group.label for group in groups] == [UNKNOWN]:
        return "the trace does not contain the processes that queued the I/O"
    if len(groups) == 1:
        return f"all I/O was {STARTED[device.start]} by {groups[0].label}"
    top = _top(groups, device.ios)
    shares = [f"{group.label} ({formatting.share(group.total / device.ios)})" for group in top]
    if other_count := len(groups) - len(top):
        shares.append(formatting.plural(other_count, "other process", "other processes"))
    return f"the I/O was {STARTED[device.start]} by {formatting.listing(shares)}"


def _sources(device: DeviceView) -> str:
    groups = device.groups("sources")
    remap_groups = [group for group in groups if not group.direct]
    direct = sum(group.total for group in groups if group.direct) / device.ios
    if not remap_groups:
        return f"all of it was {STARTED[device.start]} on {device.label} itself"
    if len(remap_groups) == 1 and not direct:
        return f"all of it came from {remap_groups[0].label}"
    top = _top(remap_groups, device.ios)
    shares = [f"{formatting.share(group.total / device.ios)} came from {group.label}" for group in top]
    if len(remap_groups) == len(top) and direct:
        shares.append(f"{formatting.share(direct)} was {STARTED[device.start]} on {device.label} itself")
    return formatting.listing(shares)


def _top(groups: list[OriginGroup], ios: int) -> list[OriginGroup]:
    """Returns up to three groups with a large share, and at least one."""
    return [group for group in groups[:3] if group.total / ios >= 0.05] or groups[:1]
