"""`blklab md fix bbl`: takes bad-block lists away from a running array."""

import sys

import click
from click.exceptions import Exit

from blklab.cli.common import emit, json_option, results


@click.command()
@click.argument("array", required=False)
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--recipe",
    type=click.Choice(["offline", "installer"]),
    help="Print how it is done with the array stopped, or avoided from the start.",
)
@json_option
def bbl(
    *, array: str | None, only_plan: bool, yes: bool, recipe: str | None, as_json: bool
) -> None:
    """Take the bad-block lists of ARRAY (/dev/md0) away while it is used, one member at a time.

    Each member is failed, removed and re-added without its list; the next one's turn comes when it
    is in sync again. A bitmap is added first if there is none, and removed again after. Lists with
    entries are explained and not forced.

    \b
    Examples:
      blklab md fix bbl /dev/md0 --plan
      blklab md fix bbl /dev/md0
      blklab md fix bbl /dev/md0 --recipe offline
      blklab md fix --resume

    \b
    Exit status: 0 no member has a list (with --plan: it can be done), 1 not done, or not all.
    """
    from blklab.cli.md.fix.repair_progress import carried_out
    from blklab.errors import BlklabError, UsageError
    from blklab.md.repair import plan as plans
    from blklab.md.repair import recipes
    from blklab.md.repair.steps import Stop
    from blklab.report import repair as report
    from blklab.system.roots import Roots

    if recipe == "installer":
        report.recipe(results(), recipes.INSTALLER)
        return
    if recipe == "offline":
        array_found = plans.array_of(array, Roots()) if array else None
        report.recipe(results(), recipes.offline(array_found))
        return
    if array is None:
        raise UsageError("which array? blklab md audit lists them")
    plan = plans.plan(array, Roots())
    explained = [
        recipes.entries(plan.array, member, adding_fails=plan.adding_fails)
        for member in plan.with_entries
    ]
    if only_plan or plan.refused or plan.nothing_to_do:
        emit(report.as_dict(plan), as_json, lambda console: report.show(console, plan, explained))
        if plan.refused:
            raise Exit(1)
        return
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError(f"{plan.array.path}: nobody can be asked: say --yes, or --plan")
    if not as_json:
        report.show(results(), plan, explained)
        click.echo()
    if not yes:
        click.confirm("Carry it out?", abort=True, err=True)
        if plans.plan(array, Roots()).as_dict() != plan.as_dict():
            raise BlklabError(f"{plan.array.path}: it has changed: look at the plan again")
    outcome = carried_out(plan.task, quietly=as_json)
    if isinstance(outcome, Stop):
        raise BlklabError(f"{plan.array.path}: {outcome.reason}")
    emit(
        report.as_dict(plan, outcome),
        as_json,
        lambda console: console.print(f"{plan.array.path}: no member has a bad-block list"),
    )
