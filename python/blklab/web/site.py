"""A web page over the store, which only reads it: a WSGI application with addresses, pages, headers and errors.

It answers GET and HEAD only.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from werkzeug.exceptions import BadRequest, HTTPException, MethodNotAllowed, ServiceUnavailable
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from blklab.bisect import findings
from blklab.campaigns.main_result import MainResults
from blklab.campaigns.trend import campaigns_of_trend
from blklab.compare.metrics import metric_name
from blklab.errors import StoreError, UsageError
from blklab.render.formatting import Sentence
from blklab.store import annotations, query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow
from blklab.text.printing import printable
from blklab.web.frame import SitePage
from blklab.web.pages import campaigns, comparison, hosts, reports, runs, traces, trends

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


METHODS = ["GET"]  # and HEAD


T = TypeVar("T")
DRAW_S = 60.0  # Seconds that a request waits while another draws
REMEMBERED_BYTES = 64 << 20  # Of results of one kind
COMPARED_BYTES = 2500  # Of a row of a comparison


class DrawnOnce(Generic[T]):
    """What takes long: it is made once for each state of what it shows, also if several ask at a time."""

    def __init__(self, draw: Callable[..., T], weigh: Callable[[T], int], *, at_once: int = 4) -> None:
        """`draw` gets the state and the values, `weigh` the result, whose bytes it returns.

        Only `at_once` are drawn at a time: each may take hundreds of MiB.
        """
        self._draw = draw
        self._weigh = weigh
        self._results: OrderedDict[Hashable, tuple[str, T, int]] = OrderedDict()  # The one that was read last is last
        self._locks = [threading.Lock() for _ in range(at_once)]
        self._lock = threading.Lock()  # Never held while something is drawn

    def read(self, state: str, *values: Hashable) -> T:
        """Returns the result for these values. Raises ServiceUnavailable if others are drawn for too long."""
        lock = self._locks[hash(values) % len(self._locks)]
        if not lock.acquire(timeout=DRAW_S):
            raise ServiceUnavailable("other pages take long to draw: try again later")
        try:
            with self._lock:
                known = self._results.get(values)
                if known is not None and known[0] == state:
                    self._results.move_to_end(values)
                    return known[1]
            result = self._draw(state, *values)
            self._remember(values, state, result)
            return result
        finally:
            lock.release()

    def _remember(self, values: Hashable, state: str, result: T) -> None:
        with self._lock:
            self._results.pop(values, None)
            self._results[values] = state, result, self._weigh(result)
            total = sum(size for _, _, size in self._results.values())
            while total > REMEMBERED_BYTES and len(self._results) > 1:
                _, (_, _, size) = self._results.popitem(last=False)
                total -= size


class Site:
    def __init__(
        self, store_address: str | None, log: Callable[[str], object], names: Collection[str] | None = None
    ) -> None:
        """Opens the store at `store_address`. Raises UsageError and StoreError.

        With `names`, it answers requests to these names and to addresses only: a page of another site whose name was
        made to point here (DNS rebinding) must not read the store.
        """
        self._store = Store(store_address, reading=True)
        self._host_names = names
        self._log = log
        self._reports = DrawnOnce(lambda _state, number: reports.show_report(self._store, number), len, at_once=1)
        self._trend_pages = DrawnOnce(
            lambda _state, name, place, metric, part: trends.show_trend(self._store, name, place, metric, part).html(),
            len,
        )
        self._comparisons = DrawnOnce(
            lambda _state, sides, metrics, baseline: comparison.compare_campaigns(
                self._store, sides, metrics, baseline
            ),
            lambda compared: COMPARED_BYTES * len(compared.result.rows),
            at_once=1,
        )
        results = MainResults(self._store)
        number = "<int(max=2147483647):number>"
        pages: dict[str, Callable[..., SitePage | str]] = {
            "/": lambda arguments: campaigns.list_campaigns(self._store, results, arguments, _part_number(arguments)),
            f"/campaigns/{number}": lambda arguments, number: campaigns.show_campaign(
                self._store, results, number, _part_number(arguments)
            ),
            f"/campaigns/{number}/report": self._report,
            "/compare": self._compare,
            "/runs": lambda arguments: runs.list_runs(self._store, _part_number(arguments)),
            f"/runs/{number}": lambda _, number: runs.show_run(self._store, number),
            "/trends": lambda _: trends.list_experiments(self._store),
            "/trends/<path:name>": self._trend,
            "/traces": lambda _: traces.list_traces(self._store),
            f"/traces/{number}": lambda _, number: traces.show_trace(self._store, number),
            "/hosts": lambda _: hosts.list_hosts(self._store),
            f"/hosts/{number}": lambda _, number: hosts.show_host(self._store, number),
        }
        self._map = Map(
            [Rule(path, endpoint=page, methods=METHODS) for path, page in pages.items()], merge_slashes=False
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answers a request."""
        request = Request(environ)
        try:
            self._check_host(request)
            if not environ["REQUEST_METHOD"].isupper():  # Methods are in capitals (RFC 9110, section 9.1)
                raise MethodNotAllowed(["GET", "HEAD"])
            page, values = self._map.bind_to_environ(environ).match()
            response = self._make_response(request, page(request.args, **values))
        except HTTPException as error:
            code = error.code or 500
            if code in {301, 308}:
                response = Response(status=code, headers=dict(error.get_headers(environ)))
            else:
                title = "There is no such page."
                reason = f"{request.path}: {error.name}"
                if isinstance(error, BadRequest):
                    title = "This address cannot be used."
                    reason = error.description
                response = self._failure(request, code, title, reason)
                if isinstance(error, MethodNotAllowed):
                    response.headers["Allow"] = ", ".join(sorted(error.valid_methods or METHODS))
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
            names_text = ", ".join(sorted(self._host_names))
            raise BadRequest(
                f"found the host {printable(host)!r}, expected an address or {names_text}; --host-name adds a name"
            )

    def _make_response(self, request: Request, page: SitePage | str, status: int = 200) -> Response:
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
        return self._make_response(request, SitePage(title, sentences=[Sentence("Reason", printable(reason))]), status)

    def _report(self, _arguments: Mapping[str, str], number: int) -> str:
        state = _state([query.campaign(self._store, number)]) + repr(findings.read_bisections(self._store, [number]))
        return self._reports.read(state, number)

    def _compare(self, arguments: Any) -> SitePage:
        metrics = arguments.get("metric") or comparison.METRICS_SHOWN
        baseline = arguments.get("baseline")
        with _convert_usage_error():
            sides = comparison.distinct_sides(arguments.getlist("side"))
            state = _state(query.all_campaigns(self._store))
            compared = self._comparisons.read(state, tuple(sides), metrics, baseline)
        pairs = [*(("side", side) for side in sides), ("metric", metrics)]
        if baseline is not None:
            pairs.append(("baseline", baseline))
        return comparison.show_comparison(compared, f"/compare?{urlencode(pairs)}", _part_number(arguments))

    def _trend(self, arguments: Mapping[str, str], name: str) -> str:
        place = arguments.get("on", "")
        with _convert_usage_error():
            metric = metric_name(arguments.get("metric") or "iops")
        state = _state(campaigns_of_trend(self._store, name, place)) + repr(annotations.tags(self._store))
        return self._trend_pages.read(state, name, place, metric, _part_number(arguments))


def _state(rows: Sequence[CampaignRow]) -> str:
    """Returns what changes if a page about campaigns must be drawn again."""
    return repr([(row.number, sorted(row.states.items())) for row in rows])


@contextmanager
def _convert_usage_error() -> Iterator[None]:
    """Turns a UsageError about what follows `?` into BadRequest."""
    try:
        yield
    except UsageError as error:
        raise BadRequest(str(error)) from None


def _part_number(arguments: Mapping[str, str]) -> int:
    """Returns the number of the part of a list. Raises BadRequest."""
    number_text = arguments.get("page", "1")
    if not (number_text.isascii() and number_text.isdigit() and len(number_text) <= 6 and int(number_text)):
        raise BadRequest(f"page: found {number_text[:20]!r}, expected a number from 1 to 999999")
    return int(number_text)
