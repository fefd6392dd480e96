"""The site as a WSGI application: addresses, headers and errors. It answers GET and HEAD only."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from blklab.analysis.metrics import metric_name
from blklab.bisection import findings
from blklab.errors import StoreError, UsageError
from blklab.report.formatting import Sentence
from blklab.serve import campaign_pages, comparison_pages, document_pages
from blklab.serve.site_page import DrawnOnce, SitePage
from blklab.store import annotations, query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow
from blklab.text import printable

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

METHODS: Final = ["GET"]  # and HEAD
ADDRESSES: Final = {
    "/": "campaigns",
    "/campaigns/<int(max=2147483647):number>": "campaign",
    "/campaigns/<int(max=2147483647):number>/report": "report",
    "/compare": "compare",
    "/runs": "runs",
    "/runs/<int(max=2147483647):number>": "run",
    "/trends": "trends",
    "/trends/<path:name>": "trend",
    "/traces": "traces",
    "/traces/<int(max=2147483647):number>": "trace",
    "/hosts": "hosts",
    "/hosts/<int(max=2147483647):number>": "host",
}


class Site:
    def __init__(self, where: str | None, log: Callable[[str], object]) -> None:
        """Opens the store at `where`. Raises UsageError and StoreError."""
        self._store = Store(where, reading=True)
        self._log = log
        self._reports = DrawnOnce(lambda _state, number: campaign_pages.report(self._store, number))
        self._trend_pages = DrawnOnce(lambda _state, *of: comparison_pages.trend(self._store, *of).html())
        self._map = Map(
            [Rule(path, endpoint=name, methods=METHODS) for path, name in ADDRESSES.items()], merge_slashes=False
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answers a request."""
        request = Request(environ)
        try:
            endpoint, values = self._map.bind_to_environ(environ).match()
            response = self._answered(request, getattr(self, f"_{endpoint}")(request.args, **values))
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

    def _campaigns(self, arguments: Mapping[str, str]) -> SitePage:
        return campaign_pages.campaigns(self._store, arguments, _page(arguments))

    def _campaign(self, arguments: Mapping[str, str], number: int) -> SitePage:
        return campaign_pages.campaign(self._store, number, _page(arguments))

    def _report(self, _arguments: Mapping[str, str], number: int) -> str:
        state = _state([query.campaign(self._store, number)]) + repr(findings.kept(self._store, [number]))
        return self._reports.html(state, number)

    def _compare(self, arguments: Any) -> SitePage:
        metrics = arguments.get("metric") or comparison_pages.METRICS_SHOWN
        with _refused():
            return comparison_pages.compared(self._store, arguments.getlist("side"), metrics)

    def _runs(self, arguments: Mapping[str, str]) -> SitePage:
        return campaign_pages.every_run(self._store, _page(arguments))

    def _run(self, _arguments: Mapping[str, str], number: int) -> SitePage:
        return campaign_pages.run(self._store, number)

    def _trends(self, _arguments: Mapping[str, str]) -> SitePage:
        return comparison_pages.experiments(self._store)

    def _trend(self, arguments: Mapping[str, str], name: str) -> str:
        place = arguments.get("on", "")
        with _refused():
            metric = metric_name(arguments.get("metric") or "iops")
        state = _state(comparison_pages.of_trend(self._store, name, place)) + repr(annotations.tags(self._store))
        return self._trend_pages.html(state, name, place, metric)

    def _traces(self, _arguments: Mapping[str, str]) -> SitePage:
        return document_pages.traces(self._store)

    def _trace(self, _arguments: Mapping[str, str], number: int) -> str:
        return document_pages.trace(self._store, number)

    def _hosts(self, _arguments: Mapping[str, str]) -> SitePage:
        return document_pages.hosts(self._store)

    def _host(self, _arguments: Mapping[str, str], number: int) -> SitePage:
        return document_pages.host(self._store, number)


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
