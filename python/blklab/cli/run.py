"""`blklab run`: run the cells of an experiment on a runner."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli import common
from blklab.cli.value_completion import complete_metrics
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.render.console import Console
from blklab.runners.registry import RUNNERS, RunnerKind, RunnerOption
from blklab.text.label_patterns import label_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from blklab.experiment.cells import ExperimentPlan
    from blklab.experiment.overrides import Override
    from blklab.runners.base import Runner, RunResult
    from blklab.runners.campaign import CampaignOutcome
    from blklab.store.campaigns import Store, StoredCampaign


def only_cells(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """Parse `stack=raid1,workload=rand*`."""
    try:
        return {} if text is None else label_patterns(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@cache  # click keeps parameters by identity, so each call with the same runners must return the same object
def _runner_option(*runners: str) -> click.Option:
    return click.Option(
        ["--on", "runner"],
        type=click.Choice(runners),
        default="sim",
        is_eager=True,  # --help shows the options of this runner
        help="The runner: " + "; ".join(f"{name}: {RUNNERS[name].summary}" for name in runners),
    )


class _RunCommand(click.Command):
    """The command `run` with the options of every runner in the registry."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters. The options of runners come before `--resume`."""
        experiment_argument, *options = super().get_params(ctx)  # in the order of the decorators below
        names = [option.name for option in options]
        resume = names.index("resume")
        return [experiment_argument, _runner_option(*RUNNERS), *options[:resume], *_runner_options(), *options[resume:]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; --help acts after --on."""
        if "--" not in args:
            help_options = [argument for argument in args if argument in ctx.help_option_names]
            args = [argument for argument in args if argument not in ctx.help_option_names] + help_options
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those that a runner refuses only if no --on names it."""
        options = self.get_params(ctx)[1:]
        if kind := RUNNERS.get(ctx.params.get("runner", "")):
            refused_names = {option.name for option in _runner_options()} - {option.name for option in kind.options}
            if kind.predicts:
                refused_names.add("margin")
            if not kind.form().on_targets:
                refused_names.add("targets")
            if not kind.explain:
                refused_names.add("explain")
            options = [option for option in options if option.name not in refused_names]
        with formatter.section("Options"):
            records = [option.get_help_record(ctx) for option in options]
            formatter.write_dl([record for record in records if record])


def _runner_options() -> "Collection[RunnerOption]":
    """Return the options of all runners; an option of several runners comes once."""
    return dict.fromkeys(option for kind in RUNNERS.values() for option in kind.options)


def _parse_margin(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    return common.parse_share(context, parameter, text) if text else None


@dataclass(frozen=True)
class RunArguments:
    """What `blklab run` is asked; the options of runners are apart."""

    experiments: tuple[Path, ...]
    interleave: bool
    runner: str  # A name in RUNNERS
    dry_run: bool
    only: dict[str, str]  # The pattern of each label
    seed: int | None  # None for the file's
    settings: tuple[str, ...]  # `iodepth=8`
    explain: bool
    per_job: bool
    columns: str | None  # Metrics: `read.max,read.stddev`
    targets: tuple[str, ...]  # `/srv`, `stack=/srv`
    resume: bool
    margin: float | None  # Measure until the comparisons are decided, or surely below this share
    no_store: bool
    store: str | None
    schema: bool  # Whether to print the JSON Schema only
    as_json: bool


@click.command(cls=_RunCommand)
@click.argument("experiments", metavar="EXPERIMENT...", type=click.Path(path_type=Path), nargs=-1)
@click.option("--interleave", is_flag=True, help="Measure several experiments in turns, in random order.")
@click.option("--dry-run", is_flag=True, help="Show the cells and what they would do; run nothing.")
@click.option(
    "--only",
    metavar="LABEL=PATTERN,...",
    callback=only_cells,
    help="Run only these cells: 'stack=raid1,workload=rand*'.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Seed of random numbers; default: the file's."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the file: kernel=6.1, iodepth=8, near.chunk=64k.",
)
@click.option("--explain", is_flag=True, help="Explain the figures: busy devices, members' shares, read balancing.")
@click.option("--per-job", is_flag=True, help="Also show the figures of each job of a workload.")
@click.option(
    "--columns",
    metavar="METRIC,...",
    shell_complete=complete_metrics,
    help="More columns: read.max, read.stddev, p99_9, cores ...",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="[STACK=]PATH",
    help="With --on host or fleet: the directory or device of a stack; replaces its entry in [targets].",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted campaign.")
@click.option(
    "--until-sure",
    "margin",
    callback=_parse_margin,
    metavar="SHARE",
    help="Repeat until each comparison is decided, or surely below this share, such as 5%.",
)
@click.option("--no-store", is_flag=True, help="Print the results; do not store them.")
@common.store_option
@click.option("--schema", is_flag=True, help="Print the JSON Schema of experiment files, for editors.")
@common.json_option
@common.csv_option
@common.collect_options(RunArguments)
def run(arguments: RunArguments, **options: object) -> None:
    """Run the cells of EXPERIMENT, a TOML file with devices, stacks and workloads.

    A cell is one combination of a stack, a workload and the values of [matrix]. blklab checks all
    cells before it runs the first one. docs/reference/experiments.md describes the file.

    --on sim (the default) simulates the cells.

    --on host runs fio on this host. blklab writes only to directories that it creates, and to
    devices that the experiment lists in `destroy` by a stable name (docs/howto/measure.md).

    --on fleet runs fio on all hosts of [fleet] at the same time, over ssh, under the same rules
    (docs/howto/measure-fleet.md).

    --on lab boots a real kernel in a virtual machine and builds the stacks on throttled virtual
    disks. It needs QEMU; it needs neither root nor a disk (docs/howto/lab.md).

    Results are stored: `blklab runs list` lists them, `blklab compare` and `blklab report` use
    them. After an interruption or a crash, --resume continues the campaign.

    --until-sure 5% compares the stacks (or the values of a sweep) when all repeats are done. While
    a comparison is open, it measures 1.6 times as many repeats, at most five times.

    --interleave measures several experiments as one campaign, in turns: what changes on the machine
    meanwhile then meets all of them. `blklab compare A+B --between experiment` compares them.

    \b
    Examples:
      blklab run unbalanced.toml --dry-run           list the cells
      blklab run unbalanced.toml --only 'stack=near,workload=rand*'
      blklab run unbalanced.toml --only stack=near --explain
      blklab run unbalanced.toml --set kernel=6.1 --set iodepth='[1, 8, 64]'
      blklab run directory.toml --on host --target /srv        measure with fio on this host
      blklab run mirrors.toml --on lab                         measure real md in a virtual machine
      blklab run before.toml after.toml --interleave --on host --until-sure 5%
      blklab run unbalanced.toml --dry-run --json | jq .cells[0].cell
      blklab run --schema > experiment.schema.json   JSON Schema for your editor

    \b
    Exit status: 0 success; 1 a cell failed, was refused or is missing; 2 the experiment is not
    valid; 3 a program such as fio is missing, or the store failed.
    """
    if arguments.schema:
        from blklab.experiment import schema

        click.echo(schema.format_schema(), nl=False)
        return
    kind = RUNNERS[arguments.runner]
    expand = _read_experiments(arguments, kind)
    plan = expand()
    metrics = _parse_columns(arguments.columns)
    if arguments.margin:
        _check_until_sure(kind, plan, stored=not arguments.no_store)
    if arguments.explain and not kind.explain:
        runners = [runner_kind.name for runner_kind in RUNNERS.values() if runner_kind.explain]
        raise _option_refusal("--explain", "measurements have no explanation", runners)
    if arguments.targets and not kind.form().on_targets:
        runners = [runner_kind.name for runner_kind in RUNNERS.values() if runner_kind.form().on_targets]
        raise _option_refusal("--target", f"{kind.name} uses no directory or device of this host", runners)
    runner = _make_runner(kind, options)
    plan = runner.adapt_plan(plan)
    common.warn_each(plan.notes)
    if arguments.dry_run:
        from blklab.campaigns.results import print_cells

        runner.check(plan)
        common.emit(plan.as_dict(), arguments.as_json, lambda console: print_cells(console, plan))
        return
    with runner.session():
        runner.check(plan)
        outcome = measure_campaign(runner, plan, arguments.store, keep=not arguments.no_store, resume=arguments.resume)
        if arguments.margin and outcome.campaign is not None and not outcome.errors:
            from blklab.store.campaigns import Store

            store = Store(arguments.store, warn=common.warn)
            plan, outcome = until_sure(runner, expand, store, outcome, arguments.margin)
    _print(
        plan,
        outcome.results,
        explain=arguments.explain,
        per_job=arguments.per_job,
        as_json=arguments.as_json,
        metrics=metrics,
    )
    common.fail_with(outcome.errors)


def _read_experiments(arguments: RunArguments, kind: "RunnerKind") -> "Callable[..., ExperimentPlan]":
    """Read the files; return the function that expands them into a plan, with further changes if asked."""
    from blklab.experiment import cells, load

    if not arguments.experiments:
        raise click.UsageError("Missing argument 'EXPERIMENT'.")
    if len(arguments.experiments) > 1 and not arguments.interleave:
        raise UsageError("several experiments: add --interleave, which measures them in turns, or run one at a time")
    if len(arguments.experiments) == 1 and arguments.interleave:
        raise UsageError("--interleave: expected several experiments, found one")
    only = dict(arguments.only)
    pattern = only.pop("experiment", "*") if arguments.interleave else "*"
    paths = [path for path in arguments.experiments if fnmatchcase(path.stem, pattern)]
    if not paths:
        names = ", ".join(path.stem for path in arguments.experiments)
        raise UsageError(f"--only experiment={pattern}: no such experiment; there are {names}")
    sources = [load.add_targets(load.read(path), arguments.targets) for path in paths]

    def expand(further_changes: "Sequence[Override]" = ()) -> "ExperimentPlan":
        overrides = [*changes(arguments.settings), *further_changes]
        plans = [
            cells.plan(source, changes=overrides, seed=arguments.seed, only=only, form=kind.form())
            for source in sources
        ]
        return cells.interleaved(plans) if arguments.interleave else plans[0]

    return expand


def predict(experiment: Path, store: str | None, *, as_json: bool) -> None:
    """Simulate the cells of an experiment file, as `blklab run` does, and print the results."""
    from blklab.experiment import cells

    kind = RUNNERS["sim"]
    runner = _make_runner(kind, {option.name: None for option in _runner_options()})
    plan = runner.adapt_plan(cells.plan(experiment, form=kind.form()))
    common.warn_each(plan.notes)
    runner.check(plan)
    outcome = measure_campaign(runner, plan, store, keep=True, resume=False)
    _print(plan, outcome.results, explain=False, per_job=False, as_json=as_json)
    common.fail_with(outcome.errors)


def _check_until_sure(kind: "RunnerKind", plan: "ExperimentPlan", *, stored: bool) -> None:
    """Raise UsageError if there is nothing to be sure of."""
    if kind.predicts or not stored:
        reason = "repeats do not make predictions surer: measure with --on" if kind.predicts else "it needs the store"
        raise UsageError(f"--until-sure: {reason}")
    if set(plan.varied) <= {"workload", "repeat"}:
        raise UsageError("--until-sure: the cells differ only in their workloads: nothing to compare")


def changes(settings: tuple[str, ...]) -> "list[Override]":
    """Parse the values of `--set`. Raises UsageError."""
    from blklab.experiment.overrides import parse_set

    try:
        return [parse_set(text) for text in settings]
    except ValueError as error:
        raise UsageError(f"--set {error}") from None


def _make_runner(kind: "RunnerKind", options: "Mapping[str, object]") -> "Runner":
    """Create a runner. Raises UsageError for options of other runners."""
    for option in _runner_options():
        if option not in kind.options and options[option.name]:
            runners = [runner_kind.name for runner_kind in RUNNERS.values() if option in runner_kind.options]
            raise _option_refusal(option.opts[0], option.elsewhere, runners)
    runner_options = {option.name: options[option.name] for option in kind.options}
    make = kind.make()  # imports the runner's module
    return make(**runner_options, note=common.note, warn=common.warn)


def _option_refusal(flag: str, reason: str, runners: list[str]) -> UsageError:
    return UsageError(f"{flag}: {reason}: only --on {' or '.join(runners)} takes it")


def measure_campaign(
    runner: "Runner", plan: "ExperimentPlan", store_address: str | None, *, keep: bool, resume: bool
) -> "CampaignOutcome":
    """Open the store, run the cells that are not done yet, and say where the results are."""
    from blklab.store.campaigns import Store

    store = Store(store_address, warn=common.warn) if keep else None
    outcome = _measure(runner, plan, store, resume=resume)
    if outcome.campaign is not None:
        common.note(f"stored as campaign {outcome.campaign}: blklab report {outcome.campaign}")
    return outcome


def _measure(
    runner: "Runner",
    plan: "ExperimentPlan",
    store: "Store | None",
    *,
    resume: bool = False,
    campaign: "StoredCampaign | None" = None,
) -> "CampaignOutcome":
    """Run cells with progress on the terminal; after an interrupt, say how to continue."""
    from blklab.runners.campaign import carry_out

    try:
        with _show_progress(runner, plan) as advance:
            return carry_out(
                runner, plan, store, resume=resume, campaign=campaign, on_cell_end=advance, note=common.warn
            )
    except KeyboardInterrupt:
        if store is None:
            raise
        raise KeyboardInterrupt(
            "finished cells are stored; repeat the command with --resume to measure the others"
        ) from None


def until_sure(
    runner: "Runner", expand: "Callable[..., ExperimentPlan]", store: "Store", outcome: "CampaignOutcome", margin: float
) -> "tuple[ExperimentPlan, CampaignOutcome]":
    """Measure more repeats of a campaign until each of its comparisons is decided; return all cells and results.

    `expand` makes the plan of the experiment files; it takes further changes of them.
    """
    from blklab.compare.decision import MOST_LATER_LOOKS, look_share, next_look
    from blklab.compare.tune import count_undecided
    from blklab.experiment.overrides import Override
    from blklab.runners.campaign import of_run, with_repeats
    from blklab.store import query

    number = outcome.campaign or 0
    # The numbers of the first cells are those of the files, also of cells that the runner drops.
    first_plan = expand()

    def plan_repeats(after: int, until: int) -> "ExperimentPlan":
        """Return the cells of the repeats `after` + 1 to `until`."""
        all_repeats = expand([Override("repeats", until, "--until-sure")])
        return runner.adapt_plan(with_repeats(all_repeats, after, first_plan))

    while True:
        # The store knows the new number of repeats before they are measured (`extend` below). So this loop begins with
        # what the store expects, whether this process or an interrupted one has written it.
        row = query.campaign(store, number)
        if row.former_repeats:  # the number of repeats before each extension
            plan = plan_repeats(row.former_repeats[-1], row.repeats)
            added = _measure(runner, plan, store, campaign=store.continue_campaign(number))
            outcome = replace(outcome, errors=added.errors)
        runs = [run for run in query.runs_of(store, number) if run.outcome is not None]
        look = look_share(query.earlier_looks(store, [query.Selection("", row, runs)]))
        unsure = count_undecided(row, runs, partial(query.points, store), margin, look)
        # A failed cell would fail again. Each look finds differences by chance, so their number has a limit.
        if outcome.errors or not unsure or len(row.former_repeats) >= MOST_LATER_LOOKS:
            break
        repeats = next_look(row.repeats)
        common.note(f"{unsure} comparisons are open after {row.repeats} repeats: measuring {repeats}")
        store.extend(number, plan_repeats(row.repeats, repeats).cells, repeats)
    if unsure and not outcome.errors:
        common.warn(f"{unsure} comparisons are open after {row.repeats} repeats: begin a new campaign with more")
    first_repeats = row.former_repeats[0] if row.former_repeats else row.repeats
    added_plan = plan_repeats(first_repeats, row.repeats)
    plan = replace(first_plan, cells=[*runner.adapt_plan(first_plan).cells, *added_plan.cells])
    return plan, replace(outcome, results=[of_run(store, run) for run in runs])


@contextmanager
def _show_progress(runner: "Runner", plan: "ExperimentPlan") -> "Iterator[Callable[[int], None]]":
    """Show the progress of a campaign; yield the function to call with the number of cells that have ended.

    Of a measurement, the display shows each cell as it runs: the runner reports to it through `runner.progress`.
    """
    if RUNNERS[plan.runner].predicts:
        with common.progress(f"running on {plan.runner}", len(plan.cells), unit="cells") as advance:
            yield advance
        return
    from blklab.campaigns import live

    console = common.notes()
    with ExitStack() as stack:
        campaign = stack.enter_context(live.show_campaign(console, plan))
        if not console.is_terminal:
            stack.enter_context(common.at_intervals(lambda: "; ".join(campaign.lines()[:2])))
        runner.progress = campaign.update
        yield campaign.set_done


def _parse_columns(columns: str | None) -> list[str]:
    """Return the metrics of --columns. Raises UsageError."""
    from blklab.compare.metrics import metric_name

    return [metric_name(name) for name in columns.split(",")] if columns else []


def _print(
    plan: "ExperimentPlan",
    results: "list[RunResult]",
    *,
    explain: bool,
    per_job: bool,
    as_json: bool,
    metrics: "Sequence[str]" = (),
) -> None:
    from blklab.campaigns import results as report
    from blklab.campaigns import runs
    from blklab.compare import report as comparison
    from blklab.compare.reproduction import judge
    from blklab.render import terminal

    cells = {cell.number: cell for cell in plan.cells}
    explanations: list[list[str]] = [[] for _ in results]
    if explain and (load_explainer := RUNNERS[plan.runner].explain):
        explain_cell = load_explainer()
        explanations = [explain_cell(cells[result.number].document, result.outcome) for result in results]
    # Predictions are judged by the figures that the file has in [[measured]].
    judgements = []
    if RUNNERS[plan.runner].predicts and plan.measured:
        judgements = judge(plan, {result.number: result.outcome for result in results})
    judgements_by_cell = by_key((row.cell.number, row.as_dict()) for row in judgements)
    documents = report.as_dicts(results)
    for document, sentences in zip(documents, explanations, strict=True):
        if explain:
            document["explanation"] = sentences
        if document["number"] in judgements_by_cell:
            document["judged"] = judgements_by_cell[document["number"]]

    def draw(console: Console) -> None:
        report.print_results(console, plan, results, metrics)
        if per_job:
            terminal.draw_table(console, runs.jobs_table("#", [(result.number, result.outcome) for result in results]))
        if judgements:
            terminal.draw_table(console, *comparison.judgement_tables(plan, judgements))
            console.print()
            for line in comparison.judgement_lines(judgements):
                console.print(line)
        if explain:
            report.explanations(console, plan, results, explanations)

    common.emit(documents, as_json, draw)
