"""`python -m tests.runners.lab.moments ARGUMENTS…`: blklab, which says on stderr where it is."""

import sys
from collections.abc import Callable
from typing import Any

from blklab.cli import main
from blklab.runners.fio.process import FioProgress
from blklab.runners.lab import cache_fill, fio_in_guest, measurement, runner
from blklab.runners.lab.machine import boot
from blklab.runners.lab.stacks import build


def report_moment(moment: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        say(moment)
        return function(*arguments, **named)

    return called


def say(moment: str) -> None:
    sys.stderr.write(f"at: {moment}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    setattr(runner, "boot", report_moment("boot", boot.boot))  # noqa: B010
    setattr(measurement, "build", report_moment("build", build.build))  # noqa: B010
    playing = fio_in_guest.play

    def play(machine: Any, document: Any, target: Any, progress: Any, **named: Any) -> Any:
        def report(live: FioProgress) -> None:
            say(live.phase)
            progress(live)

        if "phase" in named:  # which may be over before fio says anything
            say(named["phase"])
        return playing(machine, document, target, report, **named)

    setattr(cache_fill, "play", play)  # noqa: B010
    setattr(measurement, "play", play)  # noqa: B010
    main(sys.argv[1:])
