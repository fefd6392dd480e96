"""`blklab run`: run the cells of an experiment on a runner."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli import common
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.label_patterns import label_patterns
from blklab.report.console import Console
from blklab.runners.registry import RUNNERS, RunnerKind, RunnerOption

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from blklab.runners.base import Runner, RunResult
    from blklab.runners.campaign import CampaignOutcome
    from blklab.spec.cells import ExperimentPlan
    from blklab.spec.overrides import Override
    from blklab.store.campaigns import Store, StoredCampaign


def only_cells(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """Parse `stack=raid1,workload=rand*`."""
    try:
        return {} if text is None else label_patterns(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@cache  # Click looks for the same option when it parses
def _on(*runners: str) -> click.Option:
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
        experiment, *others = super().get_params(ctx)
        at = next(at for at, parameter in enumerate(others) if parameter.name == "resume")
        return [experiment, _on(*RUNNERS), *others[:at], *_options(), *others[at:]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; --help acts after --on."""
        if "--" not in args:
            others = [word for word in args if word not in ctx.help_option_names]
            args = others + [word for word in args if word in ctx.help_option_names]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those that a runner refuses only if no --on names it."""
        shown = self.get_params(ctx)[1:]
        if kind := RUNNERS.get(ctx.params.get("runner", "")):
            refused = {option.name for option in _options()} - {option.name for option in kind.options}
            if kind.predicts:
                refused.add("margin")
            if kind.name not in {"host", "fleet"}:
                refused.add("targets")
            if not kind.explain:
                refused.add("explain")
            shown = [option for option in shown if option.name not in refused]
        with formatter.section("Options"):
            records = [option.get_help_record(ctx) for option in shown]
            formatter.write_dl([record for record in records if record])


def _options() -> "Collection[RunnerOption]":
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
    "--target",
    "targets",
    multiple=True,
    metavar="[STACK=]PATH",
    help="With --on host: the directory or device of a stack; replaces its entry in [targets].",
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
        from blklab.spec.schema import text

        click.echo(text(), nl=False)
        return
    experiments = arguments.experiments
    interleave = arguments.interleave
    only = dict(arguments.only)
    if not experiments:
        raise click.UsageError("Missing argument 'EXPERIMENT'.")
    if (len(experiments) > 1) != interleave:
        raise UsageError("several experiments need --interleave, which measures them in turns, and it needs several")
    from blklab.spec import cells, load
    from blklab.spec.load import add_targets

    kind = RUNNERS[arguments.runner]
    pattern = only.pop("experiment", "*") if interleave else "*"
    sources = [
        add_targets(load.read(each), arguments.targets) for each in experiments if fnmatchcase(each.stem, pattern)
    ]
    if not sources:
        names = ", ".join(each.stem for each in experiments)
        raise UsageError(f"--only experiment={pattern}: no such experiment; there are {names}")

    def planned(more: "Sequence[Override]" = ()) -> "ExperimentPlan":
        changed = [*changes(arguments.settings), *more]
        plans = [
            cells.plan(each, changes=changed, seed=arguments.seed, only=only, form=kind.form()) for each in sources
        ]
        return cells.interleaved(plans) if interleave else plans[0]

    plan = planned()
    if arguments.margin:
        _check_until_sure(kind, plan, stored=not arguments.no_store)
    if arguments.explain and not kind.explain:
        able = [runner_kind.name for runner_kind in RUNNERS.values() if runner_kind.explain]
        raise _refused("--explain", "measurements have no explanation", able)
    runner = _runner(kind, options)
    plan = runner.planned(plan)
    common.warn_each(plan.notes)
    if arguments.dry_run:
        from blklab.report.results import print_cells

        runner.check(plan)
        common.emit(plan.as_dict(), arguments.as_json, lambda console: print_cells(console, plan))
        return
    with runner.session():
        runner.check(plan)
        outcome = measure_campaign(runner, plan, arguments.store, keep=not arguments.no_store, resume=arguments.resume)
        if arguments.margin and outcome.campaign is not None and not outcome.failed:
            from blklab.store.campaigns import Store

            store = Store(arguments.store, warn=common.warn)
            plan, outcome = until_sure(runner, planned, store, outcome, arguments.margin)
    _print(plan, outcome.results, explain=arguments.explain, per_job=arguments.per_job, as_json=arguments.as_json)
    common.fail_with(outcome.failed)


def predict(experiment: Path, store: str | None, *, as_json: bool) -> None:
    """Simulate the cells of an experiment file, as `blklab run` does, and print the results."""
    from blklab.spec import cells

    kind = RUNNERS["sim"]
    runner = _runner(kind, {option.name: None for option in _options()})
    plan = runner.planned(cells.plan(experiment, form=kind.form()))
    common.warn_each(plan.notes)
    runner.check(plan)
    outcome = measure_campaign(runner, plan, store, keep=True, resume=False)
    _print(plan, outcome.results, explain=False, per_job=False, as_json=as_json)
    common.fail_with(outcome.failed)


def _check_until_sure(kind: "RunnerKind", plan: "ExperimentPlan", *, stored: bool) -> None:
    """Raise UsageError if there is nothing to be sure of."""
    if kind.predicts or not stored:
        reason = "repeats do not make predictions surer: measure with --on" if kind.predicts else "it needs the store"
        raise UsageError(f"--until-sure: {reason}")
    if set(plan.varied) <= {"workload", "repeat"}:
        raise UsageError("--until-sure: the cells differ only in their workloads: nothing to compare")


def changes(settings: tuple[str, ...]) -> "list[Override]":
    """Parse the values of `--set`. Raises UsageError."""
    from blklab.spec.overrides import parse_set

    try:
        return [parse_set(text) for text in settings]
    except ValueError as error:
        raise UsageError(f"--set {error}") from None


def _runner(kind: "RunnerKind", options: "Mapping[str, object]") -> "Runner":
    """Create a runner. Raises UsageError for options of other runners."""
    for option in _options():
        if option not in kind.options and options[option.name]:
            whose = [runner_kind.name for runner_kind in RUNNERS.values() if option in runner_kind.options]
            raise _refused(option.opts[0], option.elsewhere, whose)
    own = {option.name: options[option.name] for option in kind.options}
    return kind.make()(**own, note=common.note, warn=common.warn)


def _refused(flag: str, reason: str, whose: list[str]) -> Exception:
    return UsageError(f"{flag}: {reason}: only --on {' or '.join(whose)} takes it")


def measure_campaign(
    runner: "Runner", plan: "ExperimentPlan", where: str | None, *, keep: bool, resume: bool
) -> "CampaignOutcome":
    """Run the cells that are not done yet."""
    from blklab.store.campaigns import Store

    outcome = _measure(runner, plan, Store(where, warn=common.warn) if keep else None, resume=resume)
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
    from blklab.runners.campaign import carry_out

    try:
        with _watched(runner, plan) as ended:
            return carry_out(runner, plan, store, resume=resume, campaign=campaign, ended=ended, note=common.warn)
    except KeyboardInterrupt:
        if store is None:
            raise
        raise KeyboardInterrupt(
            "finished cells are stored; repeat the command with --resume to measure the others"
        ) from None


def until_sure(
    runner: "Runner",
    planned: "Callable[..., ExperimentPlan]",
    store: "Store",
    outcome: "CampaignOutcome",
    margin: float,
) -> "tuple[ExperimentPlan, CampaignOutcome]":
    """Measure more repeats of a campaign until each of its comparisons is decided; return all cells and results."""
    from blklab.analysis.decision import MOST_LOOKS, look_share, next_look
    from blklab.analysis.tune import undecided
    from blklab.runners.campaign import of_run, with_repeats
    from blklab.spec.overrides import Override
    from blklab.store import query

    number = outcome.campaign or 0
    first = planned()

    def between(former: int, repeats: int) -> "ExperimentPlan":
        all_repeats = planned([Override("repeats", repeats, "--until-sure")])
        return runner.planned(with_repeats(all_repeats, former, first))

    while True:
        row = query.campaign(store, number)
        if row.former_repeats:  # of this process, or of one that was interrupted
            plan = between(row.former_repeats[-1], row.repeats)
            outcome = replace(outcome, failed=_measure(runner, plan, store, campaign=store.continued(number)).failed)
        runs = [run for run in query.runs_of(store, number) if run.outcome is not None]
        look = look_share(query.earlier_looks(store, [query.Selection("", row, runs)]))
        unsure = undecided(row, runs, partial(query.points, store), margin, look)
        if outcome.failed or not unsure or len(row.former_repeats) >= MOST_LOOKS:
            break
        repeats = next_look(row.repeats)
        common.note(f"{unsure} comparisons are open after {row.repeats} repeats: measuring {repeats}")
        store.extend(number, between(row.repeats, repeats).cells, repeats)
    if unsure and not outcome.failed:
        common.warn(f"{unsure} comparisons are open after {row.repeats} repeats: begin a new campaign with more")
    first_repeats = row.former_repeats[0] if row.former_repeats else row.repeats
    more = between(first_repeats, row.repeats)
    plan = replace(first, cells=[*runner.planned(first).cells, *more.cells])
    return plan, replace(outcome, results=[of_run(store, run) for run in runs])


@contextmanager
def _watched(runner: "Runner", plan: "ExperimentPlan") -> "Iterator[Callable[[int], None]]":
    """Show the progress of a campaign; yield the function that takes the number of cells done."""
    if RUNNERS[plan.runner].predicts:
        with common.progress(f"running on {plan.runner}", len(plan.cells), unit="cells") as advance:
            yield advance
        return
    from blklab.report.live import shown

    console = common.notes()
    with ExitStack() as stack:
        campaign = stack.enter_context(shown(console, plan))
        if not console.is_terminal:
            stack.enter_context(common.each_minute(lambda: "; ".join(campaign.lines()[:2])))
        runner.progress = campaign.update
        yield campaign.ended


def _print(plan: "ExperimentPlan", results: "list[RunResult]", *, explain: bool, per_job: bool, as_json: bool) -> None:
    from blklab.analysis.reproduction import judge
    from blklab.report import comparison, runs, terminal
    from blklab.report import results as report

    cells = {cell.number: cell for cell in plan.cells}
    explanations: list[list[str]] = [[] for _ in results]
    if explain and (load_explainer := RUNNERS[plan.runner].explain):
        explain_cell = load_explainer()
        explanations = [explain_cell(cells[result.number].document, result.outcome) for result in results]
    predicts = RUNNERS[plan.runner].predicts
    judged = judge(plan, {result.number: result.outcome for result in results}) if predicts and plan.measured else []
    by_cell = by_key((row.cell.number, row.as_dict()) for row in judged)
    documents = report.as_dicts(results)
    for document, sentences in zip(documents, explanations, strict=True):
        if explain:
            document["explanation"] = sentences
        if document["number"] in by_cell:
            document["judged"] = by_cell[document["number"]]

    def draw(console: Console) -> None:
        report.print_results(console, plan, results)
        if per_job:
            terminal.draw_table(console, runs.jobs_table("#", [(result.number, result.outcome) for result in results]))
        if judged:
            terminal.draw_table(console, *comparison.judged_tables(plan, judged))
            console.print()
            for line in comparison.judged_lines(judged):
                console.print(line)
        if explain:
            report.explanations(console, plan, results, explanations)

    common.emit(documents, as_json, draw)
