"""What limits the storage of a trace: a file for each rule, which yields the causes that it finds."""

from blklab.diagnostic import Diagnostic
from blklab.report.causes import (
    broken_stream,
    bursts,
    cache_bypass,
    flushes,
    md_sync,
    one_process,
    parity_reads,
    slow_member,
    small_io,
    unaligned_io,
    writeback,
)
from blklab.report.causes.waiting import Waiting
from blklab.report.view import ProfileView

RULES = (
    slow_member, parity_reads, writeback, flushes, md_sync, bursts, broken_stream, cache_bypass, unaligned_io,
    small_io, one_process,
)  # fmt: skip


LEAST = 0.05  # Share of the waiting time below which a cause is not worth a sentence


def causes(view: ProfileView) -> list[Diagnostic]:
    """Returns the causes, that with the largest share of the waiting time first: `weight` is this share, 0 to 1."""
    waiting = Waiting(view)
    found = [cause for rule in RULES for cause in rule.find(waiting)] if waiting.total_ns else []
    return sorted((cause for cause in found if cause.weight >= LEAST), key=lambda cause: -cause.weight)
