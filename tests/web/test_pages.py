"""What pages show, and their headers."""

import re
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from types import ModuleType
from urllib.error import URLError

import pytest
from werkzeug.exceptions import ServiceUnavailable
from werkzeug.test import Client

from blklab.web import site as site_module
from blklab.web.pages import comparison, reports, trends
from blklab.web.site import DrawnOnce, Site
from tests.conftest import Run, Start
from tests.md.conftest import Arrays, machine
from tests.md.remote.conftest import probe, rich
from tests.web.conftest import HASHED, HOSTILE, PAGES, PASSWORD, ask, trusting

__all__ = ["machine", "rich"]  # fixtures


def test_campaigns_are_listed_newest_first_with_links_and_tags(site: Client) -> None:
    html = site.get("/").text
    assert re.findall(r'href="/campaigns/(\d)"', html) == ["4", "3", "2", "1"]
    assert "baseline" in html
    assert site.get("/?tag=baseline").text.count('href="/campaigns/') == 1
    assert site.get("/?name=nothing").text.count('href="/campaigns/') == 0


def test_comparison_says_what_compare_says(site: Client, run: Run, full: Path) -> None:
    printed = run("compare", "1", "3", "--store", full, "--metric", "iops").out
    (summary,) = (line for line in printed.splitlines() if line.startswith("iops: "))
    html = re.sub(r"<[^>]+>", "", site.get("/compare?side=1&side=3&metric=iops").text).replace("\xa0", " ")
    assert summary in html


def test_the_oldest_campaign_is_the_baseline_in_whichever_order_they_are_chosen(site: Client) -> None:
    """The list begins with the newest: taken as the baseline, it made "2 better" of a regression."""
    html = site.get("/compare?side=3&side=1&side=3&metric=iops").text
    text = re.sub(r"<[^>]+>", "", html).replace("\xa0", " ")
    assert "iops: 2 worse" in text
    assert re.search(r"Verdict\s*.{0,40}predicted to be worse than ", text)
    assert re.search(r"Baseline\s*.{0,40}\(campaign 1, ", text)
    assert "It is newer than another one" not in text
    (address,) = re.findall(r'href="(/compare\?[^"]*baseline=3)"', html)
    swapped = re.sub(r"<[^>]+>", "", site.get(unescape(address)).text).replace("\xa0", " ")
    assert "iops: 2 better" in swapped
    assert re.search(r"Baseline\s*.{0,40}\(campaign 3, .{0,120}It is newer than another one", swapped, re.S)


def test_trend_has_each_campaign_and_the_verdict(site: Client) -> None:
    html = site.get("/trends/same?on=sim").text
    assert re.findall(r'<a href="/campaigns/(\d)">', html) == ["3", "2", "1"]
    assert "Since the first" in html
    assert "worse" in html


def test_hosts_with_critical_findings_come_first(site: Client) -> None:
    html = site.get("/hosts").text
    assert re.findall(r'href="/hosts/(\d)"', html) == ["2", "3", "4"]
    assert "no route to host" in html
    assert "mdadm --fail" in site.get("/hosts/2").text


def test_campaign_shows_notes_and_offers_a_comparison(site: Client) -> None:
    html = site.get("/campaigns/3").text
    assert "/compare?side=2&amp;side=3" in html
    assert "note" in site.get("/campaigns/1").text


@pytest.mark.parametrize("path", PAGES)
def test_hostile_names_are_text_and_headers_forbid_the_rest(site: Client, path: str) -> None:
    response = site.get(path)
    assert response.status_code == (404 if path == "/nothing" else 200)
    assert "<img src=x" not in response.text
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', response.text)
    assert "default-src &#39;none&#39;" in policy


@pytest.mark.parametrize(
    "path",
    [
        "/campaigns/99",
        "/runs/99999999999999999999",
        "/hosts/1",  # a profile, not an audit
        "/traces/2",
        "/trends/none",
        "/trends/same?on=elsewhere",
        "/%00",
        "/../../etc/passwd",
        "/campaigns/-1",
    ],
)
def test_unknown_address_is_a_page_with_one_reason(site: Client, path: str) -> None:
    response = site.get(path)
    assert response.status_code == 404
    assert "There is no such page." in response.text


def test_a_profile_of_another_version_is_listed_and_not_shown(site: Client) -> None:
    assert "kept by another version of blklab" in site.get("/traces").text
    response = site.get("/traces/5")
    assert response.status_code == 404
    assert "kept by another version of blklab" in response.text
    assert "characterise the trace again" in response.text


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/compare", "choose at least two campaigns"),
        ("/compare?side=1", "choose at least two campaigns"),
        (
            "/compare?" + "&".join(f"side={number}" for number in range(3000)),
            "found 3,000 campaigns, expected at most 12",
        ),
        ("/compare?side=1&side=3&baseline=2", "the baseline &#39;2&#39; is none of the chosen campaigns"),
        ("/compare?side=1&side=x", "no campaign &#39;x&#39;"),
        ("/compare?side=1&side=3&metric=none", "no metric &#39;none&#39;"),
        ("/trends/same?metric=none", "no metric &#39;none&#39;"),
        ("/?page=0", "page: found &#39;0&#39;, expected a number"),
        ("/runs?page=000000001999999999999999999999999", "expected a number"),
        ("/?page=<x>", "page: found &#39;&lt;x&gt;&#39;, expected a number"),
    ],
)
def test_bad_query_is_refused_with_one_reason(site: Client, path: str, reason: str) -> None:
    response = site.get(path)
    assert response.status_code == 400
    assert "This address cannot be used." in response.text
    assert reason in re.sub(r"</?b>", "", response.text)  # figures are bold


@pytest.mark.parametrize(
    ("address", "module", "drawn"),
    [("/campaigns/1/report", reports, "show_report"), ("/trends/same?on=sim", trends, "show_trend")],
)
def test_requests_at_the_same_time_draw_a_page_once(
    full: Path, monkeypatch: pytest.MonkeyPatch, address: str, module: ModuleType, drawn: str
) -> None:
    draw = getattr(module, drawn)
    calls: list[object] = []

    def counted(*values: object) -> object:
        calls.append(values)
        return draw(*values)

    monkeypatch.setattr(module, drawn, counted)
    application_site = Site(str(full), print)
    with ThreadPoolExecutor(4) as pool:
        pages = list(pool.map(lambda _: Client(application_site).get(address).text, range(4)))
    assert len(calls) == 1
    assert len(set(pages)) == 1


def test_users_and_certificates_of_a_web_configuration_are_required(
    start: Start, full: Path, certificates: Path, tmp_path: Path
) -> None:
    config = tmp_path / "web.yml"
    keys = f"{{cert_file: {certificates}/server.crt, key_file: {certificates}/server.key}}"
    config.write_text(f"tls_server_config: {keys}\nbasic_auth_users:\n  ann: {HASHED}\n")
    process = start("serve", "--listen", "127.0.0.1:0", "--store", full, "--web-config", config)
    assert process.stderr
    line = process.stderr.readline()
    assert line.startswith("blklab: listening on https://127.0.0.1:"), line
    url = line.split()[-1]
    assert ask(url, f"ann:{PASSWORD}", context=trusting(certificates))[0] == 200
    status, _, text = ask(url, "ann:wrong", context=trusting(certificates))
    assert (status, text) == (401, "Unauthorized\n")
    with pytest.raises((URLError, ConnectionError)):
        ask(url.replace("https", "http"), f"ann:{PASSWORD}")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_only_get_and_head_are_answered(site: Client) -> None:
    assert site.post("/").status_code == 405
    assert site.open("/", method="GET").status_code == 200
    environ = {"REQUEST_METHOD": "get"}
    assert site.open("/", environ_overrides=environ).status_code == 405
    assert site.head("/").text == ""


def test_unchanged_page_is_not_sent_again(site: Client) -> None:
    tag = site.get("/runs").headers["ETag"]
    assert site.get("/runs", headers={"If-None-Match": tag}).status_code == 304


def test_store_that_is_gone_is_one_reason(tmp_path: Path, full: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(full.read_bytes())
    lines: list[str] = []
    client = Client(Site(str(path), lines.append))
    path.write_bytes(b"broken")
    response = client.get("/")
    assert response.status_code == 503
    assert "The store cannot be read." in response.text
    assert len(lines) == 1


def test_running_campaign_is_read_again(tmp_path: Path, full: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(full.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET state = 'running', owner = 'elsewhere x 1 1' WHERE campaign = 3")
    client = Client(Site(str(path), print))
    for page in ("/", "/campaigns/3"):
        assert "location.reload" in client.get(page).text
    assert "location.reload" not in client.get("/campaigns/1").text


def test_ten_thousand_runs_are_a_list_in_parts(tmp_path: Path, full: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(full.read_bytes())
    with sqlite3.connect(path) as connection:
        for number in range(10_000):
            connection.execute(
                "INSERT INTO runs (campaign, key, number, labels, cell, state, outcome)"
                " SELECT campaign, ?, number, labels, cell, state, outcome FROM runs WHERE id = 1",
                (f"copy {number}",),
            )
    client = Client(Site(str(path), print))
    html = client.get("/runs").text
    assert "10,016 runs" in html
    assert html.count('<a href="/runs/') == 100
    assert "page=101" in html
    assert client.get("/runs?page=101").text.count('<a href="/runs/') == 16


def test_missing_store_and_taken_address_are_one_line(run: Run, tmp_path: Path) -> None:
    missing = run("serve", "--store", tmp_path / "none.db")
    assert (missing.status, len(missing.err.splitlines())) == (2, 1)
    twice = run("serve", "--listen", ":1", "--port", "2", "--store", tmp_path / "none.db")
    assert (twice.status, "--port and --listen both name a port" in twice.err) == (2, True)
    invalid = run("serve", "--listen", "nowhere", "--store", tmp_path / "none.db")
    assert (invalid.status, len(invalid.err.splitlines())) == (2, 1)


def test_tags_and_notes_are_added_and_removed(run: Run, tmp_path: Path, full: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(full.read_bytes())
    assert run("runs", "tag", "2", "new", "kernel-6.12", "--store", path).status == 0
    assert run("runs", "tag", "2", "new", "--store", path).status == 0  # has it already
    assert "new, kernel-6.12" in run("runs", "list", "--store", path).out
    assert run("runs", "tag", "2", "new", "--remove", "--store", path).status == 0
    again = run("runs", "tag", "2", "new", "--remove", "--store", path)
    assert (again.status, again.err) == (1, "blklab: error: campaign 2: has no tag 'new'\n")
    assert run("runs", "note", "2", "--store", path).status == 2
    assert run("runs", "note", "2", HOSTILE, "--store", path).status == 0
    assert run("runs", "note", "2", "--remove", "--store", path).status == 0
    assert run("runs", "tag", "77", "new", "--store", path).status == 2


def test_real_audit_is_kept_and_shown(run: Run, rich: Arrays, tmp_path: Path) -> None:
    output, store = tmp_path / "web9.probe", tmp_path / "audits.db"
    output.write_bytes(probe(rich.root))
    assert run("md", "audit", "--probed", output, "--keep", "--store", store).status == 1
    assert run("md", "audit", "--probed", output, "--store", store).status == 2  # --store without --keep
    client = Client(Site(str(store), print))
    assert "web9.probe" in client.get("/hosts").text
    html = client.get("/hosts/1").text
    assert "Critical findings" in html
    assert "md5" in html


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:19810", 200),
        ("127.0.0.1:19810", 200),
        ("[::1]:19810", 200),
        ("db.example", 200),
        ("DB.example:80", 200),
        ("evil.example:19810", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example", 400),
    ],
)
def test_names_of_other_sites_are_refused(host: str, status: int, full: Path) -> None:
    client = Client(Site(str(full), print, {"localhost", "db.example"}))
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == status
    if status == 400:
        assert "--host-name adds a name" in answer.text
        assert "unbalanced" not in answer.text


def test_each_run_of_a_campaign_links_to_itself(site: Client) -> None:
    """The table is sorted by labels: links by the order of the runs led to others."""
    links = re.findall(r'<a href="/runs/(\d+)">(\d+)</a>', site.get("/campaigns/1").text)
    assert len(links) > 2
    assert all(address == text for address, text in links)


def test_a_comparison_of_many_cells_has_several_parts(site: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ROWS", 1)
    address = "/compare?side=1&side=3&metric=iops"
    first = site.get(address).text
    assert "sequential</td>" not in first.replace("random</td>", "")
    assert "page=2" in first
    assert "sequential" in site.get(f"{address}&page=2").text
    assert site.get(f"{address}&page=99").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_a_refused_method_says_which_are_allowed(site: Client, method: str) -> None:
    response = site.open("/", method=method)
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, HEAD"


def test_a_page_compares_a_limited_number_of_runs(site: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_RUNS", 3)
    response = site.get("/compare?side=1&side=3")
    assert response.status_code == 400
    text = unescape(re.sub(r"<[^>]+>", "", response.text)).replace("\xa0", " ")
    assert "expected at most 3: use blklab compare 1 3" in text.replace("`", "")


def test_a_metric_that_is_named_often_is_compared_once(site: Client) -> None:
    address = "/compare?side=1&side=3&metric=iops"
    title = "I/Os a second (iops)"
    html = site.get(f"{address}{',iops' * 3000}").text
    assert html.count(title) == site.get(address).text.count(title)


def test_drawn_pages_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "REMEMBERED_BYTES", 5)
    drawn: list[object] = []

    def draw(_state: str, value: str) -> str:
        drawn.append(value)
        return value * 3

    pages = DrawnOnce(draw, len)
    for value in ("a", "a", "b", "a"):
        assert pages.read("state", value) == value * 3
    assert drawn == ["a", "b", "a"]
    pages.read("other state", "a")
    assert drawn == ["a", "b", "a", "a"]


def test_a_page_waits_for_others_with_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "DRAW_S", 0.01)
    pages = DrawnOnce(lambda _state: "", len, at_once=1)
    with pages._locks[0], pytest.raises(ServiceUnavailable):
        pages.read("state")
