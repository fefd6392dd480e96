"""`blklab md watch`: exports md arrays to Prometheus, or sends messages about what goes wrong."""

import os
import time
from pathlib import Path

import click

from blklab import output
from blklab.cli.common import Quantity, note, warn
from blklab.cli.web_server import serve_app, web_config_option
from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots
from blklab.text.printing import printable
from blklab.units import NANOSECONDS, parse_duration

NEVER = 0
STATE_FILE = "md-alerts.json"  # Of --mail, --journal and --command, in root's state directory


def _parse_interval(text: str) -> int:
    return NEVER if text == "never" else parse_duration(text)


INTERVAL = Quantity("duration", _parse_interval)


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; :PORT means all addresses, [::1]:PORT is IPv6.  [default: 127.0.0.1:19809]",
)
@web_config_option
@click.option(
    "--superblocks",
    type=INTERVAL,
    metavar="DURATION",
    help="Time after which superblocks are read again; 'never' does not read them.  [default: 1h]",
)
@click.option("--textfile", metavar="FILE", help="Write FILE once, for node_exporter, and exit; - is stdout.")
@click.option("--mail", metavar="ADDRESS", help="Audit once; mail what is new, worse or gone since the last time.")
@click.option("--journal", is_flag=True, help="The same, to the journal (syslog).")
@click.option("--command", metavar="PROGRAM", help="The same, to the standard input of PROGRAM with its ARGs.")
@click.option(
    "--forget", metavar="UUID", help="Forget an array that you have retired, so that its absence is no finding."
)
@click.argument("arguments", metavar="[ARG]...", nargs=-1)
def watch(
    *,
    listen: str | None,
    web_config: Path | None,
    superblocks: int | None,
    textfile: str | None,
    mail: str | None,
    journal: bool,
    command: str | None,
    forget: str | None,
    arguments: tuple[str, ...],
) -> None:
    """Export the md arrays of this host to Prometheus, above all their bad-block lists.

    This changes nothing. It reads sysfs at each scrape, and the members' superblocks once per hour
    and when md has just written them. A metric counts what cannot be read, and stderr names it.
    docs/howto/watch.md is about units for systemd, alert rules and a dashboard.

    Without Prometheus: --mail, --journal and --command send one message if a finding of `blklab md audit` appears, is
    worse or is gone, with the command to type, and exit. A timer calls them; as root. Notes are not sent. An array that
    was there at an earlier call and is not assembled now is a finding; --forget is for arrays that you have retired.

    \b
    Examples:
      blklab md watch
      blklab md watch --listen :19809 --web-config /etc/blklab/web-config.yml
      blklab md watch --superblocks never
      blklab md watch --textfile /var/lib/prometheus/node-exporter/blklab_md.prom
      blklab md watch --mail root --journal
      blklab md watch --command /usr/local/bin/notify -- --priority high
      blklab md watch --forget 3156a3e6:4a433ea3:f425167f:2e6739fd
    """
    if forget is not None:
        if mail or journal or command or listen or web_config or textfile or superblocks is not None:
            raise UsageError("--forget: remove the other options")
        from blklab.md import alerts

        if os.geteuid() != 0:
            raise EnvironmentLacks("permission denied", "run it as root")
        name = alerts.forget(Roots().state_of_root / STATE_FILE, forget)
        click.echo(f"{printable(name)}: forgotten")
        return
    if mail or journal or command:
        if listen or web_config or textfile or superblocks is not None:
            raise UsageError("--mail, --journal, --command: remove --listen, --web-config, --superblocks, --textfile")
        _send_alerts(mail, [command, *arguments] if command else None, to_journal=journal)
        return
    if arguments:
        raise UsageError(f"{printable(arguments[0])}: unexpected: arguments are those of the program of --command")
    from prometheus_client import generate_latest, make_wsgi_app

    from blklab.md.exporter.activity import READ_INTERVAL_S, ActivityCounter, ActivitySinceBoot
    from blklab.md.exporter.collector import Collector, make_registry
    from blklab.md.exporter.inventory_cache import DISK_TIMEOUT_S, InventoryCache
    from blklab.md.exporter.shared_collections import COLLECTION_DEADLINE_S

    if textfile is not None:
        if listen or web_config:
            raise UsageError("--textfile: does not listen; remove --listen and --web-config")
        if superblocks:
            raise UsageError("--textfile: reads superblocks every time; --superblocks can only be 'never' here")
        output.check(textfile)
    interval = NANOSECONDS["h"] if superblocks is None else superblocks
    max_age = None if interval == NEVER else interval / NANOSECONDS["s"]
    timeout = DISK_TIMEOUT_S if textfile is None else None
    inventories = InventoryCache(Roots(), max_age, timeout=timeout)
    activity = ActivityCounter(Roots()) if textfile is None else ActivitySinceBoot(Roots())
    deadline = COLLECTION_DEADLINE_S if textfile is None else None
    registry = make_registry(Collector(inventories, activity, warn, Roots(), deadline=deadline))
    if textfile is not None:
        # node_exporter runs as another user.
        output.write(textfile, generate_latest(registry), mode=0o644)
        return
    with serve_app(listen or "127.0.0.1:19809", web_config, make_wsgi_app(registry), "metrics"):
        while True:
            activity.read()
            time.sleep(READ_INTERVAL_S)


def _send_alerts(mail: str | None, program: list[str] | None, *, to_journal: bool) -> None:
    """Sends what changed to each receiver that was asked for, and prints its titles on a terminal."""
    from blklab.md import alerts

    senders = []
    if mail:
        senders.append(alerts.mail(mail))
    if to_journal:
        senders.append(alerts.journal)
    if program:
        senders.append(alerts.program(program))
    for alert in alerts.watch(Roots().state_of_root / STATE_FILE, senders):
        note(alert.title)
