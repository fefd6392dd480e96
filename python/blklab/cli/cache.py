"""`blklab cache`: size and check caches."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab import output as out
from blklab import units
from blklab.cli import common
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.cli.trace.selection import TraceSource, trace_options
from blklab.cli.value_completion import complete_loads
from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots
from blklab.trace.cache_curves import POLICIES, read_curves

if TYPE_CHECKING:
    from blklab.advise.question import Load

COMMANDS = {
    "advise": CommandEntry("blklab.cli.cache:advise", "Is a cache worth it: which kind, how large, at what cost"),
    "check": CommandEntry("blklab.cli.cache:check", "Compare a cache's counters with what its policy should do"),
    "curve": CommandEntry("blklab.cli.cache:curve", "Compute hit ratios by cache size from a trace"),
    "status": CommandEntry("blklab.cli.cache:status", "Show hit rates and problems of this host's caches"),
}


@click.group(cls=LazyGroup, entries=COMMANDS, subcommand_metavar="COMMAND ...", options_metavar="")
def cache() -> None:
    """Size and check block caches: dm-cache (lvmcache), bcache and dm-writecache."""


def _parse_share(text: str) -> float:
    share = units.parse_number(text.removesuffix("%"))
    if text.endswith("%"):
        share /= 100
    if not 0 < share <= 1:
        raise ValueError(f"{text!r}: expected a share of the blocks, such as 1% or 0.01")
    return share


def _parse_sizes(text: str) -> list[int]:
    return sorted({units.parse_size(word.strip()) for word in text.split(",")})


SIZES = common.Quantity("sizes", _parse_sizes)
VOLUME = common.Quantity("size", units.parse_size)


@dataclass(frozen=True)
class CacheCurveArguments:
    """What `blklab cache curve` is asked."""

    source: TraceSource
    policies: tuple[str, ...]  # Empty for all
    blocks: Sequence[int]  # Bytes of each chunk
    cache_sizes: Sequence[int] | None  # Bytes; None for powers of two
    volume: int | None  # Bytes of the cached volume; None for what the trace says
    kernel: str
    mode: str  # `writethrough` or `writeback`
    sample: float | None  # The share of the blocks that lru is computed from
    samples: int
    output: str | None  # File for the page
    title: str | None  # Of the page
    cluster: str | None  # The address of a scheduler
    as_json: bool


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
@click.option(
    "--sample", type=common.Quantity("share", _parse_share), metavar="SHARE", help="Compute LRU from 1% of blocks."
)
@click.option("--samples", type=click.IntRange(1, 8), default=4, help="Samples and phases for an interval.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML page; `-` for stdout.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@common.cluster_option
@common.json_option
@common.csv_option
@common.collect_options(CacheCurveArguments)
def curve(arguments: CacheCurveArguments) -> None:
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

    The trace is read twice, so it must be a file. Of several devices, that counts through which the whole workload
    passes. Select the volume that would be cached with --device.

    \b
    Examples:
      blklab cache curve md127
      blklab cache curve md127 --block 64k,256k --sizes 8GiB,16GiB,32GiB
      blklab cache curve db/ --device dm-3 --policy smq --policy lru -o curve.html
      blklab cache curve md127 --json | jq '.blocks[0].curves[] | {policy, knee_bytes}'

    \b
    Exit status: 0 success; 1 no I/O in the selection, or the trace cannot be read; 2 wrong usage.
    """
    from blklab.caches import curves as cache_curves

    source = arguments.source
    policies = arguments.policies or POLICIES
    output = arguments.output
    if "-" in source.paths and arguments.cluster:
        raise UsageError("-: workers cannot read stdin: write the trace to a file that they can read")
    if "-" in source.paths and set(policies) & {"smq", "bcache"}:
        raise UsageError("-: the trace is read twice for smq and bcache: write it to a file, or give --policy lru")
    blocks = arguments.blocks
    if arguments.policies == ("smq",) and not any(block % (32 << 10) == 0 for block in blocks):
        raise UsageError(f"--block {units.format_size(blocks[0])}: smq expects a multiple of 32 KiB, as dm-cache does")
    out.check(output)
    source = source.select_main_device()
    with common.computing(arguments.cluster) as parallel:
        document = read_curves(
            source.paths,
            policies=policies,
            blocks=blocks,
            parallel=parallel,
            format=source.format_name,
            selection=source.selection,
            sizes=arguments.cache_sizes or [],
            volume=arguments.volume,
            kernel=arguments.kernel,
            writeback=arguments.mode == "writeback",
            sample=arguments.sample,
            samples=arguments.samples,
        )
    common.warn_each(cache_curves.doubts(document))
    if output is not None:
        from blklab.cli.trace.report import write_page

        command = shlex.join(["blklab", "cache", "curve", *sys.argv[3:]]) if sys.argv[1:3] == ["cache", "curve"] else ""
        html = cache_curves.render(document, title=arguments.title or f"Cache for {source.paths[0]}", command=command)
        write_page(output, html, as_json=arguments.as_json)
        return
    common.emit(document, arguments.as_json, lambda console: cache_curves.print_curves(console, document))


@click.command()
@click.argument("names", metavar="[CACHE]...", nargs=-1)
@common.json_option
def status(names: tuple[str, ...], as_json: bool) -> None:
    """Show the caches of this host: size, hit rates, dirty data, wear and problems.

    It reads dm-cache and dm-writecache with dmsetup, as root, and bcache from /sys. It changes
    nothing but blklab's own record of the counters, from which the next call shows what has
    happened since this one.

    \b
    Examples:
      blklab cache status
      blklab cache status vg0-data bcache0 --json

    \b
    Exit status: 0 no problem, 1 a critical finding, 3 nothing could be read.
    """
    from blklab.caches import report
    from blklab.caches.status import find_problems, read_caches

    inventory = read_caches(Roots(), remember=True)
    if not inventory.caches and inventory.unseen:
        raise EnvironmentLacks(f"cannot read any cache: {inventory.unseen[0]}", "run it as root")
    if names:
        caches = tuple(cache for cache in inventory.caches if {cache.name, cache.title} & set(names))
        for name in names:
            if not any(name in {cache.name, cache.title} for cache in caches):
                existing = ", ".join(cache.title for cache in inventory.caches) or "none"
                raise UsageError(f"{name}: no such cache; caches of this host: {existing}")
        inventory = inventory.only(caches)
    findings = find_problems(inventory.caches)
    common.emit(report.as_dict(inventory, findings), as_json, lambda console: report.show(console, inventory, findings))
    if any(finding.severity == "critical" for finding in findings):
        raise Exit(1)


@click.command()
@trace_options
@click.option("--before", required=True, metavar="FILE", help="Counters when the trace began.")
@click.option("--after", required=True, metavar="FILE", help="Counters when the trace ended.")
@click.option("--cache", "title", metavar="NAME", help="The cache, if the files have several.")
@click.option("--kernel", metavar="VERSION", help="Kernel whose smq is simulated; default: this cache's.")
@common.json_option
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
    from blklab.caches import expected, report

    source = source.select_main_device()
    first, release = expected.read_status(before, title)
    last, _ = expected.read_status(after, title)
    result = expected.check(
        first, last, source.paths, kernel=kernel or release, format_name=source.format_name, selection=source.selection
    )
    common.emit(report.check_as_dict(result), as_json, lambda console: report.show_check(console, result))
    if not result.holds:
        raise Exit(1)


@dataclass(frozen=True)
class CacheAdviseArguments:
    """What `blklab cache advise` is asked."""

    trace: str | None
    device: str | None  # Of the trace, or of the report of activity
    named_load: str | None  # `vm:12` or `database`
    activity_file: str | None  # The output of iostat or sar
    working_set: int | None  # Bytes that a load without a trace uses
    slow: str  # The array: `raid6:6xhdd-7200:4TiB`
    fast: str  # The disks for the cache: `2xpm983`
    budget: int | None  # Most bytes of the cache; None for the whole fast disk
    exclude: tuple[str, ...]  # Kinds and modes: `bcache,writeback`
    kernel: str
    flash_state: str
    seed: int
    jobs: int | None  # Simulations at the same time
    cluster: str | None  # The address of a scheduler
    as_json: bool


@click.command()
@click.argument("trace", metavar="[TRACE]", required=False)
@click.option(
    "--device", metavar="NAME", help="Device of the trace, or of --load-from; default: that of the whole workload."
)
@click.option(
    "--load",
    "named_load",
    metavar="NAME[:AMOUNT]",
    shell_complete=complete_loads,
    help="A load instead of a trace: vm:12, postgresql:800tps, or a published mix, such as database.",
)
@click.option(
    "--load-from",
    "activity_file",
    metavar="FILE",
    help="The load of a machine instead of a trace, from the output of `iostat -x` or `sar -d`.",
)
@click.option(
    "--working-set", type=common.SIZE, help="Bytes that a --load or --load-from uses; default: its own, or 8g."
)
@click.option("--slow", required=True, metavar="[LEVEL:][N]xMODEL", help="The array: hdd-7200, raid6:6xhdd-7200:4TiB.")
@click.option("--fast", required=True, metavar="[N]xMODEL", help="Disks for the cache: pm983, 2xpm983, ./disk.toml.")
@click.option("--budget", type=common.SIZE, help="Most bytes of the cache; default: the whole fast disk.")
@common.repeatable("--exclude", metavar="KIND,...", help="Kinds or modes to leave out: bcache, dm-cache, writeback.")
@click.option("--kernel", default="6.1", help="Kernel of the cache.")
@common.flash_state_option
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Seed of random numbers.")
@common.jobs_option
@common.cluster_option
@common.json_option
@common.csv_option
@common.collect_options(CacheAdviseArguments)
def advise(arguments: CacheAdviseArguments) -> None:
    """Say whether an SSD cache is worth it for the load of TRACE, and which one.

    blklab simulates the array alone, and with dm-cache, bcache and dm-writecache of several sizes, chunks and cutoffs.
    With a trace, each cache begins empty, and the I/Os arrive at their recorded times. TRACE is of the volume that
    would be cached. Without one, --load or --load-from is the load: all parts of its data are used equally often, so a
    cache that is smaller than the data helps less than a real one.

    Two disks are RAID-1, another even number RAID-10, an odd number RAID-5, unless a level is given. Two fast disks
    mirror the cache, so that it may hold what the array does not have.

    \b
    Examples:
      blklab cache advise md127 --slow 2xhdd-7200 --fast pm983
      blklab cache advise --load vm:12 --slow 4xhdd:8TB --fast "2x 990 PRO 1TB"
      blklab cache advise db --device dm-3 --slow raid6:6xhdd-7200:4TiB --fast 2xsm883 --budget 200GiB
      blklab cache advise md127 --slow 2xhdd-7200 --fast pm983 --json | jq '.caches[].words'

    \b
    Exit status: 0 an answer; 1 no I/O in the trace, or it cannot be read; 2 wrong usage.
    """
    from blklab.advise import cache as caching
    from blklab.advise import cache_report as report
    from blklab.advise.question import Constraints, Question, read_pool
    from blklab.advise.race import longest
    from blklab.advise.samples import Simulations
    from blklab.advise.search import add_capacity, parse_excluded_kinds
    from blklab.cli.common import progress

    level, _, disks = arguments.slow.partition(":") if arguments.slow.startswith("raid") else ("", "", arguments.slow)
    slow = read_pool(disks, arguments.flash_state, option="--slow")
    fast = read_pool(arguments.fast, arguments.flash_state, option="--fast")
    if slow.name == fast.name:
        raise UsageError(f"--fast {arguments.fast!r}: is the model of --slow: expected a faster one")
    load = _read_load(arguments)
    if arguments.budget is not None and arguments.budget < caching.MIN_CACHE_BYTES:
        raise UsageError(f"--budget: expected at least {units.format_size(caching.MIN_CACHE_BYTES)}")
    constraints = Constraints(excluded_kinds=parse_excluded_kinds(arguments.exclude))
    question = Question([slow, fast], [load], constraints, {"kernel": arguments.kernel}, seed=arguments.seed)
    with (
        common.computing(arguments.cluster, arguments.jobs) as parallel,
        progress("Simulating", total=1000, as_json=arguments.as_json) as tick,
    ):

        def show(done: int, total: int) -> None:
            tick(1000 * done // max(1, total))

        simulations = Simulations(question, None, parallel, show)
        origin = add_capacity(question, caching.origin_of(slow, level))
        ios = caching.MAX_IOS if load.timed else longest(question)
        answer = caching.cache_answer(question, origin, fast, simulations, max_bytes=arguments.budget, ios=ios)
        about, lines = report.script_lines(answer, simulations)
    document = {**report.as_dict(answer), "script": lines, "check": report.check_commands(answer)}
    common.emit(document, arguments.as_json, lambda console: report.print_answer(console, answer, about, lines))


def _read_load(arguments: CacheAdviseArguments) -> "Load":
    """Return the load: a trace, a named load or what iostat says. Raises UsageError or BlklabError."""
    from blklab.advise.measured_activity import load_of_activity
    from blklab.advise.question import load_of_trace
    from blklab.advise.rated_loads import load_of_name

    given = [arguments.trace, arguments.named_load, arguments.activity_file]
    count = sum(option is not None for option in given)
    if count == 0:
        raise UsageError("no load: give a TRACE, --load or --load-from")
    if count > 1:
        raise UsageError("more than one load: expected a TRACE, --load or --load-from")
    if arguments.trace is not None:
        if arguments.working_set is not None:
            raise UsageError("--working-set: a trace says what it uses: expected --load or --load-from")
        return load_of_trace(arguments.trace, arguments.device, 1, waited_only=True)
    if arguments.activity_file is not None:
        return load_of_activity(arguments.activity_file, arguments.device, arguments.working_set, 1)
    if arguments.device is not None:
        raise UsageError("--device: is the device of a trace: give a TRACE or --load-from")
    return load_of_name(arguments.named_load or "", arguments.working_set)
