"""The report on campaigns in a real Chromium: drawn, switched, chosen, folded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blklab.store.campaigns import Store
from tests.campaigns import made
from tests.campaigns.conftest import Reported
from tests.campaigns.test_page import HOSTILE, hostile
from tests.chromium import CHROMIUM, Page, browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: scripts/setup test")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as opened:
        yield opened


def page(report: Any, directory: Path) -> Path:
    path = directory / "report.html"
    path.write_text(report.html())
    return path


EMPTY = """[...document.querySelectorAll('.chart')].filter(c => !c.closest('details:not([open])')
    && !c.querySelector('svg .mark-group path, svg .mark-rect path, svg .mark-symbol path'))
    .map(c => c.dataset.chart)"""


def drawn(chromium: Page, width: int) -> None:
    """Every chart that is not folded is there, nothing was complained of, nothing is too wide."""
    assert chromium.ask("document.querySelectorAll('.chart svg').length") > 5
    assert chromium.ask(EMPTY) == []
    assert chromium.console == []
    assert {url for url in chromium.requests if not url.startswith(("file:", "about:"))} == set()
    assert chromium.ask("document.documentElement.scrollWidth") <= width
    assert not chromium.ask(
        "[...document.querySelectorAll('.chart svg')].filter(s => s.getBoundingClientRect().right > innerWidth).length"
    )


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400], ids=["desk", "phone"])
def test_it_is_drawn(chromium: Page, reported: Reported, tmp_path: Path, width: int, dark: bool) -> None:
    chromium.show(page(reported("1", "2"), tmp_path), width=width, dark=dark)
    drawn(chromium, width)
    background = chromium.ask("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(14, 19, 25)" if dark else "rgb(245, 246, 248)")


@pytest.mark.usefixtures("both")
def test_folds_are_drawn_when_they_are_opened(chromium: Page, reported: Reported, tmp_path: Path) -> None:
    chromium.show(page(reported("1"), tmp_path), width=1200, dark=False)
    folded = "document.querySelectorAll('details.fold [data-chart]')"
    assert chromium.ask(f"{folded}.length") > 3
    assert chromium.ask(f"[...{folded}].filter(c => c.querySelector('svg')).length") == 0
    chromium.ask("document.querySelectorAll('details.fold').forEach(fold => fold.open = true)")
    wait(chromium, f"[...{folded}].every(c => c.querySelector('svg'))")
    drawn(chromium, 1200)


def wait(chromium: Page, condition: str) -> None:
    assert chromium.ask(
        f"(async () => {{ for (let at = 0; at < 600 && !({condition}); at++)"
        f" await new Promise(done => setTimeout(done, 50)); return {condition}; }})()"
    )


@pytest.mark.usefixtures("both")
def test_the_switch_makes_charts_over_time_logarithmic(chromium: Page, reported: Reported, tmp_path: Path) -> None:
    chromium.show(page(reported("1"), tmp_path), width=1200, dark=False)
    axis = (
        "[...document.querySelectorAll('#chart-time-0 .role-axis')].map(a => [...a.querySelectorAll("
        "'.role-axis-label text')].map(t => t.textContent)).filter(a => a.includes('100k'))[0]"
    )
    before = chromium.ask(axis)
    assert "0" in before
    chromium.ask("document.getElementById('log').click()")
    wait(chromium, f"!{axis}.includes('0')")
    assert "100k" in chromium.ask(axis)
    chromium.ask("document.getElementById('log').click()")
    wait(chromium, f"{axis}.includes('0')")
    assert chromium.ask(axis) == before
    assert chromium.console == []


@pytest.mark.usefixtures("sweep")
def test_the_axes_can_be_chosen(chromium: Page, reported: Reported, tmp_path: Path) -> None:
    chromium.show(page(reported("1", x="iodepth"), tmp_path), width=1200, dark=False)
    titles = "[...document.querySelectorAll('[data-chooser] .role-axis-title text')].map(t => t.textContent)"
    assert chromium.ask(titles) == ["iodepth", "I/Os a second"]
    select = (
        "(form => {{ const s = form.elements.{}; s.value = [...s.options].find(o => o.text == '{}')"
        ".value; s.dispatchEvent(new Event('change', {{bubbles: true}})); }})"
        "(document.querySelector('form.choose'))"
    )
    for name, value in (("x", "bs"), ("y", "bandwidth"), ("colour", "iodepth")):
        chromium.ask(select.format(name, value))
    wait(chromium, f"{titles}.join() == 'bs,bandwidth'")
    count = "document.querySelectorAll('[data-chooser] .mark-symbol.role-mark path').length"
    chromium.ask(
        "document.querySelectorAll('[data-filter]').forEach(f => f.value = '');"
        "document.querySelector('[data-filter]')"
        ".dispatchEvent(new Event('change', {bubbles: true}))"
    )
    wait(chromium, f"{count} == 12")
    chromium.ask(
        "(f => { f.value = '4k'; f.dispatchEvent(new Event('change', {bubbles: true})); })"
        "([...document.querySelectorAll('[data-filter]')].find(f => f.parentNode.textContent"
        ".includes('bs')))"
    )
    wait(chromium, f"{count} == 4")
    for number in range(chromium.ask("document.querySelector('form.choose').x.options.length")):
        chromium.ask(
            f"(s => {{ s.selectedIndex = {number};"
            " s.dispatchEvent(new Event('change', {bubbles: true})); })"
            "(document.querySelector('form.choose').x)"
        )
        chromium.ask("new Promise(done => setTimeout(done, 100))")
    assert chromium.console == []


def test_the_chooser_repeats_no_colour(chromium: Page, store: Store, reported: Reported, tmp_path: Path) -> None:
    every = [{"stack": f"raid{at}", "bs": f"{size}k", "repeat": "1"} for at in range(10, 20) for size in (1, 2, 4)]
    made.add(store, every, lambda cell: (made.measured(cell), []))
    chromium.show(page(reported("1", x="bs"), tmp_path), width=1200, dark=False)
    chromium.ask(
        "document.querySelectorAll('[data-filter]').forEach(f => f.value = '');"
        "(form => { form.elements.colour.value = [...form.elements.colour.options].find(o => o.text == 'stack').value;"
        " form.elements.colour.dispatchEvent(new Event('change', {bubbles: true})); })"
        "(document.querySelector('form.choose'))"
    )
    title = "document.querySelector('[data-chooser] .role-legend-title text')?.textContent"
    wait(chromium, f"{title} == 'stack (the first 8 of 10)'")
    strokes = (
        "[...document.querySelectorAll('[data-chooser] .role-legend-symbol path')].map(p => p.getAttribute('fill'))"
    )
    assert len(set(chromium.ask(strokes))) == 8
    assert chromium.console == []


def test_hostile_labels_are_text(chromium: Page, store: Store, reported: Reported, tmp_path: Path) -> None:
    hostile(store)
    chromium.show(page(reported("1", title=HOSTILE), tmp_path), width=400, dark=True)
    chromium.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    wait(chromium, "[...document.querySelectorAll('[data-chart]')].every(c => c.firstChild)")
    drawn(chromium, 400)
    assert chromium.ask("document.querySelectorAll('img').length") == 0
    assert chromium.ask("document.querySelectorAll('script').length") == 3
    assert "onerror=alert(1)>" in chromium.ask("document.querySelector('#chart-fastest-random svg').textContent")
