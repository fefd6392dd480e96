"""Every page in a real Chromium, from the real server: a silent console, accessible, usable without scripts."""

import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from blklab.web.server import ListenAddress, WebServer
from blklab.web.site import Site
from tests.chromium import CHROMIUM, Page, browser
from tests.web.conftest import PAGES

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: scripts/setup test")

REPEATED = "{exclude: [['tbody tr:nth-child(n+3)'], ['svg']]}"  # What takes minutes, and is like the rest
AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(full: Path) -> Iterator[str]:
    with WebServer(ListenAddress("127.0.0.1:0"), Site(str(full), print), None, print) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        yield f"http://{server.address}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_page_is_accessible_and_silent(chromium: Page, address: str, path: str, dark: bool) -> None:
    chromium.console.clear()
    chromium.requests.clear()
    chromium.open(f"{address}{path}", width=1200, dark=dark)
    rules = "{runOnly: ['color-contrast']}" if dark else "{}"  # Only colours differ
    problems = chromium.ask(
        f"(() => {{ {AXE} }})(); axe.run({REPEATED}, {rules}).then(result => result.violations.map("
        "each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 120)).join(' | ')))"
    )
    assert problems == []
    silent = [line for line in chromium.console if "404" not in line]  # of /nothing itself
    assert silent == []
    own = [url for url in chromium.requests if not url.startswith(("about:", "data:"))]
    assert all(url.startswith(f"{address}/") for url in own)


@pytest.mark.parametrize("path", ["/", "/campaigns/1", "/traces", "/hosts/2", "/trends/same?on=sim"])
def test_page_fits_a_phone(chromium: Page, address: str, path: str) -> None:
    chromium.open(f"{address}{path}", width=390, dark=False)
    assert chromium.ask("document.documentElement.scrollWidth") <= 390


def test_campaigns_are_compared_with_the_keyboard_and_without_scripts(chromium: Page, address: str) -> None:
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(f"{address}/", width=1200, dark=False)
        chromium.call("Runtime.evaluate", expression="document.querySelectorAll('[name=side]')[1].focus()")
        for key, code in ((" ", "Space"), ("Tab", "Tab"), ("Tab", "Tab"), (" ", "Space"), ("Enter", "Enter")):
            text = {"text": "\r"} if key == "Enter" else {"text": key} if key == " " else {}
            number = {"Space": 32, "Tab": 9, "Enter": 13}[code]
            for kind in ("keyDown", "keyUp"):
                chromium.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number, **text
                )
        chromium.wait_for("location.search == '?side=3&side=2' && document.readyState == 'complete'")
    finally:
        chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    assert chromium.ask("document.querySelectorAll('td').length") > 10


def press(chromium: Page, key: str, code: str, number: int, text: str) -> None:
    for kind in ("keyDown", "keyUp"):
        chromium.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number, text=text)


def test_campaigns_are_searched_by_typing(chromium: Page, address: str) -> None:
    chromium.open(f"{address}/", width=1200, dark=False)
    assert chromium.ask("document.querySelectorAll('tbody tr').length") == 4
    chromium.ask("document.querySelector('input[type=search]').focus()")
    chromium.call("Input.insertText", text="Each BASELINE")
    press(chromium, "Enter", "Enter", 13, "\r")
    chromium.wait_for("location.search != '' && document.readyState == 'complete'")
    assert chromium.ask("document.querySelector('h1').textContent") == "1 campaign of 4"
    assert chromium.ask("document.querySelector('tbody a').textContent") == "same"
    assert chromium.ask("document.querySelector('input[type=search]').value") == "Each BASELINE"


def test_the_button_compares_two_campaigns_or_more_only(chromium: Page, address: str) -> None:
    chromium.open(f"{address}/", width=1200, dark=False)
    button = "document.querySelector('#choice button')"
    box = "document.querySelectorAll('[name=side]')[{}].click()"
    assert chromium.ask(f"{button}.disabled")
    assert chromium.ask("document.querySelector('#choice [role=status]').textContent") == "Choose two or more."
    chromium.ask(box.format(1))
    assert chromium.ask(f"{button}.disabled")
    chromium.ask(box.format(2))
    assert not chromium.ask(f"{button}.disabled")
    chromium.ask(f"{button}.click()")
    chromium.wait_for("location.pathname == '/compare' && document.readyState == 'complete'")
    assert "400" not in chromium.ask("document.title")


def test_a_point_of_a_trend_tells_its_campaign_and_the_range_of_its_runs(chromium: Page, address: str) -> None:
    chromium.open(f"{address}/trends/same?on=sim", width=1200, dark=False)
    chromium.wait_for("document.documentElement.dataset.drawn == 'yes'")
    point = "document.querySelector('#chart-trend .mark-symbol.role-mark path')"
    chromium.ask(f"{point}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = chromium.ask(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({point}.getBoundingClientRect())")
    chromium.point_at(x, y)
    chromium.wait_for("!!document.querySelector('#vg-tooltip-element.visible')")
    text = chromium.ask("document.getElementById('vg-tooltip-element').innerText")
    assert "lowest run" in text
    assert "1 baseline" in text
    assert "undefined" not in text
