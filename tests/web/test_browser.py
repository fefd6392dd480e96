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


@pytest.mark.parametrize("path", ["/", "/hosts/2", "/trends/same?on=sim"])
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
