"""`blklab md fix bbl`: removes bad-block lists from a running array."""

import sys

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option, results
from blklab.errors import BlklabError, UsageError
from blklab.system.roots import Roots


@click.command()
@click.argument("array", required=False)
@click.option("--plan", "only_plan", is_flag=True, help="Print the plan and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--recipe",
    type=click.Choice(["offline", "installer"]),
    help="Print how to remove lists from a stopped array (offline), or how to make arrays without lists (installer).",
)
@json_option
def bbl(*, array: str | None, only_plan: bool, yes: bool, recipe: str | None, as_json: bool) -> None:
    """Remove the bad-block lists of ARRAY (/dev/md0) while it is in use, one member at a time.

    blklab fails each member, removes it and re-adds it without its list. It waits until the member is in sync before it
    continues with the next. It first adds a write-intent bitmap if there is none, and removes it at the end. It does
    not remove lists that have entries, and explains what you can do.

    \b
    Examples:
      blklab md fix bbl /dev/md0 --plan
      blklab md fix bbl /dev/md0
      blklab md fix bbl /dev/md0 --recipe offline
      blklab md fix --resume

    \b
    Exit status: 0 no member has a list (with --plan: the plan is possible), 1 some or all members
    still have a list.
    """
    from blklab.cli.md.fix.repair_progress import run_repair
    from blklab.md import recipes
    from blklab.md.repair.plan import find_array, make_plan
    from blklab.md.repair.steps import Done
    from blklab.report import repair as report

    if recipe == "installer":
        report.show_recipe(results(), recipes.installer_recipe())
        return
    if recipe == "offline":
        stopped_array = find_array(array, Roots()) if array else None
        report.show_recipe(results(), recipes.offline_recipe(stopped_array))
        return
    if array is None:
        raise UsageError("expected an array such as /dev/md0; `blklab md audit` lists them")
    plan = make_plan(array, Roots())
    if only_plan or plan.refused or plan.nothing_to_do:
        emit(report.as_dict(plan), as_json, lambda console: report.show(console, plan))
        if plan.refused:
            raise Exit(1)
        return
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError(
            f"{plan.array.path}: cannot ask for confirmation without a terminal: use --yes to"
            " repair, or --plan to see the plan"
        )
    if not as_json:
        report.show(results(), plan)
        click.echo()
    if not yes:
        click.confirm("Carry out this plan?", abort=True, err=True)
        if make_plan(array, Roots()).as_dict() != plan.as_dict():
            raise BlklabError(
                f"{plan.array.path}: the array has changed since the plan was printed: run the"
                " command again and check the new plan"
            )
    run_repair(plan.task, quiet=as_json)
    emit(
        report.as_dict(plan, Done()),
        as_json,
        lambda console: console.print(f"{plan.array.path}: no member has a bad-block list"),
    )
