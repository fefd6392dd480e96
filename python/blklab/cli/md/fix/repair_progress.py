"""What `md fix bbl` and `md fix --resume` share: a repair that is told about as it goes."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from blklab.cli.common import fail_with, progress, warn

if TYPE_CHECKING:
    from blklab.md.repair.perform import RebuildProgress
    from blklab.md.repair.steps import Done, Step, Stop
    from blklab.md.repair.task import RepairTask


def carried_out(task: "RepairTask", *, again: bool = False, quietly: bool = False) -> "Done | Stop":
    """Carries a repair out, or goes on with it; each step is told on stdout, or on stderr.

    Raises BlklabError.
    """
    from blklab.md.repair.operations import MachineOps
    from blklab.md.repair.perform import Repair
    from blklab.system.roots import Roots

    with _StepReporter(quietly) as telling:
        try:
            return Repair(task, MachineOps(Roots()), telling.step, telling.progress).run(
                again=again
            )
        except (KeyboardInterrupt, SystemExit):
            warn(
                f"{task.array}: interrupted between two steps; what md has begun it ends by itself,"
                " and blklab md fix --resume does the rest"
            )
            raise


def resumed() -> None:
    """Goes on with every repair that was interrupted. Raises BlklabError if one cannot end."""
    from blklab.errors import BlklabError
    from blklab.md import journal_directory
    from blklab.md.repair import journal
    from blklab.md.repair.steps import Stop
    from blklab.system.roots import Roots
    from blklab.text import printable

    failed = []
    left = journal_directory.left(Roots())
    for path in left:
        try:
            task = journal.read(path)
            click.echo(f"{printable(task.array)}:")
            outcome = carried_out(task, again=True)
            if isinstance(outcome, Stop):
                failed.append(f"{task.array}: {outcome.reason}")
        except BlklabError as error:
            failed.append(f"{error} [{path}]")
    if not left:
        click.echo("nothing was interrupted")
    fail_with(failed)


class _StepReporter:
    """Says each step when it begins, and shows how far rebuilds are on a terminal."""

    def __init__(self, quietly: bool) -> None:
        self._err = quietly
        self._bars = ExitStack()
        self._advance: Callable[[int], None] | None = None

    def __enter__(self) -> "_StepReporter":
        return self

    def __exit__(self, *_error: object) -> None:
        self._bars.close()

    def step(self, step: "Step", command: str) -> None:
        from blklab.report.repair import sentence
        from blklab.text import printable

        self._bars.close()
        self._advance = None
        click.echo(f"{sentence(step)}", err=self._err)
        if command:
            click.echo(f"    {printable(command)}", err=self._err)

    def progress(self, now: "RebuildProgress") -> None:
        if now.done is None or now.total is None:
            return
        if self._advance is None:
            self._advance = self._bars.enter_context(progress("rebuilding", now.total))
        self._advance(now.done)
