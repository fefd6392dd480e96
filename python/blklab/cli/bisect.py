"""`blklab bisect`: find the kernel or the commit that made something slower or faster."""

from dataclasses import dataclass
from pathlib import Path

import click

from blklab import output
from blklab.cli.common import (
    collect_options,
    csv_option,
    emit,
    fail_with,
    json_option,
    parse_share,
    repeatable,
    store_option,
    tell,
    warn,
)
from blklab.cli.run import changes, only_cells
from blklab.errors import UsageError
from blklab.runners.registry import accel_option


@dataclass(frozen=True)
class BisectArguments:
    """What `blklab bisect` is asked."""

    experiment: Path
    runner: str  # `lab` or `sim`
    good: str  # A kernel or a commit
    bad: str  # Empty with a patch
    patch: Path | None  # The bad end is the good one with this patch
    conditions: tuple[str, ...]  # What the problem is: `iops < 0.9*baseline`
    tree: Path | None  # A git repository
    commands: tuple[str, ...]  # Build a kernel
    modules: tuple[str, ...]  # Are built instead of a kernel
    sure: float  # How certain the result must be
    most: int  # Runs of a commit
    only: dict[str, str]  # The pattern of each label
    settings: tuple[str, ...]  # `iodepth=8`
    accel: str | None  # The accelerator of the guest
    log: Path | None  # File for git's log
    resume: bool
    store: str | None
    as_json: bool


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--on", "runner", type=click.Choice(["lab", "sim"]), default="lab", help="The runner.")
@click.option("--good", required=True, metavar="KERNEL|COMMIT", help="The end without the problem: the baseline.")
@click.option("--bad", default="", metavar="KERNEL|COMMIT", help="The end with the problem.")
@click.option(
    "--patch",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="With --tree, instead of --bad: measures the good end with and without this patch.",
)
@repeatable(
    "--fail-if",
    "conditions",
    required=True,
    metavar="CONDITION",
    help="What the problem is: 'iops < 0.9*baseline', 'p99 > 5ms'.",
)
@click.option(
    "--tree",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="A git repository, whose commits are bisected: a kernel tree, or md's sources.",
)
@repeatable(
    "--build",
    "commands",
    metavar="COMMAND",
    help="With --tree: builds the kernel, such as 'make -j8'; may be repeated.",
)
@repeatable(
    "--module",
    "modules",
    metavar="NAME",
    help="With --tree: builds only this module, and loads it instead of the kernel's own: raid10, dm-cache ...",
)
@click.option(
    "--sure",
    callback=parse_share,
    default="99%",
    metavar="SHARE",
    help="How certain the result must be; it decides how often a commit is measured.",
)
@click.option(
    "--max-runs",
    "most",
    type=click.IntRange(2, 10000),
    default=50,
    metavar="N",
    help="Skip a commit that is still unclear after so many runs.",
)
@click.option("--only", metavar="LABEL=PATTERN,...", callback=only_cells, help="Run only these cells: stack=raid10.")
@repeatable("--set", "settings", metavar="KEY=VALUE", help="Change a key of the file: iodepth=8.")
@accel_option
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write git's log to FILE.")
@click.option("--resume", is_flag=True, help="Continue an interrupted bisection.")
@store_option
@json_option
@csv_option
@collect_options(BisectArguments)
def bisect(arguments: BisectArguments) -> None:
    """Find the kernel or the commit that made the cells of EXPERIMENT slower, or faster.

    Without --tree, the ends are kernels of Debian's packages, or with --on sim those of the
    simulator. With --tree they are commits: --module builds single modules for the kernel of the
    experiment, --build builds whole kernels. blklab works in a copy; the tree stays as it is. With --patch, the
    question is whether a patch makes the cells slower, or faster.

    Each step runs the cells in a fresh guest until a sequential test decides. A commit is bad if
    the condition is true in one of the cells where it is true for the bad end. Commits that cannot
    be built, do not boot or panic are skipped. If the good end is newer than the bad one, blklab
    finds the commit that fixed the problem. At the end, both sides are measured again.

    All runs are in one campaign of the store. After an interruption, --resume continues.

    \b
    Examples:
      blklab bisect raid10.toml --good 6.1.0-47 --bad 6.1.0-56 --fail-if 'iops < 0.9*baseline'
      blklab bisect raid10.toml --tree linux --module raid10 --good v6.1 --bad HEAD \\
          --fail-if 'iops < 0.9*baseline' --log raid10.log
      blklab bisect raid10.toml --tree linux --good v6.1 --bad v6.2 --fail-if 'p99 > 8ms' \\
          --build 'make olddefconfig' --build 'make -j8 bzImage modules' \\
          --build 'make modules_install'
      blklab bisect raid10.toml --tree linux --module raid10 --good v6.1 --patch locks.patch \\
          --fail-if 'iops > 1.1*baseline'
      blklab bisect unbalanced.toml --on sim --good 6.1 --bad 4.19 --fail-if 'iops < 0.9*baseline'

    \b
    Exit status: 0 the commit is found; 1 it is not, or the new runs of both sides do not confirm it;
    2 the request is not valid, or the condition does not tell both ends apart;
    3 a program is missing, or the store failed.
    """
    from blklab.bisect import report
    from blklab.bisect.request import BisectionRequest, carry_out
    from blklab.bisect.search import BisectionRule
    from blklab.compare.fail_if import parse_condition
    from blklab.store.campaigns import Store

    if arguments.log is not None:
        output.check(arguments.log)
        if str(arguments.log) in output.STDOUT:
            raise UsageError("--log: expected a file: stdout has the result")
    conditions = [parse_condition(text) for text in arguments.conditions]
    request = BisectionRequest(
        experiment=arguments.experiment,
        runner=arguments.runner,
        good=arguments.good,
        bad=arguments.bad,
        patch=arguments.patch,
        rule=BisectionRule(conditions, arguments.sure, arguments.most),
        tree=arguments.tree,
        commands=arguments.commands,
        modules=arguments.modules,
        changes=changes(arguments.settings),
        only=arguments.only,
        accelerator=arguments.accel,
    )
    store = Store(arguments.store, warn=warn)
    try:
        bisection = carry_out(request, store, resume=arguments.resume, note=tell, log=arguments.log)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("finished runs are stored; repeat the command with --resume to continue") from None
    emit(bisection.as_dict(), arguments.as_json, lambda console: report.print_bisection(console, bisection))
    if bisection.campaign is not None:
        tell(f"stored as campaign {bisection.campaign}: blklab report {bisection.campaign}")
    if not bisection.confirmed:
        fail_with([bisection.summary])
