"""Pages of kept documents: profiles of traces, and audits of hosts."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from blklab.diagnostic import SEVERITIES
from blklab.report import page, runs
from blklab.report.formatting import Sentence, plural
from blklab.report.shell import PageSection, PlainText
from blklab.report.tables.base import LinkedCell, TextTable, figures, text
from blklab.report.view import ProfileView
from blklab.serve.site_page import SitePage
from blklab.store import documents
from blklab.store.campaigns import Store
from blklab.store.documents import KeptDocument
from blklab.text import printable


class KeptFinding(TypedDict):
    severity: str
    subject: str | None
    member: str | None
    message: str
    remedy: list[str]


class KeptMember(TypedDict):
    """A member of an array of a kept audit."""

    name: str | None


class KeptArray(TypedDict):
    name: str
    level: str | None
    state: str | None
    members: list[KeptMember]


class KeptAudit(TypedDict):
    """What pages use of an audit: docs/reference/formats.md, "md audit"."""

    failure: NotRequired[str | None]
    arrays: list[KeptArray]
    findings: list[KeptFinding]
    unseen: list[str]


def traces(store: Store) -> SitePage:
    """Returns the list of profiles, the newest of each name."""
    rows = [
        [LinkedCell(printable(kept.name), f"/traces/{kept.id}"), runs.when(kept.created), _devices(kept)]
        for kept in documents.latest(store, "profile")
    ]
    table = TextTable("Profiles of traces", [text("trace"), text("kept"), text("device in focus")], rows)
    empty = Sentence("Empty", "No profile is kept: `blklab trace stat TRACE --keep NAME` keeps one.")
    return SitePage(
        "Traces",
        [PageSection("traces", "Traces", "Traces", [table] if rows else [])],
        here="/traces",
        sentences=[] if rows else [empty],
    )


def _devices(kept: KeptDocument) -> str:
    return printable(ProfileView(kept.document).focus.label)


def trace(store: Store, number: int) -> str:
    """Returns the report of a profile, as HTML. Raises UsageError."""
    kept = documents.document(store, "profile", number)
    return page.render(ProfileView(kept.document), title=f"The workload of {printable(kept.name)}")


def hosts(store: Store) -> SitePage:
    """Returns the last audit of every host, those with the worst findings first."""
    audits = documents.latest(store, "audit")
    audits.sort(key=lambda kept: [-_counts(kept.document)[severity] for severity in SEVERITIES])
    rows = [
        [
            LinkedCell(printable(kept.name), f"/hosts/{kept.id}"),
            runs.when(kept.created),
            str(len(kept.document["arrays"])),
            *(str(count) for count in _counts(kept.document).values()),
            printable(kept.document.get("failure") or ""),
        ]
        for kept in audits
    ]
    columns = [text("host"), text("audited"), *figures("arrays", *SEVERITIES), text("failure")]
    table = TextTable("The last audit of every host", columns, rows)
    critical = sum(_counts(kept.document)["critical"] > 0 for kept in audits)
    sentence = f"{plural(critical, 'host')} of {len(audits)} {'has' if critical == 1 else 'have'} critical findings."
    empty = "No audit is kept: `blklab md audit --keep` keeps one."
    return SitePage(
        "Hosts",
        [PageSection("hosts", "Hosts", "Hosts", [table] if rows else [])],
        here="/hosts",
        sentences=[Sentence("Audits", sentence if audits else empty)],
    )


def _counts(audit: "KeptAudit") -> dict[str, int]:
    severities = [finding["severity"] for finding in audit["findings"]]
    return {severity: severities.count(severity) for severity in SEVERITIES}


def host(store: Store, number: int) -> SitePage:
    """Returns an audit of a host, and links to the earlier ones. Raises UsageError."""
    kept = documents.document(store, "audit", number)
    audit = kept.document
    earlier = documents.history(store, "audit", kept.name)
    rows = [
        [LinkedCell(runs.when(created), f"/hosts/{at}"), "shown" if at == number else ""] for at, created in earlier
    ]
    sections = [
        PageSection(f"{severity}-findings", severity.capitalize(), f"{severity.capitalize()} findings", items)
        for severity in SEVERITIES
        if (items := _findings([each for each in audit["findings"] if each["severity"] == severity]))
    ]
    unread = "\n".join(map(printable, audit["unseen"]))
    unseen = [PlainText("What could not be read", unread)] if unread else []
    failure = printable(audit.get("failure") or "")
    counts = [plural(count, severity) for severity, count in _counts(audit).items() if count]
    return SitePage(
        printable(kept.name),
        [
            *sections,
            PageSection("arrays", "Arrays", "Arrays", [*_arrays(audit["arrays"]), *unseen]),
            PageSection("earlier", "All audits", "All audits", [TextTable("Audits", [text("at"), text("")], rows)]),
        ],
        kicker="audit",
        here="/hosts",
        facts=[runs.when(kept.created), *counts],
        sentences=[] if counts or failure else [Sentence("Findings", "The audit has no finding.")],
        doubts=[Sentence("Failed", failure)] if failure else [],
    )


def _findings(findings: Sequence["KeptFinding"]) -> list[PlainText]:
    return [
        PlainText(
            printable(" ".join(filter(None, (each["subject"], each["member"])))) or "host",
            "\n".join(map(printable, each["remedy"])),
            printable(each["message"]),
        )
        for each in findings
    ]


def _arrays(arrays: Sequence["KeptArray"]) -> list[TextTable]:
    rows = []
    for array in arrays:
        members = " ".join(member["name"] or "?" for member in array["members"])
        cells = [array["name"], array["level"] or "", array["state"] or "", members]
        rows.append([printable(cell) for cell in cells])
    columns = [text(name) for name in ("array", "level", "state", "members")]
    return [TextTable("Arrays", columns, rows)] if rows else []
