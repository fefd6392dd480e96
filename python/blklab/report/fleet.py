"""Arrays of several machines, and what is wrong with them, in the terminal and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blklab.diagnostic import SEVERITIES
from blklab.md.remote import RemoteHost
from blklab.report import arrays
from blklab.report.diagnostics import counts
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.text import printable

if TYPE_CHECKING:
    from rich.console import Console


def show(console: "Console", hosts: Sequence[RemoteHost], worst: int) -> None:
    """Prints each machine, and a table of all.

    Of several, those without a finding as bad as `worst`, an index of SEVERITIES, have a line.
    """
    from rich.rule import Rule
    from rich.text import Text

    for host in hosts:
        name = printable(host.name)
        line = Text.assemble((name, "bold"), ": ", overflow="fold")
        if host.inventory is None:
            console.print(line.append(printable(host.failure), "bold red"))
        elif len(hosts) > 1 and all(finding.rank > worst for finding in host.findings):
            many = len(host.inventory.arrays)
            summary = (
                f"nothing as bad as {SEVERITIES[worst]}; {many} array{'' if many == 1 else 's'}"
            )
            console.print(line.append(summary + (", not all seen" if host.unseen else "")))
        else:
            there = any(finding.remedy for finding in host.findings)
            title = Text(name, "bold").append(
                " · its commands are to be run there" if there else "", "dim"
            )
            console.print(Rule(title, align="left", style="dim"))
            arrays.show(console, host.inventory, host.findings)
            console.print()
    if len(hosts) > 1:
        draw_table(console, overview(hosts))


def overview(hosts: Sequence[RemoteHost]) -> TextTable:
    """Returns the table of machines."""
    rows = [
        [
            printable(host.name),
            *(
                [str(len(host.inventory.arrays)), *map(str, counts(host.findings).values())]
                if host.inventory
                else [arrays.NOTHING] * (1 + len(SEVERITIES))
            ),
            "nothing" if host.failure else "in part" if host.unseen else "all",
        ]
        for host in hosts
    ]
    columns = [text("host"), *figures("arrays", *SEVERITIES), text("seen")]
    return TextTable("Hosts", columns, rows)


def as_dict(hosts: Sequence[RemoteHost]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md audit` of several machines."""
    return {
        "format_version": arrays.FORMAT_VERSION,
        "hosts": [
            {
                "host": host.name,
                "failure": host.failure or None,
                **(
                    {
                        key: value
                        for key, value in arrays.as_dict(host.inventory, host.findings).items()
                        if key != "format_version"
                    }
                    if host.inventory
                    else dict.fromkeys(("arrays", "findings", "unseen"), ())
                ),
            }
            for host in hosts
        ],
    }
