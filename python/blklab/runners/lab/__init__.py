"""The runner `lab`: cells measured on a real kernel in a QEMU guest."""

from pathlib import Path
from typing import Final

import click

from blklab.runners.kind import RunnerKind, RunnerOption

NOT_BOOTED: Final = "other runners boot no guest"

ACCEL: Final = RunnerOption(
    "--accel",
    "Accelerator of the guest; auto is KVM if it works, otherwise emulation (tcg). [BLKLAB_ACCEL]",
    type=click.Choice(["auto", "kvm", "tcg"]),
    elsewhere=NOT_BOOTED,
)

KERNEL: Final = (
    RunnerOption(
        "--kernel",
        "Your own kernel, instead of Debian's.",
        metavar="VMLINUZ",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        elsewhere=NOT_BOOTED,
    ),
    RunnerOption(
        "--modules",
        "Directory with the modules of that kernel, lib/modules/VERSION.",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        elsewhere=NOT_BOOTED,
    ),
)

KIND: Final = RunnerKind(
    name="lab",
    summary="real md and fio on a real kernel, in a virtual machine",
    did="measured in the lab",
    make="blklab.runners.lab.runner:make",
    form="blklab.spec.lab_cell:FORM",
    words="blklab.runners.lab.descriptions:WORDS",
    where="In the lab",
    options=(
        ACCEL,
        *KERNEL,
        RunnerOption(
            "--trace",
            "Record the events of these devices and stacks with blktrace; 'all' for all of them.",
            metavar="NAME,...",
            elsewhere=NOT_BOOTED,
        ),
        RunnerOption(
            "--trace-to",
            "Directory for the traces, with a directory for each cell.  [default: traces]",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
            elsewhere=NOT_BOOTED,
        ),
    ),
)
