"""`blklab trace live`: watch devices."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import DURATION, SECONDS, notes
from blklab.errors import UsageError
from blklab.system.roots import Roots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blklab.trace.live import LiveScreen
    from blklab.trace.record.live import LiveLook


@click.command()
@click.argument("devices", metavar="DEVICE...", nargs=-1, required=True)
@click.option("-w", "duration", type=SECONDS, metavar="TIME", help="End after this time; default: Ctrl-C ends it.")
@click.option("--interval", type=DURATION, default="2s", help="Time between two refreshes.")
@click.option("--window", type=DURATION, default="5s", help="The figures are of this last time.")
@click.option("-o", "output", type=click.Path(path_type=Path), metavar="NAME", help="Keep the recording.")
@click.option("--only", is_flag=True, help="Do not record the devices below, such as members.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document in each interval.")
def live(
    *,
    devices: tuple[str, ...],
    duration: int | None,
    interval: int,
    window: int,
    output: Path | None,
    only: bool,
    as_json: bool,
) -> None:
    """Watch DEVICE… and the devices below with blktrace, as root.

    The screen shows load, latency and queue depth of the last seconds, the members' shares, the busiest processes and
    the slowest I/Os. If stdout is no terminal, there is one line in each interval. blktrace's events arrive up to a
    second late. Above about a million events in the window, the window is shorter.

    With -o, the recording is written as `blklab trace record` does, when it ends.

    \b
    Examples:
      blklab trace live /dev/md4
      blklab trace live /dev/md4 -w 60 -o /dev/shm/md4
      blklab trace live /dev/sda --json | jq .devices[0].pattern.arrivals

    \b
    Exit status: 0 ended by its time or a signal; 1 blktrace failed; 2 wrong
    usage; 3 a right or a program is missing.
    """
    from blklab.trace.live import LiveScreen
    from blklab.trace.record import live as recorder
    from blklab.trace.record.checks import find_devices

    for name, value in (("-w", duration), ("--interval", interval), ("--window", window)):
        if value is not None and value <= 0:
            raise UsageError(f"{name} 0s: expected more than 0")
    if output is not None and any(output.parent.glob(f"{output.name}*")):
        raise UsageError(f"{output}: exists; choose another name")
    roots = Roots()
    recorded_devices = find_devices(devices, roots) if only else recorder.with_members(devices, roots)
    seconds = None if duration is None else duration / 1e9
    options = recorder.LiveOptions(seconds, interval / 1e9, window / 1e9, output)
    names = {device.number.replace(":", ","): device.name for device in recorded_devices}
    screen = LiveScreen(names, next(iter(names)))
    with recorder.watch_devices(recorded_devices, options, roots) as looks:
        try:
            _show(looks, screen, as_json=as_json)
        except KeyboardInterrupt:
            notes().print("ended by a signal")
    if output is not None:
        notes().print(f"next: blklab trace report {output}")


def _show(looks: "Iterator[LiveLook]", screen: "LiveScreen", *, as_json: bool) -> None:
    if as_json:
        import msgspec

        for look in looks:
            click.echo(msgspec.json.encode(look.profile))
        return
    if not sys.stdout.isatty():
        for look in looks:
            screen.add(look)
            click.echo(screen.line())
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as display:
        for look in looks:
            screen.add(look)
            with console.capture() as capture:
                screen.draw(console)
            display.update(Group(Text.from_ansi(capture.get())), refresh=True)
