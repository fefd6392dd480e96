"""The runner `lab`: cells measured on a real kernel in a QEMU guest."""

from functools import partial
from pathlib import Path

import click

from blklab.runners.kind import RunnerKind, RunnerOption, imported

_option = partial(RunnerOption, elsewhere="other runners boot no guest")

accel_option = _option(
    "--accel",
    "In the lab: accelerator of the guest; auto is KVM if it works, otherwise emulation (tcg). [BLKLAB_ACCEL]",
    type=click.Choice(["auto", "kvm", "tcg"]),
)
kernel_option = _option(
    "--kernel",
    "In the lab: your own kernel, instead of Debian's.",
    metavar="VMLINUZ",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
modules_option = _option(
    "--modules",
    "In the lab: directory with the modules of that kernel, lib/modules/VERSION.",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
)

KIND = RunnerKind(
    name="lab",
    summary="real md and fio on a real kernel, in a virtual machine",
    did="measured in the lab",
    make=imported("blklab.runners.lab.runner:make"),
    form=imported("blklab.spec.lab_cell:FORM"),
    descriptions=imported("blklab.runners.lab.descriptions"),
    options=(
        accel_option,
        kernel_option,
        modules_option,
        _option(
            "--trace",
            "In the lab: record the events of these devices and stacks with blktrace; 'all' for all of them.",
            metavar="NAME,...",
        ),
        _option(
            "--trace-to",
            "In the lab: directory for the traces, with a directory for each cell.  [default: traces]",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
        ),
    ),
)
