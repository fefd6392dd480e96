"""`blklab devices list` and `blklab devices show`: the library."""

import click

from blklab.cli.common import emit, json_option


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@json_option
def list_(words: tuple[str, ...], *, as_json: bool) -> None:
    """List the device models of the library; with words, those that contain all of them.

    Use a name as `model = "NAME"` of a device in an experiment. Your own models are TOML files in
    ~/.config/blklab/devices, such as `blklab calibrate` writes.

    \b
    Examples:
      blklab devices list
      blklab devices list nvme samsung
    """
    from blklab.report import device_models as report
    from blklab.spec.stock_models import library

    wanted = [word.lower() for word in words]
    models = [
        model
        for model in library()
        if all(word in f"{model.name} {model.device_class} {model.product} {model.kind}".lower() for word in wanted)
    ]
    emit([report.as_dict(model) for model in models], as_json, lambda console: report.draw_models(console, models))


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
    from blklab.runners.sim.runner import rated_figures
    from blklab.spec.stock_models import library_model

    model = library_model(name)
    rated = rated_figures([model])[name]
    emit(report.as_dict(model, rated), as_json, lambda console: report.print_model(console, model, rated))
