"""Prints arrays of several hosts and findings about them, in the terminal and as JSON."""

from collections.abc import Sequence
from typing import Any

from blklab.diagnostic import SEVERITIES
from blklab.md.remote import RemoteHost
from blklab.report import arrays
from blklab.report.console import Console, assembled, styled
from blklab.report.diagnostics import counts
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.text import printable


def show(console: Console, hosts: Sequence[RemoteHost], threshold: int) -> None:
    """Prints each host, and a table of all.

    With several hosts, those without a finding of severity `threshold`, an index of SEVERITIES, or worse get one line.
    """
    from rich.rule import Rule

    for host in hosts:
        name = printable(host.name)
        line = assembled((name, "bold"), ": ")
        if host.inventory is None:
            console.print(line.append(printable(host.failure), "bold red"))
        elif len(hosts) > 1 and all(finding.rank > threshold for finding in host.findings):
            count = len(host.inventory.arrays)
            worse = " or worse" if threshold else ""
            summary = f"{count} array{'' if count == 1 else 's'}, no finding of severity {SEVERITIES[threshold]}{worse}"
            console.print(line.append(summary + ("; some data could not be read" if host.unseen else "")))
        else:
            has_commands = any(finding.remedy for finding in host.findings)
            title = styled(name, "bold").append(" · run the commands on this host" if has_commands else "", "dim")
            console.print(Rule(title, align="left", style="dim"))
            arrays.show(console, host.inventory, host.findings)
            console.print()
    if len(hosts) > 1:
        draw_table(console, hosts_table(hosts))


def hosts_table(hosts: Sequence[RemoteHost]) -> TextTable:
    rows = [
        [
            printable(host.name),
            *(
                [str(len(host.inventory.arrays)), *map(str, counts(host.findings).values())]
                if host.inventory
                else [arrays.NO_VALUE] * (1 + len(SEVERITIES))
            ),
            "nothing" if host.failure else "partly" if host.unseen else "all",
        ]
        for host in hosts
    ]
    return TextTable("Hosts", [text("host"), *figures("arrays", *SEVERITIES), text("read")], rows)


def as_dict(hosts: Sequence[RemoteHost]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md audit` of several hosts."""
    documents = []
    for host in hosts:
        empty = dict.fromkeys(("arrays", "findings", "unseen"), ())
        audit = arrays.as_dict(host.inventory, host.findings) if host.inventory else empty
        audit.pop("format_version", None)
        documents.append({"host": host.name, "failure": host.failure or None, **audit})
    return {"format_version": arrays.FORMAT_VERSION, "hosts": documents}
