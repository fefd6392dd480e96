"""Make the pictures of README.md and the docs again.

.venv/bin/python scripts/pictures.py            # needs chromium for those of pages
.venv/bin/python scripts/pictures.py --check    # fails if those of terminals are old
"""

import io
import os
import pty
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
BLKLAB = ROOT / ".venv/bin/blklab"
COLUMNS = 100
PORT = 19_877

TERMINALS = {
    "audit": "md audit --image examples/images/sda1.img examples/images/sdb1.img",
    "stat": "trace stat tests/data/traces/pgbench-raid1/md127",
}
MOST_LINES = 32  # Of a terminal's first screen

DARK = ((30, 33, 39), (220, 223, 228))
NORMAL = [
    (30, 33, 39),
    (224, 108, 117),
    (152, 195, 121),
    (229, 192, 123),
    (97, 175, 239),
    (198, 120, 221),
    (86, 182, 194),
]
THEME = TerminalTheme(*DARK, [*NORMAL, DARK[1]], [*NORMAL, DARK[1]])

# Rich's frame without its fonts, which a page would load from another host.
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def printed(command: str) -> str:
    """Return what a command prints on a terminal."""
    out: list[bytes] = []

    def read(descriptor: int) -> bytes:
        out.append(os.read(descriptor, 65536))
        return out[-1]

    os.environ.pop("NO_COLOR", None)
    os.environ |= {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    # A bar of progress, if the command takes long, is not part of it.
    pty.spawn(["sh", "-c", f"{BLKLAB} {command} 2> /dev/null"], read)
    return b"".join(out).decode().replace("\r\n", "\n")


def draw_terminal(command: str) -> str:
    """Return a drawing (SVG) of a terminal after a command."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    lines = printed(command).strip("\n").split("\n")[:MOST_LINES]
    console.print(Text.from_ansi("\n".join([f"$ blklab {command}", "", *lines])))
    return console.export_svg(title="", theme=THEME, code_format=FRAME, unique_id="terminal")


def take_picture(address: str, path: Path, size: str) -> None:
    """Write a picture of a page."""
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000", f"--window-size={size}"]
    subprocess.run(["chromium", *options, f"--screenshot={path}", address], check=True, capture_output=True)


def main() -> None:
    """Write all pictures, or check those of terminals."""
    os.chdir(ROOT)
    drawn = {IMAGES / f"{name}.svg": draw_terminal(command) for name, command in TERMINALS.items()}
    if sys.argv[1:] == ["--check"]:
        old = [path.name for path, drawing in drawn.items() if path.read_text() != drawing]
        sys.exit(f"docs/images: old: {', '.join(old)}; run scripts/pictures.py" if old else 0)
    for path, drawing in drawn.items():
        path.write_text(drawing)
    with tempfile.TemporaryDirectory(prefix="pictures") as directory:
        page, store = Path(directory, "report.html"), ("--store", str(Path(directory, "store.db")))
        subprocess.run([BLKLAB, "trace", "report", "tests/data/traces/pgbench-raid1", "-o", page], check=True)
        take_picture(page.as_uri(), IMAGES / "report.png", "1180,1888")
        for kernel in ("4.19", "5.10", "6.1"):
            options = (
                "--set",
                f"kernel={kernel}",
                "--set",
                "max_ios=50000",
                "--set",
                "repeats=2",
                "--only",
                "stack=near",
            )
            subprocess.run([BLKLAB, "run", "examples/unbalanced.toml", *options, *store], check=True)
        with subprocess.Popen([BLKLAB, "serve", "--listen", f"127.0.0.1:{PORT}", *store]) as server:
            time.sleep(3)
            take_picture(f"http://127.0.0.1:{PORT}/trends/unbalanced", IMAGES / "trend.png", "1100,820")
            server.terminate()


main()
