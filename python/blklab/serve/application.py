"""The site as a WSGI application: addresses, headers and errors. It answers GET and HEAD only."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from urllib.parse import urlsplit

from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from blklab.analysis.metrics import metric_name
from blklab.bisection import findings
from blklab.diagnostic import SEVERITIES
from blklab.errors import BlklabError, StoreError, UsageError
from blklab.report import page, runs
from blklab.report.formatting import Sentence, plural
from blklab.report.shell import PageSection, PlainText
from blklab.report.tables.base import LinkedCell, TextTable, figures, text
from blklab.report.view import ProfileView
from blklab.serve import campaign_pages, comparison_pages
from blklab.serve.site_page import DrawnOnce, SitePage, listing
from blklab.store import annotations, documents, query
from blklab.store.campaigns import Store
from blklab.store.documents import KeptDocument
from blklab.store.query import CampaignRow
from blklab.text import printable
from blklab.trace.profile import kept_profile

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

METHODS = ["GET"]  # and HEAD


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
    return listing("Traces", table, sentences=[] if rows else [empty])


def _devices(kept: KeptDocument) -> str:
    try:
        return printable(ProfileView(kept_profile(kept.document)).focus.label)
    except BlklabError as error:
        return str(error)


def trace(store: Store, number: int) -> str:
    """Returns the report of a profile, as HTML. Raises UsageError."""
    kept = documents.document(store, "profile", number)
    return page.render(ProfileView(kept_profile(kept.document)), title=f"The workload of {printable(kept.name)}")


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
    return listing("Hosts", table, sentences=[Sentence("Audits", sentence if audits else empty)])


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


class Site:
    def __init__(self, where: str | None, log: Callable[[str], object], names: Collection[str] | None = None) -> None:
        """Opens the store at `where`. Raises UsageError and StoreError.

        With `names`, it answers requests to these names and to addresses only: a page of another site whose name was
        made to point here (DNS rebinding) must not read the store.
        """
        self._store = Store(where, reading=True)
        self._host_names = names
        self._log = log
        self._reports = DrawnOnce(lambda _state, number: campaign_pages.report(self._store, number))
        self._trend_pages = DrawnOnce(lambda _state, *of: comparison_pages.trend(self._store, *of).html())
        number = "<int(max=2147483647):number>"
        pages: dict[str, Callable[..., SitePage | str]] = {
            "/": lambda arguments: campaign_pages.campaigns(self._store, arguments, _page(arguments)),
            f"/campaigns/{number}": lambda arguments, number: campaign_pages.campaign(
                self._store, number, _page(arguments)
            ),
            f"/campaigns/{number}/report": self._report,
            "/compare": self._compare,
            "/runs": lambda arguments: campaign_pages.every_run(self._store, _page(arguments)),
            f"/runs/{number}": lambda _, number: campaign_pages.run(self._store, number),
            "/trends": lambda _: comparison_pages.experiments(self._store),
            "/trends/<path:name>": self._trend,
            "/traces": lambda _: traces(self._store),
            f"/traces/{number}": lambda _, number: trace(self._store, number),
            "/hosts": lambda _: hosts(self._store),
            f"/hosts/{number}": lambda _, number: host(self._store, number),
        }
        self._map = Map(
            [Rule(path, endpoint=page, methods=METHODS) for path, page in pages.items()], merge_slashes=False
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answers a request."""
        request = Request(environ)
        try:
            self._check_host(request)
            page, values = self._map.bind_to_environ(environ).match()
            response = self._answered(request, page(request.args, **values))
        except HTTPException as error:
            code = error.code or 500
            if code in {301, 308}:
                response = Response(status=code, headers=dict(error.get_headers(environ)))
            else:
                title, reason = "There is no such page.", f"{request.path}: {error.name}"
                if isinstance(error, BadRequest):
                    title, reason = "This address cannot be used.", error.description
                response = self._failure(request, code, title, reason)
        except UsageError as error:
            response = self._failure(request, 404, "There is no such page.", str(error))
        except StoreError as error:
            self._log(str(error))
            response = self._failure(request, 503, "The store cannot be read.", str(error))
        except Exception as error:  # a bug: the others still get their pages
            self._log(f"{request.path}: {type(error).__name__}: {error}")
            response = self._failure(request, 500, "This page cannot be drawn.", f"{type(error).__name__}: {error}")
        return response(environ, start_response)

    def _check_host(self, request: Request) -> None:
        host = urlsplit(f"//{request.host}").hostname or ""
        with suppress(ValueError):
            ip_address(host)
            return
        if self._host_names is not None and host not in self._host_names:
            known = ", ".join(sorted(self._host_names))
            message = f"found the host {printable(host)!r}, expected an address or {known}; --host-name adds a name"
            raise BadRequest(message)

    def _answered(self, request: Request, page: SitePage | str, status: int = 200) -> Response:
        html = page if isinstance(page, str) else page.html()
        response = Response(html, status, content_type="text/html; charset=utf-8")
        # The page's own policy names its scripts; this one forbids frames, which a page cannot.
        response.headers["Content-Security-Policy"] = "frame-ancestors 'none'"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-cache"
        response.set_etag(hashlib.sha256(html.encode()).hexdigest()[:32])
        return response.make_conditional(request) if status == 200 else response

    def _failure(self, request: Request, status: int, title: str, reason: str) -> Response:
        return self._answered(request, SitePage(title, sentences=[Sentence("Reason", printable(reason))]), status)

    def _report(self, _arguments: Mapping[str, str], number: int) -> str:
        state = _state([query.campaign(self._store, number)]) + repr(findings.kept(self._store, [number]))
        return self._reports.html(state, number)

    def _compare(self, arguments: Any) -> SitePage:
        metrics = arguments.get("metric") or comparison_pages.METRICS_SHOWN
        with _refused():
            return comparison_pages.compared(self._store, arguments.getlist("side"), metrics)

    def _trend(self, arguments: Mapping[str, str], name: str) -> str:
        place = arguments.get("on", "")
        with _refused():
            metric = metric_name(arguments.get("metric") or "iops")
        state = _state(comparison_pages.of_trend(self._store, name, place)) + repr(annotations.tags(self._store))
        return self._trend_pages.html(state, name, place, metric)


def _state(campaigns: Sequence[CampaignRow]) -> str:
    """Returns what changes if a page about campaigns must be drawn again."""
    return repr([(row.number, sorted(row.states.items())) for row in campaigns])


@contextmanager
def _refused() -> Iterator[None]:
    """Turns a UsageError about what follows `?` into BadRequest."""
    try:
        yield
    except UsageError as error:
        raise BadRequest(str(error)) from None


def _page(arguments: Mapping[str, str]) -> int:
    """Returns the number of the part of a list. Raises BadRequest."""
    words = arguments.get("page", "1")
    if not (words.isascii() and words.isdigit() and len(words) <= 6 and int(words)):
        raise BadRequest(f"page: found {words[:20]!r}, expected a number from 1 to 999999")
    return int(words)
