"""`blklab devices show`: one model."""

import click

from blklab.cli.common import emit, json_option
from blklab.errors import UsageError


@click.command()
@click.argument("name")
@json_option
def show(name: str, *, as_json: bool) -> None:
    """Show the model NAME: product, class, source, and what its maker states next to the simulation.

    \b
    Example:
      blklab devices show pm983
    """
    from blklab.report import device_models as report
    from blklab.runners.sim.rated import rated_figures
    from blklab.spec.stock_models import library_model

    try:
        model = library_model(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    rated = rated_figures([model])[name]
    emit(report.as_dict(model, rated), as_json, lambda console: report.print_model(console, model, rated))
