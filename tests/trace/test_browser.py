"""The page in a real Chromium: charts drawn, nothing complained of, hostile names inert."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.trace import page
from blklab.trace.view import ProfileView
from tests.chromium import CHROMIUM, Page, browser
from tests.trace.conftest import life, read_trace
from tests.trace.generated import NOTIFY, Record, write_trace

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: scripts/setup test")

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><b>",
    "'-alert(3)-'",
    "\u202egnp.exe\u2028",
    "{{7*7}}${alert(4)}",
]
"""Names of processes. The kernel cuts them at 16 bytes; here they are whole."""

SHOWN = [*HOSTILE[:4], "\\u202egnp.exe\\u2028", HOSTILE[5]]
"""The same as text on the page."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a trace whose device and processes have hostile names."""
    directory = tmp_path_factory.mktemp("hostile")
    records = []
    for pid, name in enumerate(HOSTILE, start=100):
        records.append(Record(0, 0, NOTIFY, pid=pid, pdu=name.encode() + b"\0"))
    for at in range(600):
        pid, start = 100 + at % len(HOSTILE), at * 20_000_000
        records += life(start, (at * 7919) % 100_000 * 8, write=at % 3 == 0, pid=pid)
    trace = write_trace(directory / "<img src=y onerror=alert(5)>", records)
    path = directory / "report.html"
    profile = read_trace(trace).profile
    for group in profile.devices[0].load.processes:  # whole, not cut at 16 bytes
        group.name = next(n for n in HOSTILE if n.startswith(group.name.rstrip("\ufffd")))
    view = ProfileView(profile)
    path.write_text(page.render(view, title=HOSTILE[0], command=" ".join(HOSTILE)))
    return path


def drawn(chromium: Page) -> None:
    """Every chart is there, and nothing was complained of or fetched."""
    assert chromium.ask("document.querySelectorAll('.chart').length") > 8
    empty = chromium.ask(
        "[...document.querySelectorAll('.chart')].filter(c => !c.querySelector('svg .mark-group"
        " path, svg .mark-rect path, svg .mark-symbol path, svg image')).map(c => c.dataset.chart)"
    )
    assert empty == []
    assert chromium.console == []
    assert {url for url in chromium.requests if not url.startswith(("file:", "about:", "data:image/png"))} == set()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390], ids=["desk", "phone"])
def test_a_real_trace(chromium: Page, pgbench: ProfileView, tmp_path: Path, width: int, dark: bool) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=width, dark=dark)
    drawn(chromium)
    assert chromium.ask("document.documentElement.scrollWidth") <= width
    wide = chromium.ask(
        "[...document.querySelectorAll('.chart svg')].filter(s => s.getBoundingClientRect().right > innerWidth).length"
    )
    assert wide == 0
    background = chromium.ask("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(14, 19, 25)" if dark else "rgb(245, 246, 248)")
    label = chromium.ask("getComputedStyle(document.querySelector('.role-axis-label text')).fill")
    assert label == ("rgb(154, 167, 182)" if dark else "rgb(90, 102, 117)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_hostile_names_are_text(chromium: Page, hostile: Path, dark: bool) -> None:
    chromium.show(hostile, width=390, dark=dark)
    drawn(chromium)
    assert chromium.ask("document.querySelectorAll('img').length") == 0
    assert chromium.ask("document.querySelectorAll('script').length") == 3
    assert chromium.ask("document.title") == HOSTILE[0]
    shown = chromium.ask("document.body.textContent")
    labels = chromium.ask("document.querySelector('#chart-by-processes svg').textContent")
    for name in SHOWN:
        assert name in shown
        # Long labels are cut by Vega, with an ellipsis.
        assert name[:12] in labels
    assert chromium.ask("document.documentElement.scrollWidth") <= 390


def test_tooltips_hold_no_html(chromium: Page, hostile: Path) -> None:
    chromium.show(hostile, width=1200, dark=False)
    bars = "document.querySelectorAll('#chart-by-processes .mark-rect path')"
    chromium.ask(f"{bars}[0].scrollIntoView({{block: 'center', behavior: 'instant'}})")
    seen = set()
    for number in range(chromium.ask(f"{bars}.length")):
        place = chromium.ask(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])({bars}[{number}].getBoundingClientRect())"
        )
        chromium.point_at(*place)
        tooltip = "document.getElementById('vg-tooltip-element')"
        seen.add(chromium.ask(f"{tooltip}.querySelector('.value').innerHTML"))
        tags = chromium.ask(f"[...{tooltip}.querySelectorAll('*')].map(e => e.localName)")
        assert set(tags) <= {"table", "tbody", "tr", "td"}
    shown = {html.unescape(text) for text in seen}
    assert shown == set(SHOWN)
    assert chromium.console == []


def test_charts_over_time_zoom_together(chromium: Page, pgbench: ProfileView, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=False)
    ticks = "document.querySelector('#chart-{} .role-axis-label').textContent"
    before = chromium.ask(ticks.format("throughput"))
    chromium.ask("document.querySelector('#chart-iops').scrollIntoView({block: 'center', behavior: 'instant'})")
    x, y = chromium.ask(
        "(r => [r.x + r.width / 2, r.y + r.height / 2])"
        "(document.querySelector('#chart-iops svg').getBoundingClientRect())"
    )
    wheel = {"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": -300, "modifiers": 2}
    chromium.call("Input.dispatchMouseEvent", **wheel)
    chromium.ask("new Promise(done => setTimeout(done, 500))")
    assert chromium.ask(ticks.format("iops")) != before
    assert chromium.ask(ticks.format("throughput")) == chromium.ask(ticks.format("iops"))
    assert chromium.console == []


def test_on_paper_it_is_light_and_short_tables_are_unfolded(
    chromium: Page, pgbench: ProfileView, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=True)
    chromium.call("Emulation.setEmulatedMedia", media="print")
    try:
        ink = chromium.ask("getComputedStyle(document.body).color")
        assert ink == "rgb(28, 36, 48)"
        chromium.ask("dispatchEvent(new Event('beforeprint'))")
        assert chromium.ask("document.querySelectorAll('details.short:not([open])').length") == 0
        assert chromium.ask("document.querySelectorAll('details[open]').length") > 5
        chromium.ask("dispatchEvent(new Event('afterprint'))")
        assert chromium.ask("document.querySelectorAll('details[open]').length") == 0
    finally:
        chromium.call("Emulation.setEmulatedMedia", media="")
    chromium.paper(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_every_chart_over_time_has_its_figures_under_the_pointer(
    chromium: Page, pgbench: ProfileView, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=False)
    tooltip = "document.getElementById('vg-tooltip-element')"
    charts = ("iops", "throughput", "latency-over-time", "depth-over-time", "processes-over-time", "working-set")
    for chart in charts:
        place = f"document.querySelector('#chart-{chart} svg')"
        chromium.ask(f"{place}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = chromium.ask(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({place}.getBoundingClientRect())")
        chromium.point_at(x - 5, y)
        chromium.point_at(x, y)
        chromium.wait_for(f"{tooltip}?.classList.contains('visible')")
        text = chromium.ask(f"{tooltip}.innerText")
        assert text.startswith("from"), chart
        assert "undefined" not in text, chart
        chromium.point_at(5, 5)
        chromium.wait_for(f"!{tooltip}.classList.contains('visible')")


def test_no_tooltip_says_undefined(chromium: Page, pgbench: ProfileView, tmp_path: Path) -> None:
    """Wherever the pointer is over a chart: each mark that has a tooltip says something."""
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=False)
    tooltip = "document.getElementById('vg-tooltip-element')"
    names = chromium.ask("[...document.querySelectorAll('[data-chart]')].map(c => c.dataset.chart)")
    with_tooltip = set()
    for name in names:
        place = f"document.querySelector('#chart-{name} svg')"
        chromium.ask(f"{place}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y, width, height = chromium.ask(f"(r => [r.x, r.y, r.width, r.height])({place}.getBoundingClientRect())")
        for across in (0.2, 0.35, 0.5, 0.65):
            for down in (0.35, 0.55, 0.75):
                chromium.point_at(x + across * width, y + down * height)
                text = chromium.ask(f"{tooltip}?.classList.contains('visible') ? {tooltip}.innerText : ''")
                assert "undefined" not in text and "NaN" not in text, (name, text)
                if text:
                    with_tooltip.add(name)
    assert len(with_tooltip) > 10, with_tooltip
    assert chromium.console == []


def drag(chromium: Page, chart: str, begin: float, end: float) -> None:
    """Drag with Shift over a part of a chart: shares of its width."""
    place = f"document.querySelector('#chart-{chart} svg')"
    chromium.ask(f"{place}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y, width = chromium.ask(f"(r => [r.x, r.y + r.height / 2, r.width])({place}.getBoundingClientRect())")
    shift = 8
    steps = [("mouseMoved", begin), ("mousePressed", begin), ("mouseMoved", (begin + end) / 2), ("mouseMoved", end)]
    for kind, at in [*steps, ("mouseReleased", end)]:
        chromium.call(
            "Input.dispatchMouseEvent", type=kind, x=x + at * width, y=y, modifiers=shift, button="left", clickCount=1
        )


def test_a_range_of_time_has_its_sums(chromium: Page, pgbench: ProfileView, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=False)
    drag(chromium, "iops", 0.01, 0.99)
    sums = chromium.ask("document.querySelector('#chart-iops .range').textContent")
    device = pgbench.focus
    # The whole trace: what the table of operations counts.
    reads = device.op("read").ios
    assert f"read {reads:,} I/Os" in sums, sums
    assert "per second" in sums
    assert chromium.ask("document.querySelectorAll('.chart .band:not([hidden])').length") > 5
    assert "% busy" in chromium.ask("document.querySelector('#chart-utilisation .range').textContent")
    chromium.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert chromium.ask("document.querySelectorAll('.chart .band:not([hidden])').length") == 0


def test_one_cursor_marks_the_same_time_in_all_charts(chromium: Page, pgbench: ProfileView, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=False)
    place = "document.querySelector('#chart-throughput svg')"
    chromium.ask(f"{place}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = chromium.ask(f"(r => [r.x + r.width / 3, r.y + r.height / 2])({place}.getBoundingClientRect())")
    chromium.point_at(x, y)
    cursors = "[...document.querySelectorAll('.chart .cursor:not([hidden])')]"
    places = chromium.ask(f"{cursors}.map(c => Math.round(c.getBoundingClientRect().x))")
    assert len(places) > 5
    assert max(places) - min(places) <= 1, "charts over time are aligned"
    assert abs(places[0] - x) <= 2


def test_a_printed_report_has_at_most_five_pages(chromium: Page, pgbench: ProfileView, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render(pgbench))
    chromium.show(path, width=1200, dark=False)
    chromium.paper(tmp_path / "report.pdf")
    pages = re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes())
    assert 2 <= len(pages) <= 5
