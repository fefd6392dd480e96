"""The list of audited hosts, and an audit of one."""

from collections.abc import Mapping, Sequence
from typing import Any

from blklab.campaigns import runs
from blklab.diagnostic import SEVERITIES
from blklab.render.formatting import Sentence, plural
from blklab.render.shell import PageSection, PlainText
from blklab.render.table import LinkedCell, TextTable, number_columns, text_column
from blklab.store import documents
from blklab.store.campaigns import Store
from blklab.text.printing import printable
from blklab.web.frame import SitePage, list_page

KeptAudit = Mapping[str, Any]  # The document of `md audit`: docs/reference/formats.md; also with its `failure`


def list_hosts(store: Store) -> SitePage:
    """Returns the last audit of every host, those with the worst findings first."""
    audits = documents.latest(store, "audit")
    audits.sort(key=lambda audit: [-_counts(audit.document)[severity] for severity in SEVERITIES])
    rows = []
    for audit in audits:
        link = LinkedCell(printable(audit.name), f"/hosts/{audit.id}")
        arrays = str(len(audit.document["arrays"]))
        counts = map(str, _counts(audit.document).values())
        failure = printable(audit.document.get("failure") or "")
        rows.append([link, runs.when(audit.created), arrays, *counts, failure])
    columns = [
        text_column("host"),
        text_column("audited"),
        *number_columns("arrays", *SEVERITIES),
        text_column("failure"),
    ]
    table = TextTable("The last audit of every host", columns, rows)
    critical = sum(_counts(audit.document)["critical"] > 0 for audit in audits)
    sentence = "No audit is kept: `blklab md audit --keep` keeps one."
    if audits:
        have = "has" if critical == 1 else "have"
        sentence = f"{plural(critical, 'host')} of {len(audits)} {have} critical findings."
    return list_page("Hosts", table, sentences=[Sentence("Audits", sentence)])


def _counts(audit: KeptAudit) -> dict[str, int]:
    severities = [finding["severity"] for finding in audit["findings"]]
    return {severity: severities.count(severity) for severity in SEVERITIES}


def show_host(store: Store, number: int) -> SitePage:
    """Returns an audit of a host, and links to the earlier ones. Raises UsageError."""
    audit_document = documents.document(store, "audit", number)
    audit = audit_document.document
    earlier = documents.history(store, "audit", audit_document.name)
    rows = [
        [LinkedCell(runs.when(creation_time), f"/hosts/{audit_id}"), "shown" if audit_id == number else ""]
        for audit_id, creation_time in earlier
    ]
    sections = []
    for severity in SEVERITIES:
        items = _findings([finding for finding in audit["findings"] if finding["severity"] == severity])
        if items:
            title = severity.capitalize()
            sections.append(PageSection(f"{severity}-findings", title, f"{title} findings", items))
    unread = "\n".join(map(printable, audit["unseen"]))
    unseen = [PlainText("What could not be read", unread)] if unread else []
    failure = printable(audit.get("failure") or "")
    counts = [plural(count, severity) for severity, count in _counts(audit).items() if count]
    return SitePage(
        printable(audit_document.name),
        [
            *sections,
            PageSection("arrays", "Arrays", "Arrays", [*_arrays(audit["arrays"]), *unseen]),
            PageSection(
                "earlier", "All audits", "All audits", [TextTable("Audits", [text_column("at"), text_column("")], rows)]
            ),
        ],
        kicker="audit",
        here="/hosts",
        facts=[runs.when(audit_document.created), *counts],
        sentences=[] if counts or failure else [Sentence("Findings", "The audit has no finding.")],
        doubts=[Sentence("Failed", failure)] if failure else [],
    )


def _findings(findings: Sequence[Mapping[str, Any]]) -> list[PlainText]:
    return [
        PlainText(
            printable(" ".join(filter(None, (finding["subject"], finding["member"])))) or "host",
            "\n".join(map(printable, finding["remedy"])),
            printable(finding["message"]),
        )
        for finding in findings
    ]


def _arrays(arrays: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    rows = []
    for array in arrays:
        members = " ".join(member["name"] or "?" for member in array["members"])
        cells = [array["name"], array["level"] or "", array["state"] or "", members]
        rows.append([printable(cell) for cell in cells])
    columns = [text_column(name) for name in ("array", "level", "state", "members")]
    return [TextTable("Arrays", columns, rows)] if rows else []
