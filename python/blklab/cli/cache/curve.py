"""`blklab cache curve`: hit ratios by cache size."""

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from blklab import output as out
from blklab import units
from blklab.cli.common import Quantity, cluster_option, computing, emit, json_option, warn_each
from blklab.cli.trace.selection import TraceSource, trace_options
from blklab.errors import UsageError
from blklab.trace.cache_curves import POLICIES, read_curves


def _parse_share(text: str) -> float:
    number, percent = text.removesuffix("%"), 100 if text.endswith("%") else 1
    share = units.parse_number(number) / percent
    if not 0 < share <= 1:
        raise ValueError(f"{text!r}: expected a share of the blocks, such as 1% or 0.01")
    return share


SIZES = Quantity("sizes", lambda text: sorted({units.parse_size(word.strip()) for word in text.split(",")}))
VOLUME = Quantity("size", units.parse_size)


@click.command()
@trace_options
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="Compute this policy; can be repeated. Default: all.",
)
@click.option("--block", "blocks", type=SIZES, default="64k", help="Chunk sizes of dm-cache; lru and opt: n × 4k.")
@click.option("--sizes", "cache_sizes", type=SIZES, metavar="SIZE,...", help="Cache sizes; default: powers of two.")
@click.option("--volume-size", "volume", type=VOLUME, help="Size of the cached volume; default: as recorded.")
@click.option("--kernel", default="6.1", help="Kernel whose smq is simulated: a version or commit.")
@click.option(
    "--mode",
    type=click.Choice(["writethrough", "writeback"]),
    default="writethrough",
    help="Cache mode of smq and bcache.",
)
@click.option("--sample", type=Quantity("share", _parse_share), metavar="SHARE", help="Compute LRU from 1% of blocks.")
@click.option("--sample-blocks", type=click.IntRange(64), metavar="N", help="Compute LRU from N blocks at most.")
@click.option("--samples", type=click.IntRange(1, 8), default=4, help="Samples and phases for an interval.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML page; `-` for stdout.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@cluster_option
@json_option
def curve(
    *,
    source: TraceSource,
    policies: tuple[str, ...],
    cache_sizes: Sequence[int] | None,
    mode: str,
    output: str | None,
    title: str | None,
    cluster: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Compute the share of the I/O of TRACE that an SSD cache serves, by its size.

    \b
    smq      dm-cache (lvmcache) as the kernel runs it; blocks are its chunks
    bcache   bcache with its defaults; its hit ratio counts reads only
    lru      replaces the least recently used block: what textbooks promise
    opt      knows the future: no policy can be better

    The cache starts empty. An I/O is counted once for each block that it touches, except by bcache. "First touch" is
    the share of accesses that are the first to their block, which no cache serves. The knee is the size after which
    more cache gains least. LRU is exact without --sample. smq and bcache are simulated in full for small caches, and
    with several samples of the trace for large ones. smq also has another phase of its clock in each sample. Intervals
    have 95 %: of smq for the next run, otherwise for the mean.

    The trace is read twice, so it must be a file. Of several devices, select one with --device: the volume that would
    be cached.

    \b
    Examples:
      blklab cache curve md127
      blklab cache curve md127 --block 64k,256k --sizes 8GiB,16GiB,32GiB
      blklab cache curve db/ --device dm-3 --policy smq --policy lru -o curve.html
      blklab cache curve md127 --json | jq '.blocks[0].curves[] | {policy, knee_bytes}'

    \b
    Exit status: 0 success; 1 no I/O in the selection, or the trace cannot be read; 2 wrong usage.
    """
    from blklab.report import cache_curves

    if "-" in source.paths and cluster:
        raise UsageError("-: workers cannot read stdin: write the trace to a file that they can read")
    if "-" in source.paths and set(policies or POLICIES) & {"smq", "bcache"}:
        raise UsageError("-: the trace is read twice for smq and bcache: write it to a file, or give --policy lru")
    blocks: Sequence[int] = settings["blocks"]
    if policies == ("smq",) and not any(block % (32 << 10) == 0 for block in blocks):
        raise UsageError(f"--block {units.format_size(blocks[0])}: smq expects a multiple of 32 KiB, as dm-cache does")
    out.check(output)
    with computing(cluster) as parallel:
        settings |= {"sizes": cache_sizes or [], "writeback": mode == "writeback", "policies": policies or POLICIES}
        settings |= {"format": source.format_name, "selection": source.selection}
        document = read_curves(source.paths, parallel=parallel, **settings)
    warn_each(cache_curves.doubts(document))
    if output is not None:
        from blklab.cli.trace.report import write_page

        command = shlex.join(["blklab", "cache", "curve", *sys.argv[3:]]) if sys.argv[1:3] == ["cache", "curve"] else ""
        html = cache_curves.render(document, title=title or f"Cache for {source.paths[0]}", command=command)
        write_page(output, html, as_json=as_json)
        return
    emit(document, as_json, lambda console: cache_curves.print_curves(console, document))
