"""What limits the storage of a trace: a function for each rule, which yields the causes that it finds."""

from collections.abc import Sequence

from blklab.diagnostic import Diagnostic
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.text.printing import printable
from blklab.trace.causes.arrays import cache_misses, md_sync, parity_reads, slow_member
from blklab.trace.causes.facts import facts
from blklab.trace.causes.io_shape import broken_stream, tiny_io, unaligned_io
from blklab.trace.causes.load import bursts, stalls
from blklab.trace.causes.users import deep_queue, flushes, writeback
from blklab.trace.causes.waiting import Waiting
from blklab.trace.view import ProfileView

RULES = (
    slow_member, parity_reads, writeback, flushes, md_sync, deep_queue, bursts, broken_stream, cache_misses,
    unaligned_io, tiny_io,
)  # fmt: skip


MOST = 3  # Causes that are summed up
LEAST = 0.05  # Share of the waiting time below which a cause is not worth a sentence


def causes(view: ProfileView) -> list[Diagnostic]:
    """Returns the causes, that with the largest share of the waiting time first: `weight` is this share, 0 to 1."""
    waiting = Waiting(view)
    if not waiting.total_ns:
        return []
    diagnostics = [cause for rule in RULES for cause in rule(waiting) if cause.weight >= LEAST]
    if all(cause.severity == "note" for cause in diagnostics):
        diagnostics += stalls(waiting)  # What explains most of the waiting explains stalls as well
    return sorted(diagnostics, key=lambda cause: -cause.weight)


def summary(view: ProfileView, diagnostics: Sequence[Diagnostic], *, codes: bool = True) -> list[Sentence]:
    """Returns errors, the largest causes with the devices that they are about, and what to try first.

    With `codes`, the name of each rule follows in brackets, for readers who filter by it.
    """
    failed_devices = [device for device in view.devices if device.failed]
    errors = [f"{device.label}: {formatting.plural(device.failed, 'I/O')} failed" for device in failed_devices[:MOST]]
    result = [Sentence("Errors", f"{'; '.join(errors)}: look into the kernel's log first")] if errors else []
    if not diagnostics:
        return [*result, *facts(Waiting(view))]
    cause_sentences = []
    for cause in diagnostics[:MOST]:
        text = cause_text(cause)
        if codes:
            text = f"{text} [{cause.code}]"
        cause_sentences.append(Sentence("Cause", text))
    return [*result, *cause_sentences, Sentence("Try", printable(diagnostics[0].remedy[0]))]


def cause_text(cause: Diagnostic) -> str:
    """Returns a cause with the device that it is about."""
    message = cause.message if cause.subject in cause.message else f"{cause.subject}: {cause.message}"
    return printable(message)
