"""Causes that one user of a device is for others: writeback, commits, a deep queue."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from blklab.diagnostic import Diagnostic
from blklab.documents.profile import RivalProfile, TimeSumProfile, UserProfile
from blklab.render import formatting
from blklab.text.printing import printable
from blklab.trace.causes.waiting import FEWEST, Waiting, device_ns, sum_ns, time_ns
from blklab.trace.view import DIRECT, UNKNOWN, DeviceView

FEW = 5  # I/Os that must have waited
SLOWER = 3.0  # I/Os behind others take at least so many times as long as the rest
LEAST_BEHIND = 0.2  # Smallest share of the waiting
KERNEL_THREAD = re.compile(r"kworker/.*|jbd2/.*|md\w*_(raid\d+|resync|cluster)|kcryptd.*|dmcrypt_write.*|flush-.*")


def process_text(user: UserProfile | RivalProfile) -> str:
    """Returns the name of a user's process."""
    return printable(user.process) or "(unnamed)"


def is_program(name: str) -> bool:
    """Returns whether a process is a program: not a thread of the kernel that works for others, and not unknown."""
    return name != UNKNOWN and not KERNEL_THREAD.fullmatch(name)


def victims_text(times: Iterable[tuple[UserProfile, TimeSumProfile]]) -> str:
    """Returns the names of the one or two processes that wait most; empty if there are none."""
    totals: Counter[str] = Counter()
    for user, time in times:
        if is_program(user.process):
            totals[process_text(user)] += round(time_ns(time))
    return formatting.listing([name for name, total in totals.most_common(2) if total])


def _window(times: Sequence[TimeSumProfile]) -> tuple[int, int] | None:
    """Returns the time from the first I/O of some sums to their last."""
    starts = [time.start_ns for time in times if time.start_ns is not None]
    ends = [time.end_ns for time in times if time.end_ns is not None]
    return (min(starts), max(ends)) if starts and ends else None


def writeback(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which programs wait behind writeback.

    Reads and synchronous writes wait behind writeback.
    """
    for device in waiting.entrances:
        waits = device.data.waits
        behind = waits.behind_writeback
        other_waits = waits.alone
        usual = other_waits.mean if other_waits.count >= FEWEST else None
        if not device.capabilities.layers or behind.count < FEW or sum_ns(behind) < LEAST_BEHIND * device_ns(device):
            continue  # Only blktrace records which writes are synchronous
        if usual is None or (behind.mean or 0.0) < SLOWER * usual:
            continue
        users = device.data.users.users
        victims = victims_text((user, user.behind_writeback) for user in users) or "programs"
        count = formatting.plural(behind.count, "read or synchronous write", "reads and synchronous writes")
        yield waiting.cause(
            "behind-writeback",
            device,
            sum_ns(behind) - behind.count * usual,
            f"writeback{_sender_text(device)} makes {victims} wait: {count} that came while it was in flight "
            f"took {formatting.duration(behind.mean)} on average, the others {formatting.duration(usual)}"
            f"{_bursts_text(device)}",
            "less dirty data at a time: lower vm.dirty_background_bytes and vm.dirty_bytes",
            "or limit the writer: ionice with bfq, io.max of its cgroup, or wbt (queue/wbt_lat_usec)",
            window=_window([user.behind_writeback for user in users]),
        )


def _sender_text(device: DeviceView) -> str:
    """Returns who writes back: the program that queued most of it itself, otherwise the flusher."""
    writers = [group for group in device.groups("processes") if group.written]
    flushers = [group for group in writers if not is_program(group.label)]
    writer = max(flushers or writers, key=lambda group: group.written, default=None)
    return f" of {writer.label} ({formatting.size(writer.written)} written)" if writer else ""


MOST_TIMES = 3


def _bursts_text(device: DeviceView) -> str:
    """Returns when programs waited longest behind writeback: the slices of time with most of it."""
    series = device.data.waits.over_time
    width = series.width_ns
    spans: list[tuple[int, int, int]] = []  # Start, end and waiting of slices that follow each other
    for index, part in enumerate(series.slices):
        if not part.writeback_ns:
            continue
        start = index * width
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], start + width, spans[-1][2] + part.writeback_ns)
        else:
            spans.append((start, start + width, part.writeback_ns))
    longest = sorted(spans, key=lambda span: -span[2])[:MOST_TIMES]
    times = [formatting.duration(start) for start, _, _ in sorted(longest)]
    if not times:
        return ""
    return f"; longest at {formatting.listing(times)}"


LEAST_FLUSHING = 0.25  # Smallest share of the device's waiting that flushing adds to what writes take anyway
MANY_FLUSHES = 0.05  # Flushes for each write from which on they are many


def flushes(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which programs wait for flushes: their own, or those of others.

    Flushes of the disk's cache take much of the time.
    """
    for device in waiting.entrances:
        if storm := _fsync_storm(waiting, device):
            yield storm
            continue
        flushing = device.data.waits.flushing
        writes = max(1, device.op("write").ios)
        extra_ns = sum_ns(flushing) - flushing.count * _plain_ns(device)
        if flushing.count < max(FEWEST, MANY_FLUSHES * writes) or extra_ns < LEAST_FLUSHING * device_ns(device):
            continue
        groups = device.groups("processes")
        callers = sorted((group for group in groups if group.ios.get("flush")), key=lambda group: -group.ios["flush"])
        callers = callers or [group for group in groups if group.label.startswith("jbd2/")]
        by = f" of {formatting.listing([group.label for group in callers[:2]])}" if callers else ""
        count = formatting.plural(flushing.count, "I/O")
        yield waiting.cause(
            "flushes",
            device,
            sum_ns(flushing),
            f"flushes: {count}{by} flush the disk's cache and take {formatting.duration(flushing.mean)} on average; "
            f"there are {formatting.number(writes / flushing.count)} writes for each",
            "combine commits: a larger group commit of the database, a longer commit interval of the filesystem",
            "or a disk whose cache survives a power failure, which needs no flush; "
            "do not switch flushes off: then a power failure loses data",
        )


def _plain_ns(device: DeviceView) -> float:
    """Returns the mean time of a write without a flush; 0 if there are too few."""
    writes = device.latency("write")
    flushes = device.latency("flush")
    flushing = device.data.waits.flushing
    count = (writes.count if writes else 0) - flushing.count + (flushes.count if flushes else 0)
    if count < FEWEST:
        return 0.0
    return max(0.0, sum_ns(writes) - sum_ns(flushing) + sum_ns(flushes)) / count


MOST_COMMITS = 0.5  # Share of the commits that one program has
OWN_SHARE = 0.5  # Share of a victim's waiting that commits add


@dataclass(frozen=True)
class Syncer:
    """The program that most commits of a device are for."""

    name: str
    threads: Sequence[str]  # The kernel's threads that commit for it
    commits: int
    unit: str
    """What `commits` counts: a disk without a volatile cache gets no flushes, only what the journal writes."""


def _fsync_storm(waiting: Waiting, device: DeviceView) -> Diagnostic | None:
    """Returns the program whose commits make other programs wait, if there is one."""
    syncer = _find_syncer(device) if device.capabilities.layers else None
    if syncer is None or not is_program(syncer.name):
        return None
    victims = []
    excess_ns = behind_ns = usual_ns = 0.0
    for user in device.data.users.users:
        behind = user.behind_commits
        alone_ios, alone_ns = _alone(user)
        if user.process == syncer.name or not is_program(user.process) or behind.ios < FEWEST or alone_ios < FEWEST:
            continue
        excess = time_ns(behind) - behind.ios * alone_ns
        if (behind.mean_ns or 0.0) >= SLOWER * alone_ns and excess >= OWN_SHARE * time_ns(user.all):
            victims.append((user, behind))
            excess_ns += excess
            behind_ns += time_ns(behind)
            usual_ns += alone_ns * behind.ios
    if not victims:
        return _crowd_of_commits(waiting, device, syncer)
    ios = sum(behind.ios for _, behind in victims)
    flushing = device.data.waits.flushing
    cost = f", each takes {formatting.duration(flushing.mean)}" if flushing.count else ""
    return _storm_cause(
        waiting,
        device,
        syncer,
        excess_ns + sum_ns(flushing),
        f"make {victims_text(victims)} wait: {_rate_text(device, syncer)}{cost}; "
        f"{formatting.plural(ios, 'I/O')} that came during a commit took {formatting.duration(behind_ns / ios)} "
        f"on average, {formatting.duration(usual_ns / ios)} otherwise",
        _window([behind for _, behind in victims]),
    )


def _storm_cause(
    waiting: Waiting, device: DeviceView, syncer: Syncer, ns: float, text: str, window: tuple[int, int] | None
) -> Diagnostic:
    by = f" (through {formatting.listing(syncer.threads[:2])})" if syncer.threads else ""
    return waiting.cause(
        "fsync-storm",
        device,
        ns,
        f"fsyncs of {printable(syncer.name)}{by} {text}",
        f"combine commits of {printable(syncer.name)}: a larger group commit, a longer commit interval",
        "or give its log another disk, or one whose cache survives a power failure, which needs no flush; "
        "do not switch flushes off: then a power failure loses data",
        window=window,
    )


def _rate_text(device: DeviceView, syncer: Syncer) -> str:
    seconds = max(1e-9, device.span_ns / 1e9)
    return f"{formatting.number(syncer.commits / seconds)} {syncer.unit} per second"


MIXED = 0.1  # Share of the other operation up to which a user's I/Os are reads, or writes
ALIKE = 2.0  # A victim's I/Os are at most so many times as large as all of this operation
MOST_TIME = 0.5  # Share of a disk's time that commits take


def _crowd_of_commits(waiting: Waiting, device: DeviceView, syncer: Syncer) -> Diagnostic | None:
    """Returns a program whose commits take most of a disk's time, so that others wait at all times.

    A commit of ext4 or XFS is data, the journal's blocks and a flush. If several threads commit, a commit is always
    near: I/Os that find none in flight are no measure. The measure is what I/Os take that find nothing in flight.
    """
    if syncer.commits < max(FEWEST, MANY_FLUSHES * device.op("write").ios):
        return None
    groups = device.groups("processes")
    own_labels = [printable(syncer.name), *syncer.threads]
    own_ios = sum(group.total for group in groups if group.label in own_labels)
    own_share = own_ios / max(1, sum(group.total for group in groups))
    if own_share * (device.busy or 0.0) < MOST_TIME:
        return None
    delays = [(user, _delay_ns(device, user)) for user in device.data.users.users if is_program(user.process)]
    delayed = []
    for user, delay_ns in delays:
        if user.own_depth <= 1 and delay_ns > 0 and delay_ns >= LEAST_FLUSHING * _plain_times(user)[1]:
            delayed.append(user)
    victims = [user for user in delayed if user.process != syncer.name]
    names = victims_text((user, user.all) for user in victims)
    if not victims:
        victims = delayed
        names = "each other"
        if len({user.pid for user in victims}) < 2:
            return None
    excess_ns = sum(delay_ns for user, delay_ns in delays if user.process == syncer.name or user in victims)
    commit_ns = sum(time_ns(user.commits) for user in device.data.users.users if process_text(user) in own_labels)
    ios = sum(_plain_times(user)[0] for user in victims)
    waited_ns = sum(_plain_times(user)[1] for user in victims)
    usual_ns = waited_ns - sum(delay_ns for user, delay_ns in delays if user in victims)
    return _storm_cause(
        waiting,
        device,
        syncer,
        excess_ns + commit_ns,
        f"make {names} wait: {_rate_text(device, syncer)}; {formatting.plural(ios, 'I/O')} took "
        f"{formatting.duration(waited_ns / ios)} on average, {formatting.duration(usual_ns / ios)} with nothing else "
        "in flight",
        _window([user.all for user in victims]),
    )


def _plain_times(user: UserProfile) -> tuple[int, float]:
    """Returns a user's I/Os that are no commits and found no background I/O in flight, and their time in ns."""
    others = (user.commits, user.behind_writeback, user.behind_resync)
    return user.all.ios - sum(time.ios for time in others), time_ns(user.all) - sum(map(time_ns, others))


def _delay_ns(device: DeviceView, user: UserProfile) -> float:
    """Returns how much longer a user's I/Os take than those that find nothing in flight, in ns.

    Its own commits do not count: a flush takes long by itself. 0 if the I/Os are too few, mixed, or larger than usual.
    """
    ios, ns = _plain_times(user)
    group = next((group for group in device.groups("processes") if group.label == process_text(user)), None)
    if group is None or ios < FEWEST:
        return 0.0
    reads = group.ios.get("read", 0)
    writes = group.ios.get("write", 0)
    side = "read" if reads > writes else "write"
    if min(reads, writes) > MIXED * (reads + writes):
        return 0.0
    users = device.data.users
    idle = users.idle_reads if side == "read" else users.idle_writes
    side_bytes = group.written if side == "write" else group.bytes - group.written
    usual_bytes = device.op(side).sizes.mean_bytes or 0.0
    if idle.ios < FEWEST or side_bytes > ALIKE * usual_bytes * max(reads, writes):
        return 0.0
    return max(0.0, ns - ios * (idle.mean_ns or 0.0))


def _find_syncer(device: DeviceView) -> Syncer | None:
    """Returns the program that most commits are for; None if none has most of them."""
    callers: Counter[str] = Counter()
    for entry in device.data.users.callers:
        callers[entry.caller] += entry.commits
    if callers:
        name, count = callers.most_common(1)[0]
        entries = [entry for entry in device.data.users.callers if entry.caller == name]
        threads = [printable(entry.process) for entry in entries if entry.process != name]
        return Syncer(name, threads, count, "commits") if count >= MOST_COMMITS * callers.total() else None
    # A disk without a volatile cache gets no flushes: then a journal writes for the program that writes synchronously.
    journals = [user for user in device.data.users.users if user.commits.ios]
    writers: Counter[str] = Counter()
    for user in device.data.users.users:
        writers[user.process] += sum(level.write.ios for level in user.by_rival_depth)
    name, count = writers.most_common(1)[0] if writers else ("", 0)
    if not name or not journals or count < MOST_COMMITS * writers.total():
        return None
    ios = sum(user.commits.ios for user in journals)
    return Syncer(name, list(dict.fromkeys(map(process_text, journals))), ios, "writes of the journal")


def _alone(user: UserProfile) -> tuple[int, float]:
    """Returns the I/Os of a user without commits and background I/O in flight, and their mean time in ns."""
    times = [level.read for level in user.by_rival_depth]
    times += [level.write for level in user.by_rival_depth]
    ios = sum(time.ios for time in times)
    return ios, sum(map(time_ns, times)) / max(1, ios)


SHORT = 0.25  # A victim has at most this share of the other's I/Os in flight
DEEP = 8  # The other's I/Os in flight
SHALLOW = 2  # The level below which another user has no queue


def deep_queue(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the users of a shared device that keep many I/Os in flight, so that others with few wait behind them.

    A device with one user at depth is at its limit: no other is starved.
    """
    pairs: set[tuple[int, int]] = set()
    for layer in waiting.view.layers():
        for device in layer:
            if not (device.ends and device.start == "Q" and device.capabilities.processes):
                continue
            victims: dict[tuple[int, str], list[tuple[UserProfile, RivalProfile, float]]] = {}
            for user in device.data.users.users:
                found = _find_rival(device, user)
                if found and (found[0].pid, user.pid) not in pairs:
                    victims.setdefault((found[0].pid, found[0].source), []).append((user, *found))
                    pairs.add((found[0].pid, user.pid))
            for starved in victims.values():
                yield _starvation(waiting, device, starved)


def _find_rival(device: DeviceView, user: UserProfile) -> tuple[RivalProfile, float] | None:
    """Returns the user behind whose queue another one waits, and the other's mean time without it, in ns."""
    if not user.rivals or not is_program(user.process):
        return None
    rival = user.rivals[0]
    found = rival.found
    if not is_program(rival.process) or found.ios < FEWEST or user.own_depth + 1 > SHORT * rival.depth:
        return None
    usual_ns = _usual_ns(device, user)
    if usual_ns is None or (found.mean_ns or 0.0) < SLOWER * usual_ns:
        return None
    return rival, usual_ns


def _usual_ns(device: DeviceView, user: UserProfile) -> float | None:
    """Returns the mean time of a user's I/Os without a queue of others; None if the trace does not show it.

    If the user was hardly ever alone, the I/Os of all users that found a short queue say what the device takes.
    """
    total_ns = 0.0
    total_ios = 0
    for side in ("read", "write"):
        levels = [(level.low, getattr(level, side)) for level in user.by_rival_depth]
        alone = [time for low, time in levels if low < SHALLOW]
        deep_ios = sum(time.ios for low, time in levels if low >= DEEP)
        ios = sum(time.ios for time in alone)
        usual_ns = sum(map(time_ns, alone)) / max(1, ios)
        if ios < FEW:
            users = device.data.users
            shallow = users.shallow_reads if side == "read" else users.shallow_writes
            ios = shallow.ios
            usual_ns = shallow.mean_ns or 0.0
        if deep_ios and ios < FEW:
            return None
        total_ns += deep_ios * usual_ns
        total_ios += deep_ios
    return total_ns / total_ios if total_ios else None


def _starvation(
    waiting: Waiting, device: DeviceView, starved: Sequence[tuple[UserProfile, RivalProfile, float]]
) -> Diagnostic:
    rival = starved[0][1]
    times = [(user, found.found) for user, found, _ in starved]
    ios = sum(time.ios for _, time in times)
    behind_ns = sum(time_ns(time) for _, time in times)
    usual_ns = sum(found.found.ios * usual for _, found, usual in starved)
    # The deep queue's own waiting is its choice. It is no part of what others wait.
    others = [user for user in device.data.users.users if (user.pid, user.source) != (rival.pid, rival.source)]
    others_ns = sum(time_ns(user.all) for user in others)
    names = {process_text(user) for user, _ in times}
    culprit = _user_text(device, rival, with_pid=process_text(rival) in names)
    victim_texts = dict.fromkeys(
        _user_text(device, user, with_pid=user.process == rival.process) for user, _ in times[:2]
    )
    window = _window([time for _, time in times])
    when = ""
    if window and not waiting.is_whole(device, window):
        when = f" from {formatting.duration(window[0])} to {formatting.duration(window[1])}"
    verb = "wait" if len(victim_texts) > 1 else "waits"
    return waiting.cause(
        "deep-queue",
        device,
        behind_ns - usual_ns,
        f"{culprit} keeps {formatting.number(rival.depth)} I/Os in flight on {device.label}{when}, and "
        f"{formatting.listing(list(victim_texts))} {verb} behind them: "
        f"{formatting.plural(ios, 'I/O')} took {formatting.duration(behind_ns / ios)} on average, "
        f"{formatting.duration(usual_ns / ios)} without this queue",
        f"limit {culprit}: a smaller queue depth, io.max or io.latency of its cgroup, or bfq with ionice",
        "or give them different disks",
        waiting_ns=others_ns,
        waiting_text="what the others wait",
    )


def _user_text(device: DeviceView, user: UserProfile | RivalProfile, *, with_pid: bool) -> str:
    """Returns a user's process, its pid if names are equal, and the device that its I/O came from."""
    text = process_text(user)
    if with_pid:
        text += f" (pid {user.pid})"
    if user.source not in (DIRECT, device.number) and _sources(device) > 1:
        text += f" on {device.names.get(user.source, user.source)}"
    return text


def _sources(device: DeviceView) -> int:
    return len({user.source for user in device.data.users.users})
