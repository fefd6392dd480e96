"""Draws the share of each device below a target."""

from collections.abc import Iterator, Sequence

from blklab.campaigns import layout, runs
from blklab.campaigns.charts.campaign_column import campaign_column, campaign_name
from blklab.campaigns.view import STACK, ExperimentView, ReportCell, best, group_cells
from blklab.compare.metrics import WAYS, device_shares, lowest_devices
from blklab.grouping import by_key
from blklab.outcome import Outcome
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, chart_spec, quantity, tips
from blklab.render.shell import Item, PageSection
from blklab.render.table import TextTable, number_columns, text_column
from blklab.text.printing import printable

NEGLIGIBLE = 0.01  # Share of a run's I/Os below which a direction has no shares: they are stray I/Os
MOST_DEVICES = 7  # Maximum number of devices with their own colour; the others are merged


def members_section(view: ExperimentView) -> PageSection:
    """Returns the section; empty if there are no counts of devices."""
    cells = [cell for cell in view.order(view.cells) if lowest_devices(cell.runs[0].figures)]
    several = [cell for cell in cells if len(lowest_devices(cell.runs[0].figures)) > 1]
    shown = view.order(best(view, several, "iops"))
    items: list[Item] = []
    for direction in WAYS:
        chart = _members_chart(view, shown, direction)
        if chart:
            items.append(chart)
    caches = runs.caches([(view.name(cell), cell.runs[0].figures) for cell in view.order(view.cells)])
    tables = (*_trees(view), _members_table(view, view.order(best(view, cells, "iops"))), caches)
    items += [table for table in tables if table]
    intro = "I/Os at the lowest devices, after merging."
    return PageSection("members", "Members", "Share of each device", items, intro)


def share(cell: ReportCell) -> dict[str, tuple[float | None, float | None]]:
    """Returns each device's share of a cell's reads and writes, the mean of its runs."""
    devices = [device for run in cell.runs for device in lowest_devices(run.figures)]
    total_reads = sum(device.ios[0] for device in devices)
    total_writes = sum(device.ios[1] for device in devices)
    negligible = NEGLIGIBLE * (total_reads + total_writes)
    shares_of_runs = [device_shares(run.figures) for run in cell.runs]
    pairs_by_name = by_key(pair for shares in shares_of_runs for pair in shares.items())
    shares_by_name = {}
    for name, pairs in pairs_by_name.items():
        reads = None if total_reads < negligible else _mean([pair[0] for pair in pairs])
        writes = None if total_writes < negligible else _mean([pair[1] for pair in pairs])
        shares_by_name[name] = (reads, writes)
    return shares_by_name


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _members_chart(view: ExperimentView, cells: Sequence[ReportCell], direction: str) -> Chart | None:
    way = WAYS.index(direction)
    with_shares = [cell for cell in cells if any(pair[way] for pair in share(cell).values())]
    if not with_shares:
        return None
    shown_cells = with_shares[: layout.MOST_ROWS]
    chart_rows = layout.rows(view, shown_cells, view.loads)
    names = sorted({name for cell in shown_cells for name in share(cell)})
    data: list[Spec] = []
    for cell in shown_cells:
        parts = {name: pair[way] or 0.0 for name, pair in share(cell).items()}
        for name in names[:MOST_DEVICES]:
            if name in parts:
                data.append(_members_row(view, cell, chart_rows.row_by_cell[id(cell)], printable(name), parts[name]))
        other_share = sum(parts.get(name, 0.0) for name in names[MOST_DEVICES:])
        if other_share:
            data.append(_members_row(view, cell, chart_rows.row_by_cell[id(cell)], "others", other_share))
    order = list(dict.fromkeys(row["device"] for row in data))
    for row in data:
        row["at"] = order.index(row["device"])
    hue = layout.colour("device", order)
    if len(names) > MOST_DEVICES:
        hue["scale"]["range"] = [*hue["scale"]["range"][:MOST_DEVICES], "@soft"]
    axis = {"format": "%", "tickCount": 4}
    spec = chart_spec(
        data,
        mark={"type": "bar", "cornerRadiusEnd": 0},
        encoding={
            "y": chart_rows.encoding(),
            **layout.offset(view),
            "x": quantity("share", stack="zero", scale={"domain": [0, 1]}, axis=axis),
            "color": hue,
            "order": {"field": "at", "type": "quantitative"},
            "opacity": layout.opacity(view),
            "tooltip": tips(
                ("name", "cell"),
                *layout.campaign_tip(view),
                ("device", "device"),
                ("share", f"of the {direction}s", ".1%"),
            ),
        },
    )
    spec["height"] = chart_rows.height((12 if view.several else 15) * len(view.series), 16, 60)
    body = [
        [view.name(cell, series=True), printable(name), formatting.share(pair[way])]
        for cell in with_shares
        for name, pair in share(cell).items()
    ]
    table = TextTable("Shares", [text_column("cell"), text_column("device"), *number_columns("share")], body)
    return Chart(f"members-{direction}", f"{direction.capitalize()}s", spec, table)


def _members_row(view: ExperimentView, cell: ReportCell, row: str, device: str, amount: float) -> Spec:
    names = {"series": cell.series.name, "name": view.name(cell), "device": device}
    return {"row": row, **names, "share": round(amount, 4)}


def _members_table(view: ExperimentView, cells: Sequence[ReportCell]) -> TextTable:
    columns = [text_column("cell"), *campaign_column(view), text_column("device")]
    columns += number_columns("reads", "writes", "IOPS", "each took", "in its queue", "merged into each", "busy")
    body = []
    for cell in cells:
        for figures_of_device in _figures(cell):
            body.append([view.name(cell), *campaign_name(view, cell.series.name), *figures_of_device])
    return TextTable(
        "Devices",
        columns,
        body,
        (
            "reads and writes: share of all I/Os of the lowest devices. each took: from dispatch to completion. "
            "in its queue: mean number of requests in the device and its queue. Means of repeats. "
            "A direction with less than 1 % of the I/Os has no shares."
        ),
    )


def _figures(cell: ReportCell) -> Iterator[list[str]]:
    lowest = [(device, run.figures.observed_ns) for run in cell.runs for device in lowest_devices(run.figures)]
    for name, (reads, writes) in share(cell).items():
        device_times = [(device, observed_ns) for device, observed_ns in lowest if device.name == name]
        runtime = sum(time for _, time in device_times)
        devices = [device for device, _ in device_times]
        ios = sum(sum(device.ios) for device in devices)
        ticks = _total([device.ticks_ns for device in devices])
        merges = _total([device.merges for device in devices])
        busy = _total([device.busy_ns for device in devices])
        yield [
            printable(name),
            *map(formatting.share, (reads, writes)),
            formatting.number(ios * 1e9 / runtime),
            formatting.duration(ticks / ios if ios and ticks is not None else None),
            formatting.number(None if ticks is None else ticks / runtime),
            formatting.number(merges / ios if ios and merges is not None else None),
            formatting.share(None if busy is None else min(1.0, busy / runtime)),
        ]


def _total(counts: Sequence[float | Sequence[float] | None]) -> float | None:
    """Returns the sum of a counter of devices; None if one of them has no such counter."""
    total: float = 0
    for count in counts:
        if count is None or count == ():
            return None
        total += count if isinstance(count, int | float) else sum(count)
    return total


def _trees(view: ExperimentView) -> Iterator[TextTable]:
    """Returns the devices below each target, if the kernel reported them: md over partitions over disks."""
    for members in group_cells(view.cells, [STACK], series=True).values():
        cell = members[0]
        if not any(device.above for device in cell.runs[0].figures.devices):
            continue
        stack = cell.runs[0].labels.get(STACK, cell.series.name)
        title = f"Devices below {printable(str(stack))}"
        if view.several:
            title += f" ({cell.series.name})"
        columns = [
            text_column("device"),
            text_column("kind"),
            *number_columns("reads", "writes", "each took", "in its queue"),
        ]
        body = list(_branches(cell.runs[0].figures))
        yield TextTable(title, columns, body, f"I/Os in {view.name(cell)}, run {cell.runs[0].id}.")


def _branches(outcome: Outcome) -> Iterator[list[str]]:
    runtime = outcome.observed_ns
    names = {device.name for device in outcome.devices}

    def below(name: str | None, depth: int, path_names: frozenset[str]) -> Iterator[list[str]]:
        for device in outcome.devices:
            above = [upper for upper in device.above if upper in names]
            if device.name in path_names or (name is None and above) or (name is not None and name not in above):
                continue
            ios = device.ios
            ticks = device.ticks_ns
            yield [
                f"{'  ' * (depth - 1)}└ {printable(device.name)}" if depth else printable(device.name),
                printable(device.kind or ""),
                *map(formatting.count, ios),
                formatting.duration(sum(ticks) / sum(ios) if ticks and sum(ios) else None),
                formatting.number(sum(ticks) / runtime if ticks else None),
            ]
            yield from below(device.name, depth + 1, path_names | {device.name})

    yield from below(None, 0, frozenset())
