"""`blklab lab`: the guests of `blklab run --on lab`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blklab.cli.common import csv_option, emit, fail_with, json_option, note, store_option
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.errors import UsageError
from blklab.runners.registry import accel_option, kernel_option, modules_option
from blklab.text.printing import printable
from blklab.units import format_size

if TYPE_CHECKING:
    from blklab.render.table import TextTable


COMMANDS = {
    "demo": CommandEntry("blklab.cli.lab:demo", "Measure and predict mirrors of unequal disks", extras=("lab",)),
    "build": CommandEntry("blklab.cli.lab:build", "Build or rebuild the image of a guest", extras=("lab",)),
    "kernels": CommandEntry("blklab.cli.lab:kernels", "List the kernels for guests"),
    "prune": CommandEntry("blklab.cli.lab:prune", "Remove images of older kernels, and builds of bisections"),
}


@click.group(cls=LazyGroup, entries=COMMANDS)
def lab() -> None:
    """Prepare the guests of `blklab run --on lab`: virtual machines with a real Debian kernel.

    These commands do not need root. They download packages with apt into blklab's cache below
    XDG_CACHE_HOME and unpack them there.
    """


@click.command()
@accel_option
@store_option
@json_option
def demo(*, accel: str | None, store: str | None, as_json: bool) -> None:
    """Boot a real kernel, build mirrors of unequal disks with mdadm, and measure their reads.

    The output shows predictions next to measurements. The experiment is examples/mirrors.toml. The results are stored.
    """
    from blklab.cli.run import measure_campaign
    from blklab.compare.metrics import device_shares
    from blklab.experiment.cells import plan
    from blklab.experiment.lab_cell import FORM
    from blklab.render.terminal import draw_table
    from blklab.runners import lab
    from blklab.runners.lab.runner import LabRunner
    from blklab.runners.sim.runner import outcomes

    path = Path(lab.__file__).with_name("mirrors.toml")
    measuring = plan(path, form=FORM)
    predicting = plan(path)
    runner = LabRunner(accelerator=accel, note=note)
    runner.check(measuring)
    note("booting a real kernel; mdadm and fio run in it")
    outcome = measure_campaign(runner, measuring, store, keep=True, resume=False)
    predictions = outcomes([cell.document for cell in predicting.cells])
    by_number = dict(zip((cell.number for cell in predicting.cells), predictions, strict=True))
    rows = []
    for result in outcome.results:
        prediction = by_number[result.number]
        measurement = result.outcome
        measured_shares = device_shares(measurement)
        shares = {}
        for name, predicted_share in device_shares(prediction).items():
            shares[name] = [predicted_share[0] or 0.0, measured_shares[name][0] or 0.0]
        iops = [prediction.read.iops, measurement.read.iops]
        rows.append({"labels": dict(result.labels), "iops": iops, "shares": shares})
    emit(rows, as_json, lambda console: draw_table(console, _table(rows)))
    fail_with(outcome.errors)


def _table(rows: list[dict[str, Any]]) -> "TextTable":
    """Return the table; of the two members of a mirror, only the first one is shown."""
    from blklab.render.table import TextTable, number_columns, text_column

    cells = []
    for row in rows:
        predicted_iops, measured_iops = row["iops"]
        name, shares = next(iter(row["shares"].items()))
        error = f"{100 * (predicted_iops / measured_iops - 1):+.1f} %" if measured_iops else "–"
        share = f"{name} {100 * shares[0]:.0f} → {100 * shares[1]:.0f}"
        cells.append([f"{row['labels']['stack']}", f"{predicted_iops:,.0f}", f"{measured_iops:,.0f}", error, share])
    columns = [text_column("mirror"), *number_columns("predicted", "measured", "error"), text_column("share")]
    note = "IOPS of random reads. Share of the first disk (predicted → measured, %)."
    return TextTable("Predictions and the lab", columns, cells, note)


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

    guest_image = image(own_kernel(kernel, modules) or generation, note=note, rebuild=rebuild)
    document = {
        "kernel": guest_image.version,
        "digest": guest_image.digest,
        "vmlinuz": str(guest_image.kernel),
        "initrd": str(guest_image.initrd),
        "packages": dict(guest_image.packages),
    }
    emit(
        document,
        as_json,
        lambda console: console.print(f"{guest_image.version}: {guest_image.initrd.parent}", highlight=False),
    )


@click.command()
@click.option(
    "--has",
    "revision",
    metavar="COMMIT|SUBJECT",
    help="Say which of them have a commit, or a backport of it: its subject, or with --tree its hash.",
)
@click.option(
    "--tree",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="With --has: a git repository with the tags of the stable kernels (linux-stable).",
)
@json_option
@csv_option
def kernels(*, revision: str | None, tree: Path | None, as_json: bool) -> None:
    """List the kernels of Debian's packages that guests can boot, newest first.

    An experiment selects one by generation (kernel = "6.12") or by version ("6.1.0-49").

    With the subject of a commit, the changelogs of the packages answer: blklab downloads the newest package of each
    series (about 30 MB each). With --tree, the tags of the stable kernels answer.

    \b
    Examples:
      blklab lab kernels
      blklab lab kernels --has 'md/raid1: fix data lost for writemostly rdev'
      blklab lab kernels --has d301f164c3fb --tree linux-stable
    """
    from blklab.bisect.git import Repository
    from blklab.bisect.kernel_commits import find_commit_in_kernels
    from blklab.render.table import TextTable, text_column
    from blklab.render.terminal import draw_table
    from blklab.runners.lab.image.build import find_change, list_kernels

    if revision is None and tree is not None:
        raise UsageError("--tree: also give --has COMMIT, which is looked for in the tree")
    if revision is not None and tree is None and re.fullmatch(r"[0-9a-f]{7,40}", revision):
        raise UsageError("--has: found a hash: also give --tree DIR, or the subject of the commit instead of its hash")
    commit = None if revision is None or tree is None else Repository(tree).commit(revision)
    offers = list_kernels()
    documents: list[dict[str, object]] = [dict(vars(offer)) for offer in offers]
    rows = [[printable(offer.name), printable(offer.version)] for offer in offers]
    columns = [text_column("kernel"), text_column("package version")]
    title = "Kernels for guests"
    if commit is not None and tree is not None:
        title = f"Kernels with {commit.short} {printable(commit.subject)}"
        columns.append(text_column("has it"))
        answers = find_commit_in_kernels(Repository(tree), commit, [offer.version for offer in offers])
        for row, document, answer in zip(rows, documents, answers, strict=True):
            row.append(answer.words)
            document |= {"has": answer.answer, "backport": answer.backport or None, "tag": answer.tag}
    elif revision is not None:
        title = f"Kernels with {printable(revision)}"
        columns.append(text_column("has it"))
        changes = find_change(revision, offers, note)
        for row, document, change in zip(rows, documents, changes, strict=True):
            row.append(change.words)
            document |= {"has": change.answer, "since": change.since or None}
    table = TextTable(title, columns, rows)
    emit(documents, as_json, lambda console: draw_table(console, table))


@click.command()
@json_option
def prune(*, as_json: bool) -> None:
    """Remove what the cache has of older packages, kernels and agents, and of ended bisections.

    An interrupted bisection can still be resumed: it builds its kernels again.
    """
    from blklab.bisect.source import remove_work
    from blklab.runners.lab.image.build import prune as remove

    freed_bytes = remove() + remove_work()
    emit(
        {"freed_bytes": freed_bytes},
        as_json,
        lambda console: console.print(f"{format_size(freed_bytes)} freed", highlight=False),
    )
