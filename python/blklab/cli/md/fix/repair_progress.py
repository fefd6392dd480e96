"""Runs a repair and prints its steps, for `md fix bbl` and `md fix --resume`."""

from collections.abc import Callable
from contextlib import ExitStack

import click
from click.exceptions import Exit

from blklab.cli.common import progress, warn
from blklab.cli.exit_status import report
from blklab.errors import BlklabError
from blklab.md import probing
from blklab.md.recipes import command
from blklab.md.repair import journal
from blklab.md.repair.array_state import read_array_state
from blklab.md.repair.operations import MachineOps
from blklab.md.repair.perform import RebuildProgress, Repair
from blklab.md.repair.steps import Step, Stop
from blklab.md.repair.task import RepairTask
from blklab.report.repair import describe_situation, describe_step
from blklab.system.roots import Roots
from blklab.text import printable


def run_repair(task: RepairTask, *, resume: bool = False, quiet: bool = False) -> None:
    """Runs or resumes a repair, and prints each step to stdout, or to stderr if `quiet`.

    Raises BlklabError if it is not done, with the state of the array and the next command.
    """
    with ExitStack() as bars:
        reporter = _StepReporter(quiet, bars)
        repair = Repair(task, MachineOps(Roots()), reporter.report_step, reporter.report_progress)
        try:
            outcome = repair.run(resume=resume)
            if isinstance(outcome, Stop):
                for line in outcome.remedy:
                    click.echo(f"    {printable(line)}", err=quiet)
                raise StoppedRepair(f"{task.array}: {outcome.reason}", outcome.remedy)
        except (KeyboardInterrupt, SystemExit):
            warn(
                f"{task.array}: interrupted between two steps; md finishes what it has begun; to"
                f" do the remaining steps: {command('resume')}"
            )
            raise
        except BlklabError as error:
            error.details = _describe_now(repair.task, getattr(error, "remedy", ()))
            raise


class StoppedRepair(BlklabError):
    """A repair stopped for a reason that blklab cannot remove; `remedy` has commands for the user."""

    def __init__(self, message: str, remedy: tuple[str, ...]) -> None:
        super().__init__(message)
        self.remedy = remedy


def _describe_now(task: RepairTask, remedy: tuple[str, ...]) -> tuple[str, str, str]:
    roots = Roots()
    try:
        state = read_array_state(task, roots)
    except BlklabError:
        state = None
    has_journal = probing.journal_path(task.uuid, roots).exists()
    return describe_situation(task, state, remedy, has_journal=has_journal)


def resume_repairs() -> None:
    """Continues all interrupted repairs. Prints the error of each that cannot be finished, and raises Exit."""
    status = 0
    journals = probing.find_journals(Roots())
    for path in journals:
        try:
            task = journal.read_journal(path)
            click.echo(f"{printable(task.array)}:")
            run_repair(task, resume=True)
        except BlklabError as error:
            status = report(error)
    if not journals:
        click.echo("no repair was interrupted")
    if status:
        raise Exit(status)


class _StepReporter:
    """Prints each step when it begins and, on a terminal, the progress of rebuilds."""

    def __init__(self, quiet: bool, bars: ExitStack) -> None:
        self._err = quiet
        self._bars = bars
        self._advance: Callable[[int], None] | None = None

    def report_step(self, step: Step, command: str) -> None:
        self._bars.close()
        self._advance = None
        click.echo(describe_step(step), err=self._err)
        if command:
            click.echo(f"    {printable(command)}", err=self._err)

    def report_progress(self, now: RebuildProgress) -> None:
        if now.done is None or now.total is None:
            return
        if self._advance is None:
            self._advance = self._bars.enter_context(
                progress("rebuilding" if now.action == "recover" else now.action, now.total)
            )
        self._advance(now.done)
