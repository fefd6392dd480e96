"""`blklab lab build`: build or rebuild the image of a guest."""

from pathlib import Path

import click

from blklab.cli.common import emit, json_option, note
from blklab.runners.lab import kernel_option, modules_option


@click.command()
@click.argument("generation", default="6.1")
@kernel_option
@modules_option
@click.option("--rebuild", is_flag=True, help="Build again with the newest packages.")
@json_option
def build(*, generation: str, kernel: Path | None, modules: Path | None, rebuild: bool, as_json: bool) -> None:
    """Build the image of a guest with the kernel GENERATION, such as 6.1 or 6.1.0-49.

    An existing image is kept; --rebuild builds it again.

    \b
    Exit status: 0 the image exists; 2 no such kernel; 3 packages cannot be downloaded.
    """
    from blklab.runners.lab.image.build import image
    from blklab.runners.lab.image.kernels import own_kernel

    made = image(own_kernel(kernel, modules) or generation, note=note, rebuild=rebuild)
    document = {
        "kernel": made.version,
        "digest": made.digest,
        "vmlinuz": str(made.kernel),
        "initrd": str(made.initrd),
        "packages": dict(made.packages),
    }
    emit(document, as_json, lambda console: console.print(f"{made.version}: {made.initrd.parent}", highlight=False))
