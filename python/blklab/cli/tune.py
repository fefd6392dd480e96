"""`blklab tune`: show which setting of a sweep had an effect, and how to keep it; tune under a production load."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from blklab.cli import common
from blklab.cli.value_completion import complete_campaigns, complete_metrics
from blklab.errors import BlklabError, UsageError
from blklab.render.console import Console
from blklab.runners.registry import RUNNERS

if TYPE_CHECKING:
    from blklab.runners.host.live.plan import LivePlan
    from blklab.runners.host.live.slices import SliceTimes
    from blklab.runners.host.live.tuner import LiveTuner

NO_TRACE = "--no-trace was given"
LOG_INTERVAL_S = 60.0  # Seconds between lines about the present slice, where stderr is not a terminal


@dataclass(frozen=True)
class TuneArguments:
    """What `blklab tune` is asked."""

    names: tuple[str, ...]  # A campaign, or devices with --live
    live: bool
    settings: tuple[str, ...]  # `scheduler=none,mq-deadline`
    total_ns: int | None
    limit_ns: int | None
    only_plan: bool
    no_trace: bool
    seed: int | None
    metric: str | None
    confidence: float
    margin: float
    store: str | None
    as_json: bool


@click.command()
@click.argument("names", metavar="CAMPAIGN | --live DEVICE...", nargs=-1, shell_complete=complete_campaigns)
@click.option(
    "--metric",
    shell_complete=complete_metrics,
    help="The metric to improve; default: iops, and that of the setting with --live.",
)
@click.option("--live", is_flag=True, help="Alternate a setting under the load that is there, on this host.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="With --live: the setting and the values to compare with the present one.",
)
@click.option("--for", "total_ns", type=common.DURATION, metavar="TIME", help="With --live: how long, such as 2h.")
@click.option(
    "--p99-below",
    "limit_ns",
    type=common.DURATION,
    metavar="LATENCY",
    help="With --live: restore and end if the latency is above this limit.",
)
@click.option("--plan", "only_plan", is_flag=True, help="With --live: show what would change; change nothing.")
@click.option("--no-trace", is_flag=True, help="With --live: record no trace; the limit is one of the mean latency.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="With --live: seed of the order; default: random."
)
@common.confidence_option
@common.margin_option
@common.store_option
@common.json_option
@common.csv_option
@common.collect_options(TuneArguments)
def tune(arguments: TuneArguments) -> None:
    """Show which setting of a sweep had an effect, how large it is, and how to keep the setting.

    CAMPAIGN is a finished sweep: `blklab run EXPERIMENT --on host` with a table [sweep]
    (docs/howto/measure.md), or the result of --live. `blklab runs --help` explains how to name it.
    The command changes nothing. It prints commands, a udev rule and a sysctl file.

    With --live, DEVICE is a whole disk or an md array of this host, in production. blklab sets the
    values in random order for some seconds each, measures, and restores the present value. Plan
    first: --plan shows what would change (docs/howto/tune.md). Settings that can change under a
    load: scheduler, nr_requests, read_ahead_kb, stripe_cache_size, group_thread_cnt,
    sync_speed_min, sync_speed_max.

    \b
    Examples:
      blklab run sweep.toml --on host && blklab tune sweep@host
      blklab tune sweep@host --metric p99
      blklab tune --live --set scheduler=none,mq-deadline /dev/md0 --for 2h --p99-below 20ms --plan

    \b
    Exit status: 0 success; 1 --live ended early, such as by its limit, or cannot change a setting
    now; 2 wrong usage; 3 a right or a program is missing, or the store failed.
    """
    if arguments.live:
        _tune_live(arguments)
        return
    for name, value in (
        ("--set", arguments.settings),
        ("--for", arguments.total_ns),
        ("--p99-below", arguments.limit_ns),
        ("--plan", arguments.only_plan),
        ("--no-trace", arguments.no_trace),
        ("--seed", arguments.seed is not None),
    ):
        if value:
            raise UsageError(f"{name}: add --live, which changes a setting of this host; without it, tune only reads")
    if not arguments.names:
        raise click.UsageError("Missing argument 'CAMPAIGN'.")
    if len(arguments.names) > 1:
        raise UsageError(f"{' '.join(arguments.names)}: expected one campaign, or devices with --live")
    _show_tuning(arguments, arguments.names[0])


def _show_tuning(arguments: TuneArguments, campaign: str) -> None:
    """Print the effects of a stored sweep."""
    from blklab.compare import run_conditions
    from blklab.compare import tune as analysis
    from blklab.compare import tune_report as report
    from blklab.compare.decision import look_share
    from blklab.render import diagnostics
    from blklab.store import query

    opened_store, (selection,), points = query.open_selections(arguments.store, [campaign])
    look = look_share(query.earlier_looks(opened_store, [selection]))
    experiment = selection.campaign.experiment
    metric = arguments.metric or analysis.default_metric(selection.campaign)
    tunings = analysis.tune(
        selection.campaign, selection.runs, metric, points, arguments.confidence, arguments.margin, look
    )
    kind = RUNNERS.get(selection.campaign.runner)
    better = analysis.settings_of(tunings) if kind is not None and kind.own_devices else {}
    lasting = analysis.persist_settings(better, [run.outcome for run in selection.runs if run.outcome])
    one_at_a_time = experiment["sweep"].get("mode") != "all"

    notes = [
        *run_conditions.condition_notes(campaign, selection.runs),
        *run_conditions.drift_notes(
            campaign, selection.runs, [tunings[0].metric], is_order_random=experiment.get("order") == "random"
        ),
        *analysis.live_notes(selection.campaign),
    ]

    def draw(console: Console) -> None:
        report.print_tuning(console, tunings, lasting, one_at_a_time=one_at_a_time)
        diagnostics.print_diagnostics(console, notes, "Notes")

    document = {
        "tunings": [tuning.as_dict() for tuning in tunings],
        "keep": vars(lasting),
        "diagnostics": [diagnostics.as_dict(note) for note in notes],
    }
    common.emit(document, arguments.as_json, draw)


# --- live ---------------------------------------------------------------------------------------------


def _tune_live(arguments: TuneArguments) -> None:
    """Plan a live tuning; carry it out unless only the plan is wanted."""
    from blklab.runners.host.journal import list_leftovers
    from blklab.runners.host.live import plan_report, tuner
    from blklab.system.roots import Roots
    from blklab.trace.record.live_latency import describe_obstacle, find_obstacle, record_latencies

    roots = Roots()
    total_ns, limit_ns = _check_live_options(arguments)
    if arguments.only_plan:
        plan, times = _make_plan(arguments, total_ns, limit_ns)
        obstacle = NO_TRACE if arguments.no_trace else find_obstacle(plan.targets, roots)
        lines = list(plan_report.describe_plan(plan, times, obstacle))
        if list_leftovers(roots):
            lines.append("note: a killed or running blklab has changed settings: see `blklab restore`")
        lines.append("Nothing was changed. Without --plan, blklab looks at the load for 3 s and begins.")
        document = {**plan.as_dict(times), "latency": "mean" if obstacle else "p99"}
        common.emit(document, arguments.as_json, lambda console: _print_lines(console, lines))
        return
    with tuner.claim_host(roots) as report:
        for message in report.done:
            common.warn(f"after a killed run: {message}")
        for problem in report.problems:
            common.warn(problem)
        plan, times = _make_plan(arguments, total_ns, limit_ns)
        live_tuner = tuner.LiveTuner(plan, times, roots)
        obstacle = NO_TRACE if arguments.no_trace else ""
        with ExitStack() as stack:
            if not arguments.no_trace:
                try:
                    live_tuner.trace = stack.enter_context(record_latencies(plan.targets, times.window_ns, roots))
                except BlklabError as error:
                    obstacle = describe_obstacle(error)
            for line in plan_report.describe_plan(plan, times, obstacle):
                common.tell(line)
            common.tell(f"The load now: {live_tuner.look()}")
            if live_tuner.trace is None:
                stack.close()  # A trace that shows nothing costs as well
            campaign = _run_slices(arguments, live_tuner)
    common.tell(f"stored as campaign {campaign}: blklab tune {campaign}, blklab report {campaign}")
    try:
        _show_tuning(arguments, str(campaign))
    except BlklabError as error:
        if live_tuner.ended is None:
            raise
        common.warn(str(error))
    if live_tuner.ended is not None:
        raise live_tuner.ended


def _check_live_options(arguments: TuneArguments) -> tuple[int, int]:
    """Return the time and the limit, ns. Raises UsageError for what is missing."""
    from blklab.compare.metrics import metric_name

    if arguments.metric is not None:
        metric_name(arguments.metric)  # Raises: not after hours of measuring
    if not arguments.names:
        raise UsageError("--live: expected a device: a whole disk or an md array, such as /dev/md0")
    if len(arguments.settings) != 1:
        raise UsageError("--live: expected one --set, such as --set scheduler=none,mq-deadline: one setting at a time")
    if not arguments.total_ns:
        raise UsageError("--live: expected --for TIME, such as --for 2h")
    if not arguments.limit_ns:
        raise UsageError("--live: expected --p99-below LATENCY, such as --p99-below 20ms: above it, blklab restores")
    return arguments.total_ns, arguments.limit_ns


def _make_plan(arguments: TuneArguments, total_ns: int, limit_ns: int) -> "tuple[LivePlan, SliceTimes]":
    from blklab.runners.host.live import plan as live_plan
    from blklab.runners.host.live.slices import divide_time
    from blklab.system.roots import Roots

    key, values = live_plan.parse_setting(arguments.settings[0])
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    request = live_plan.LiveRequest(key, values, arguments.names, limit_ns, seed)
    plan = live_plan.make_plan(request, Roots())
    return plan, divide_time(total_ns, len(plan.values))


def _run_slices(arguments: TuneArguments, live_tuner: "LiveTuner") -> int:
    """Measure the slices into the store; return the number of the campaign."""
    from blklab.runners.campaign import open_campaign
    from blklab.runners.host.live.tuner import make_experiment
    from blklab.store.campaigns import Store

    store: Store = Store(arguments.store, warn=common.warn)
    experiment = make_experiment(live_tuner.plan, live_tuner.times)
    with open_campaign(experiment, store, live_tuner.environment()) as ledger:
        try:
            with _show_state() as tell:
                live_tuner.tell = tell
                live_tuner.run(experiment.cells, ledger)
        except KeyboardInterrupt:
            state = "the present values are restored"
            if live_tuner.unrestored:
                names = ", ".join(sorted(live_tuner.unrestored))
                state = f"{names}: the former value is not restored: run `blklab restore`"
            if ledger.results:
                state += f"; finished slices are stored: blklab tune {ledger.campaign_number}"
            raise KeyboardInterrupt(state) from None
    return ledger.campaign_number


@contextmanager
def _show_state() -> "Iterator[Callable[[str], None]]":
    """Show the present slice on stderr; yield the function to call with it."""
    console = common.notes()
    if console.is_terminal:
        with console.status("starting") as status:
            yield status.update
        return
    line = ""

    def set_line(state: str) -> None:
        nonlocal line
        line = state

    with common.at_intervals(lambda: line, LOG_INTERVAL_S):
        yield set_line


def _print_lines(console: Console, lines: list[str]) -> None:
    from blklab.text.printing import printable

    for line in lines:
        console.print(printable(line))
