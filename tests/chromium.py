"""A real Chromium, headless, spoken to over its DevTools pipe; no library is needed for that."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
PATIENCE = 120.0
"""Seconds after which a page that does nothing has failed; only failures wait so long."""

OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]

STARTER = """
import os, sys
from fcntl import F_DUPFD, fcntl
commands, answers = (fcntl(int(number), F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and answers on 4: this puts them there."""


class Page:
    """One page: opened, asked, pictured."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out = to_browser
        self._in = from_browser
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.console: list[str] = []
        """Warnings, errors and uncaught exceptions, as text."""
        self.requests: list[str] = []
        """What was fetched or tried to be."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends one command and returns its result."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._in, 1 << 20)
            assert read, "Chromium has gone away"
            self._buffer += read
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, about: dict[str, Any]) -> None:
        match method:
            case "Runtime.consoleAPICalled" if about["type"] in {"error", "warning", "assert"}:
                output = [str(a.get("value", a.get("description"))) for a in about["args"]]
                self.console.append(" ".join(output))
            case "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                self.console.append(json.dumps(details.get("exception", details)))
            case "Log.entryAdded" if about["entry"]["level"] in {"error", "warning"}:
                self.console.append(about["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.console.append(f"dialog: {about['message']}")

    def show(self, path: Path, *, width: int, dark: bool, height: int = 900) -> None:
        """Opens a report and waits until its charts are drawn."""
        self._look(width=width, dark=dark, height=height)
        self._go("about:blank", "location.href == 'about:blank'")
        self._go(path.resolve().as_uri(), "document.documentElement?.dataset.drawn == 'yes'")

    def open(self, url: str, *, width: int, dark: bool, height: int = 900) -> None:
        """Opens an address and waits until the page is complete."""
        self._look(width=width, dark=dark, height=height)
        self._go("about:blank", "location.href == 'about:blank'")
        self._go(url, "location.href != 'about:blank' && document.readyState == 'complete'")

    def _look(self, *, width: int, dark: bool, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _go(self, url: str, done: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for(done)

    def wait_for(self, done: str) -> None:
        """Waits until a JavaScript expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.ask(done):
            assert time.monotonic() < deadline, self.console
            time.sleep(0.05)

    def ask(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        """Moves the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Writes a PNG of what is seen, or of the whole page."""
        result = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(result["data"]))

    def paper(self, path: Path) -> None:
        """Writes the page as PDF, as printed."""
        result = self.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.7)
        path.write_bytes(base64.b64decode(result["data"]))


@contextmanager
def browser() -> Iterator[Page]:
    """Runs Chromium with an empty profile and gives a page; ends it afterwards."""
    with tempfile.TemporaryDirectory(prefix="blklab-", dir="/tmp", ignore_cleanup_errors=True) as profile:
        yield from _browser(profile)


def _browser(directory: str) -> Iterator[Page]:
    assert CHROMIUM is not None
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    arguments = [CHROMIUM, *OPTIONS, f"--user-data-dir={directory}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(commands), str(answers), *arguments],
        pass_fds=(commands, answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": directory},  # The path of its socket there is short
    )
    os.close(commands)
    os.close(answers)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.close(to_browser)  # Chromium ends when its pipe does
        os.close(from_browser)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
