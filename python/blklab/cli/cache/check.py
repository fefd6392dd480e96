"""`blklab cache check`: whether a cache does what its policy should."""

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option
from blklab.cli.trace.selection import TraceSource, trace_options


@click.command()
@trace_options
@click.option("--before", required=True, metavar="FILE", help="Counters when the trace began.")
@click.option("--after", required=True, metavar="FILE", help="Counters when the trace ended.")
@click.option("--cache", "title", metavar="NAME", help="The cache, if the files have several.")
@click.option("--kernel", metavar="VERSION", help="Kernel whose smq is simulated; default: this cache's.")
@json_option
def check(
    *, source: TraceSource, before: str, after: str, title: str | None, kernel: str | None, as_json: bool
) -> None:
    """Compare what a cache counted during TRACE with what its policy should have done.

    TRACE is of the cached volume. The two files are outputs of `blklab cache status --json`. The
    trace is replayed through smq or bcache as the kernel runs them. If the cache was in use before,
    its contents are not known: the range then reaches from a cache that holds other data to a cache
    that holds what the trace touches. smq judges its misses once a second, and the trace does not
    show when. This changes the hits of a short trace by a few points, so the range includes ten
    phases of the second.

    \b
    Example:
      blklab cache status --json > before.json
      blklab trace record /dev/vg0/data -w 10m -o /dev/shm/data
      blklab cache status --json > after.json
      blklab cache check /dev/shm/data --before before.json --after after.json

    \b
    Exit status: 0 as expected; 1 not, or the counters are of another trace; 2 usage.
    """
    from blklab.caches import expected
    from blklab.report import caches as report

    first, release = expected.read_status(before, title)
    last, _ = expected.read_status(after, title)
    result = expected.check(
        first, last, source.paths, kernel=kernel or release, format_name=source.format_name, selection=source.selection
    )
    emit(report.check_as_dict(result), as_json, lambda console: report.show_check(console, result))
    if not result.holds:
        raise Exit(1)
