"""`blklab advise`: which array to build."""

import hashlib
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import output as out
from blklab.cli import common
from blklab.cli.value_completion import complete_loads, complete_models
from blklab.devices.typed_disks import parse_disk_size
from blklab.errors import BlklabError, UsageError
from blklab.system.roots import Roots
from blklab.text.printing import printable
from blklab.units import NANOSECONDS, parse_number, parse_size

if TYPE_CHECKING:
    from blklab.advise.answer import Answer
    from blklab.advise.arrangement import Arrangement
    from blklab.advise.measured_host import MeasuredHost
    from blklab.advise.plan import Plan
    from blklab.advise.question import DiskPool, Load, Question
    from blklab.calibrate.observations import Observation
    from blklab.cluster import Parallel


def _parse_amount(text: str) -> float:
    amount = parse_number(text)
    if not 0 <= amount < 1e12:
        raise ValueError(f"{text!r}: expected an amount from 0, below 1e12")
    return amount


def _parse_capacity(text: str) -> int:
    """Parse a size of data, or as disks have it on their label: `5TB` is 5 × 10¹² bytes."""
    try:
        return parse_size(text)
    except ValueError:
        return parse_disk_size(text)


def _parse_price(text: str) -> tuple[str, float]:
    name, equals, price = text.partition("=")
    try:
        return name, _parse_amount(price if equals else "")
    except ValueError:
        raise ValueError(f"{text!r}: expected a disk and its price, such as pm983=420") from None


def _parse_times(text: str) -> float:
    times = parse_number(text.removesuffix("x"))
    if not 0.001 <= times <= 1000:
        raise ValueError(f"{text!r}: expected a factor from 0.001 to 1000, such as 2x")
    return times


def _parse_check(text: str) -> int | None:
    interval = 0 if text == "never" else common.parse_with_unit(text)
    if not interval and text != "never":
        raise ValueError(f"{text!r}: expected a time above 0, or never")
    return interval or None


@dataclass(frozen=True)
class AdviseArguments:
    """What `blklab advise` is asked."""

    traces: tuple[str, ...]  # Names of traces, with weights: `md4=2`
    device: str | None  # Of the trace
    job_files: tuple[str, ...]  # fio's, with weights
    experiments: tuple[str, ...]  # Files, with weights
    named_loads: tuple[str, ...]  # Names of loads, with amounts and weights: `vm:12`, `database=2`
    activity_files: tuple[str, ...]  # Outputs of iostat or sar, with weights
    working_set: int | None  # Bytes that a load uses; None for what its source says
    growth: float  # How many times the rate of the loads to plan for
    devices: tuple[str, ...]  # `2xpm983,4xhdd-7200`
    this_host: bool  # Whether unused disks of this host are disks to use, too
    calibrate: bool  # Whether to measure them first
    length: int  # ns of this measurement
    force: tuple[str, ...]  # Conditions to measure despite
    store: str | None  # Where the measurements are stored
    prices: tuple[tuple[str, float], ...]  # By model
    capacity: int | None  # Bytes that the array must have; None for what the load uses
    failures: int  # Disks that can fail without data loss
    drives: int | None  # Most disks to use
    budget: float | None  # Most that the disks may cost
    p99_below: int | None  # ns
    loss: float | None  # The largest probability of losing data
    replaced_after: int  # ns until a failed disk is replaced
    checked_every: int | None  # ns from one check of the arrays to the next; None for never
    exclude: tuple[str, ...]  # Levels and kinds: `5,bcache`
    compared: tuple[str, ...]  # Arrangements to show in any case: `raid10,f2`
    kernel: str
    filesystem: str
    flash_state: str
    seed: int
    jobs: int | None  # Simulations at the same time
    cluster: str | None  # The address of a scheduler
    one_array: bool  # Whether all loads share one array
    full: bool  # Whether all figures and reasons are printed
    script: bool  # Whether the commands are printed
    output: str | None  # File for the experiment
    html: str | None  # File for the page
    as_json: bool


@click.command(cls=common.DevicesCommand)
@common.repeatable("--trace", "traces", metavar="TRACE[=WEIGHT]", help="A trace, at its recorded times.")
@click.option(
    "--device", metavar="NAME", help="Device of the trace, or of --load-from; default: that of the whole workload."
)
@common.repeatable("--job", "job_files", metavar="FILE[=WEIGHT]", help="A fio job file.")
@common.repeatable("--experiment", "experiments", metavar="FILE[=WEIGHT]", help="Workloads of an experiment.")
@common.repeatable(
    "--load",
    "named_loads",
    metavar="NAME[:AMOUNT][=WEIGHT]",
    shell_complete=complete_loads,
    help="A load: vm:12, postgresql:800tps, media:3, surveillance:16; or a published mix, such as database.",
)
@common.repeatable(
    "--load-from",
    "activity_files",
    metavar="FILE[=WEIGHT]",
    help="The load of a machine, from the output of `iostat -x` or `sar -d`.",
)
@click.option(
    "--working-set", type=common.SIZE, help="Bytes that a --load or --load-from uses; default: its own, or 8g."
)
@click.option(
    "--growth",
    type=common.Quantity("factor", _parse_times),
    default="1x",
    help="Plan for so many times the rate of the loads.",
)
@common.repeatable(
    "--devices",
    metavar="NxMODEL,...",
    shell_complete=complete_models,
    help="Disks: 2xpm983, '4x N300 8TB', 2xnvme:1TB, 2x./disk.toml.",
)
@click.option("--this-host", is_flag=True, help="Also the unused disks of this host.")
@click.option("--calibrate", is_flag=True, help="Measure the disks of --this-host first; they are only read.")
@click.option("--time", "length", type=common.DURATION, default="60s", help="Time of --calibrate, all disks.")
@common.repeatable("--force", metavar="NAME", help="Measure despite this condition.")
@common.store_option
@common.repeatable(
    "--price", "prices", type=common.Quantity("price", _parse_price), metavar="MODEL=PRICE", help="Price of a disk."
)
@click.option(
    "--capacity",
    type=common.Quantity("size", _parse_capacity),
    help="Bytes that the array must have; default: what the load uses.",
)
@click.option("--failures", type=click.IntRange(0, 8), default=1, help="Disks that can fail without data loss.")
@click.option("--drives", type=click.IntRange(1, 64), help="Most disks to use.")
@click.option("--budget", type=common.Quantity("amount", _parse_amount), help="Most that the disks may cost.")
@click.option("--p99-below", type=common.DURATION, metavar="TIME", help="Limit of the 99th percentile of latency.")
@click.option(
    "--loss-below",
    "loss",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="P",
    help="Limit of the probability of losing data within 5 years, such as 1e-4.",
)
@click.option(
    "--replaced-after", type=common.DURATION, default="72h", help="Mean time until a failed disk is replaced."
)
@click.option(
    "--checked-every",
    type=common.Quantity("duration", _parse_check),
    default="730h",
    help="Time from one check of the arrays to the next; or never.",
)
@common.repeatable("--exclude", metavar="KIND,...", help="Levels or kinds: 5, raid10, bcache, dm-cache.")
@common.repeatable(
    "--compare", "compared", metavar="WORD,...", help="Show this in any case: raid10,f2 or raid5,64k or bcache."
)
@click.option("--kernel", default="6.1", help="Kernel of the array.")
@click.option("--filesystem", type=click.Choice(["ext4", "xfs", "none"]), default="ext4", help="Filesystem to make.")
@common.flash_state_option
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Seed of random numbers.")
@common.jobs_option
@common.cluster_option
@click.option("--one-array", is_flag=True, help="All loads share one array of all disks.")
@click.option("--full", is_flag=True, help="Print all figures and reasons, and the commands.")
@click.option("--script", is_flag=True, help="Print the commands that build it.")
@click.option("-o", "--output", metavar="FILE", help="Write the experiment that proves the answer, for `blklab run`.")
@click.option("--html", metavar="FILE", help="Write the answer as a page.")
@common.json_option
@common.collect_options(AdviseArguments)
def advise(arguments: AdviseArguments) -> None:
    """Find what to build: for these loads, on these disks, within these constraints.

    With flash disks and rotating ones, loads of long streams (media, surveillance, backup) get an array of the rotating
    disks, and other loads one of flash, if they fit so. Otherwise all loads share one array.

    blklab simulates the arrangements that a competent administrator would consider: levels, layouts, chunks, mirrors
    with write-mostly, groups of arrays, hot spares, caches. Short simulations come first, longer ones follow for those
    that remain. The same question has the same answer. An interrupted search continues where it stopped.

    \b
    Examples:
      blklab advise --trace md4 --devices 2xpm983,4xhdd-7200 --capacity 6TiB
      blklab advise --load vm:12 --load media:3 --devices "2x 990 PRO 1TB, 4x WD Red Plus 8TB"
      iostat -x 10 360 > iostat.txt; blklab advise --load-from iostat.txt --devices 2xpm983
      blklab advise --load database --devices 2xpm983,1xsm883 --json
      blklab advise --load backup --devices 10xhdd-7200 --failures 2 --exclude 10
      blklab advise --trace md4 --this-host -o advice.toml && blklab run advice.toml --on lab
      blklab advise --trace md4 --this-host --calibrate

    \b
    Exit status: 0 an answer; 1 no arrangement meets the constraints; 2 wrong usage.
    """
    from blklab.advise import plan_report

    for file in (arguments.output, arguments.html):
        out.check(file)
    question, paths, host_arrays = _question(arguments)
    with common.computing(arguments.cluster, arguments.jobs) as parallel:
        plan = _search(arguments, question, paths, host_arrays, parallel)
    if arguments.output is not None:
        _write_experiment(plan, arguments.output)
    if arguments.html is not None:
        command = shlex.join(["blklab", *sys.argv[1:]]) if sys.argv[1:2] == ["advise"] else ""
        page = plan_report.render(plan, title="Which array to build", command=command)
        out.write(arguments.html, page.encode())
        common.notes().print(f"{printable(arguments.html)}: written")
    common.emit(
        plan_report.as_dict(plan),
        arguments.as_json,
        lambda console: plan_report.print_plan(console, plan, full=arguments.full, script=arguments.script),
    )


def _question(arguments: AdviseArguments) -> "tuple[Question, dict[str, str], list[Arrangement]]":
    """Return the question, the paths of known disks, and the arrays of this host."""
    from blklab.advise import question
    from blklab.advise.figures import YEARS
    from blklab.advise.measured_activity import load_of_activity
    from blklab.advise.rated_loads import load_of_name
    from blklab.advise.search import parse_excluded_kinds, parse_keywords
    from blklab.experiment.placement import SPREAD
    from blklab.md.reliability import Care

    loads: list[Load] = []
    for number, trace in enumerate(arguments.traces, 1):
        loads.append(question.load_of_trace(trace, arguments.device, number))
    for file in arguments.job_files:
        loads += question.loads_of_job_file(file)
    for file in arguments.experiments:
        loads += question.loads_of_experiment(file)
    for text in arguments.named_loads:
        loads.append(load_of_name(text, arguments.working_set))
    for number, file in enumerate(arguments.activity_files, 1):
        loads.append(load_of_activity(file, arguments.device, arguments.working_set, number))
    if not loads:
        raise UsageError("no load: give --trace, --job, --experiment, --load or --load-from")
    if arguments.device is not None and not (arguments.traces or arguments.activity_files):
        raise UsageError("--device: is the device of a trace: give --trace or --load-from")
    if arguments.growth != 1 and not any(load.is_paced for load in loads):
        raise UsageError("--growth: only a load with a rate can grow: give --trace, --load-from or --load vm:12")
    prices = dict(arguments.prices)
    pools: list[DiskPool] = (
        question.read_pools(arguments.devices, prices, arguments.flash_state) if arguments.devices else []
    )
    paths: dict[str, str] = {}
    host_arrays: list[Arrangement] = []
    # Data of loads without a trace are files that an application wrote over time. Traces say where theirs are.
    settings: dict[str, object] = {"kernel": arguments.kernel, "placement": SPREAD}
    if arguments.this_host or arguments.calibrate:
        host_pools, paths, host_arrays, host_times = _pools_of_this_host(arguments, prices)
        pools = question.merge_pools(host_pools, pools)
        settings |= host_times
    if not pools:
        raise UsageError("no disks: give --devices, such as 2xpm983,4xhdd-7200, or --this-host")
    question.check_prices(prices, pools)
    if arguments.budget is not None and any(pool.price is None for pool in pools):
        raise UsageError("--budget: needs the --price of each disk")
    constraints = question.Constraints(
        arguments.capacity or 0,
        arguments.failures,
        arguments.drives,
        arguments.budget,
        arguments.p99_below,
        parse_excluded_kinds(arguments.exclude),
        arguments.loss,
        [parse_keywords(text) for text in arguments.compared],
    )
    check_days = (arguments.checked_every or math.inf) / NANOSECONDS["d"]
    care = Care(arguments.replaced_after / NANOSECONDS["h"], check_days if check_days < YEARS * 365 else None)
    loads = question.distinct_loads(loads)
    asked_question = question.Question(
        pools, loads, constraints, settings, arguments.growth, seed=arguments.seed, care=care, directory=Path.cwd()
    )
    return asked_question, paths, host_arrays


def _pools_of_this_host(
    arguments: AdviseArguments, prices: dict[str, float]
) -> "tuple[list[DiskPool], dict[str, str], list[Arrangement], dict[str, object]]":
    """Return the disks of this host, the paths of unused ones, its arrays, and `host` of [settings] if it is known."""
    from blklab.advise.this_host import NOT_MEASURED, pools_of_this_host

    if not arguments.this_host:
        raise UsageError("--calibrate: measures the disks of this host: give --this-host")
    models = NOT_MEASURED
    host_times: dict[str, object] = {}
    if arguments.calibrate:
        measured = _measure_this_host(arguments)
        models = measured.disks
        if measured.host:
            host_times["host"] = dict(measured.host)
    return *pools_of_this_host(Roots(), prices, arguments.flash_state, common.warn, models), host_times


def _measure_this_host(arguments: AdviseArguments) -> "MeasuredHost":
    """Measure the disks of this host, which are only read. Raises UsageError or BlklabError."""
    from blklab.advise.measured_host import measure_this_host
    from blklab.calibrate import fit
    from blklab.cli.calibrate import KERNEL, measure_points
    from blklab.devices.identified_disks import refuse_host_managed

    def measure(device: str, seconds: float) -> "Sequence[Observation]":
        refuse_host_managed(device, Roots())
        experiment = fit.device_experiment(device, destroy=(), seconds=seconds)
        return measure_points(experiment, arguments.store, arguments.force)

    return measure_this_host(Roots(), arguments.length / NANOSECONDS["s"], KERNEL, measure, common.tell)


def _search(
    arguments: AdviseArguments,
    question: "Question",
    paths: dict[str, str],
    present: "list[Arrangement]",
    parallel: "Parallel",
) -> "Plan":
    """Return the plan. Arrays that the user has are compared with one array of all disks."""
    from blklab.advise.answer import advise as find_answer
    from blklab.advise.plan import make_plan
    from blklab.advise.recorded_cause import describe_causes

    is_shown = sys.stderr.isatty()

    def find(part_question: "Question", name: str) -> "Answer":
        first = " and ".join(printable(load.name) for load in part_question.loads)

        def show_first(arrangement: "Arrangement") -> None:
            if is_shown:
                common.tell(
                    f"first answer, from short simulations: for {first}, {arrangement.words}; it is refined now"
                )

        with common.progress("Simulating", total=1000, as_json=arguments.as_json) as tick:

            def show(done: int, total: int) -> None:
                tick(1000 * done // max(1, total))

            return find_answer(
                part_question,
                _make_cache_file(part_question),
                parallel,
                paths,
                present,
                arguments.filesystem,
                show,
                name,
                show_first,
            )

    plan = make_plan(question, find, together=arguments.one_array or bool(present))
    return replace(plan, causes=describe_causes(question.loads))


def _make_cache_file(question: "Question") -> Path | None:
    """Return the file of finished simulations; None if its directory cannot be made."""
    import platformdirs

    digest = hashlib.sha256(repr((question.pools, question.loads, question.seed)).encode()).hexdigest()[:16]
    directory = platformdirs.user_cache_path("blklab") / "advice"
    try:
        out.make_directory(directory)
    except BlklabError as error:
        common.warn(f"{error}: an interrupted search cannot continue")
        return None
    return directory / f"{digest}.jsonl"


def _write_experiment(plan: "Plan", output: str) -> None:
    """Write the experiment, with jobs that resemble the traces."""
    from blklab import _core
    from blklab.trace.fio import FioPlan, make_plan
    from blklab.trace.profile import characterise

    plans: dict[str, FioPlan] = {}
    for part in plan.parts:
        for load in part.loads:
            if load.timed:
                only = _core.Filter(devices=[str(load.table["device"])])
                plans[load.name] = make_plan(characterise([str(load.table["replay"])], only))
    out.write(output, plan.experiment(plans).encode())
    common.notes().print(f"{printable(output)}: written; `blklab run {printable(output)} --on lab` proves it")
