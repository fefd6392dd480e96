"""Options that the commands share."""

from pathlib import Path

import click

reference_option = click.option(
    "--reference",
    "directory",
    type=click.Path(path_type=Path),
    default=Path("reference"),
    show_default=True,
    metavar="DIR",
    help="Published tables: targets.toml, fio_runs.csv, fio_device_io.csv, randomio_runs.csv,"
    " cache_runs.csv; and the lab's experiments, lab/*.toml.",
)
"""Decorator: add `--reference`."""

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the accuracy report, in Markdown; docs/explanation/accuracy.md is made so.",
)
"""Decorator: add `--output`."""

check_option = click.option("--check", is_flag=True, help="Exit with status 1 if a row is outside its bound.")
"""Decorator: add `--check`."""
