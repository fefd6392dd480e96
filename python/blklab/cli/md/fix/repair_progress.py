"""Runs a repair and prints its steps, for `md fix bbl` and `md fix --resume`."""

from collections.abc import Callable
from contextlib import ExitStack

import click

from blklab.cli.common import fail_with, progress, warn
from blklab.errors import BlklabError
from blklab.md import journal_directory
from blklab.md.repair import journal
from blklab.md.repair.operations import MachineOps
from blklab.md.repair.perform import RebuildProgress, Repair
from blklab.md.repair.steps import Done, Step, Stop
from blklab.md.repair.task import RepairTask
from blklab.report.repair import describe_step
from blklab.system.roots import Roots
from blklab.text import printable


def run_repair(task: RepairTask, *, resume: bool = False, quiet: bool = False) -> Done | Stop:
    """Runs or resumes a repair, and prints each step to stdout, or to stderr if `quiet`. Raises BlklabError."""
    with _StepReporter(quiet) as reporter:
        repair = Repair(task, MachineOps(Roots()), reporter.report_step, reporter.report_progress)
        try:
            outcome = repair.run(resume=resume)
            reporter.report_remedy(outcome)
            return outcome
        except (KeyboardInterrupt, SystemExit):
            warn(
                f"{task.array}: interrupted between two steps; md finishes what it has begun; to"
                " do the remaining steps: blklab md fix --resume"
            )
            raise


def resume_repairs() -> None:
    """Continues all interrupted repairs. Raises BlklabError if one cannot be finished."""
    failures = []
    journals = journal_directory.find_journals(Roots())
    for path in journals:
        try:
            task = journal.read_journal(path)
            click.echo(f"{printable(task.array)}:")
            outcome = run_repair(task, resume=True)
            if isinstance(outcome, Stop):
                failures.append(f"{task.array}: {outcome.reason}")
        except BlklabError as error:
            failures.append(f"{error} [{path}]")
    if not journals:
        click.echo("no repair was interrupted")
    fail_with(failures)


class _StepReporter:
    """Prints each step when it begins and, on a terminal, the progress of rebuilds."""

    def __init__(self, quiet: bool) -> None:
        self._err = quiet
        self._bars = ExitStack()
        self._advance: Callable[[int], None] | None = None

    def __enter__(self) -> "_StepReporter":
        return self

    def __exit__(self, *_error: object) -> None:
        self._bars.close()

    def report_step(self, step: Step, command: str) -> None:
        self._bars.close()
        self._advance = None
        click.echo(describe_step(step), err=self._err)
        if command:
            click.echo(f"    {printable(command)}", err=self._err)

    def report_remedy(self, outcome: Done | Stop) -> None:
        for line in getattr(outcome, "remedy", ()):
            click.echo(f"    {printable(line)}", err=self._err)

    def report_progress(self, now: RebuildProgress) -> None:
        if now.done is None or now.total is None:
            return
        if self._advance is None:
            self._advance = self._bars.enter_context(
                progress("rebuilding" if now.action == "recover" else now.action, now.total)
            )
        self._advance(now.done)
