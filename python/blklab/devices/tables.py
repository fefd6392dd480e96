"""The library of device models, in the terminal and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from blklab.devices.identified_disks import IdentifiedDisk
from blklab.devices.stock_models import LibraryModel, RatedFigure
from blklab.render import formatting
from blklab.render.console import Console, style_text
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table
from blklab.text.printing import printable

RATED = {  # Figures that makers state
    "random_read_iops": "random reads/s, 4 KiB",
    "random_write_iops": "random writes/s, 4 KiB, new disk",
    "steady_random_write_iops": "random writes/s, 4 KiB, used disk",
    "read_bandwidth": "sequential reads",
    "write_bandwidth": "sequential writes",
    "average_seek_ms": "average seek, ms",
    "written_bytes": "bytes written in its life",
}


def draw_models(console: Console, models: Sequence[LibraryModel]) -> None:
    rows = []
    for model in models:
        cells = (model.name, model.device_class, _certainty(model), model.product)
        rows.append([printable(cell) or formatting.NONE for cell in cells])
    columns = [text_column("model"), text_column("class"), text_column("figures"), text_column("product")]
    draw_table(console, TextTable("Device models", columns, rows, spare=("class",)))
    if not models:
        console.print("No such model.")


def _certainty(model: LibraryModel) -> str:
    spread = f" ±{100 * model.spread:.0f} %" if model.spread else ""
    return printable(model.certainty or formatting.NONE) + spread + (", yours" if model.own else "")


def print_model(console: Console, model: LibraryModel, rated_figures: Sequence[RatedFigure]) -> None:
    """Prints what the library says about a model."""
    console.print(style_text(printable(model.product), "bold"))
    console.print(style_text(f"model = {model.name!r}".replace("'", '"'), "dim"))
    console.print(
        style_text(f"{printable(model.device_class) or 'no class'} · {_certainty(model)} · {printable(model.source)}")
    )
    if model.spread:
        console.print(f"A typical device: others of its class differ by about {100 * model.spread:.0f} % up and down.")
    console.print()
    draw_table(console, rated_table(model, rated_figures))


def rated_table(model: LibraryModel, rated_figures: Sequence[RatedFigure]) -> TextTable:
    """Returns what the maker states next to the simulation."""
    figures_by_name = {figure.name: figure for figure in rated_figures}
    rows = []
    for name, value in model.rated.items():
        draw = {
            "read_bandwidth": formatting.rate,
            "write_bandwidth": formatting.rate,
            "written_bytes": formatting.size,
        }.get(name, formatting.number)
        figure = figures_by_name.get(name)
        result_cells = [draw(figure.simulated), f"{100 * figure.error:+.1f} %"] if figure else [formatting.NONE] * 2
        rows.append([RATED.get(name, printable(name)), draw(value), *result_cells])
    return TextTable("Rated", [text_column("figure"), *number_columns("rated", "simulated", "error")], rows)


def draw_disks(console: Console, disks: Sequence[IdentifiedDisk]) -> None:
    """Prints disks with their models."""
    rows = [
        [
            disk.name or formatting.NONE,
            printable(disk.says) or formatting.NONE,
            formatting.size(disk.bytes),
            (printable(disk.model.name) if disk.model else formatting.NONE)
            + (f", capacity = {disk.capacity}" if disk.capacity else ""),
            disk.obstacle or disk.guess or "the library has this disk",
        ]
        for disk in disks
    ]
    columns = [
        text_column("disk"),
        text_column("says"),
        *number_columns("size"),
        text_column("model"),
        text_column("why"),
    ]
    draw_table(console, TextTable("Disks", columns, rows, spare=("size",)))
    if not disks:
        console.print("No disk found.")


def as_dict(model: LibraryModel, rated_figures: Sequence[RatedFigure] | None = None) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "devices"."""
    document = {("class" if key == "device_class" else key): value for key, value in asdict(model).items()}
    if rated_figures is not None:
        document["simulated"] = {figure.name: figure.simulated for figure in rated_figures}
    return document


def disks_as_dict(disks: Sequence[IdentifiedDisk]) -> list[dict[str, object]]:
    """Returns the JSON document of a host's disks."""
    return [
        {
            "disk": disk.name,
            "model": disk.model.name if disk.model else None,
            "says": disk.says,
            "bytes": disk.bytes,
            "capacity": disk.capacity,
            "guess": disk.guess or None,
            "obstacle": disk.obstacle or None,
        }
        for disk in disks
    ]
