"""`blklab md watch`: exports md arrays to Prometheus."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from blklab import output
from blklab.cli.common import DURATION, warn
from blklab.cli.web_server import listening, web_config_option
from blklab.errors import UsageError
from blklab.system.roots import Roots
from blklab.units import NANOSECONDS

if TYPE_CHECKING:
    from blklab.md.exporter.inventory_cache import InventoryCache

NEVER: Final = 0
HOUR: Final = NANOSECONDS["h"]


class _Interval(click.ParamType[int]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return NEVER if value == "never" else DURATION.convert(value, param, ctx)


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; :PORT means all addresses, [::1]:PORT is IPv6.  [default: 127.0.0.1:19809]",
)
@web_config_option
@click.option(
    "--superblocks",
    type=_Interval(),
    metavar="DURATION",
    help="Time after which superblocks are read again; 'never' does not read them.  [default: 1h]",
)
@click.option("--textfile", metavar="FILE", help="Write FILE once, for node_exporter, and exit; - is stdout.")
def watch(*, listen: str | None, web_config: Path | None, superblocks: int | None, textfile: str | None) -> None:
    """Export the md arrays of this host to Prometheus, above all their bad-block lists.

    This changes nothing. It reads sysfs at each scrape, and the members' superblocks once per hour
    and when md has just written them. A metric counts what cannot be read, and stderr names it.
    Units for systemd, alert rules and a dashboard are in packaging/.

    \b
    Examples:
      blklab md watch
      blklab md watch --listen :19809 --web-config /etc/blklab/web-config.yml
      blklab md watch --superblocks never
      blklab md watch --textfile /var/lib/prometheus/node-exporter/blklab_md.prom
    """
    from blklab.md.exporter.inventory_cache import InventoryCache

    interval = HOUR if superblocks is None else superblocks
    max_age = None if interval == NEVER else interval / NANOSECONDS["s"]
    if textfile is None:
        _serve(listen or "127.0.0.1:19809", web_config, InventoryCache(Roots(), max_age))
        return
    if listen or web_config:
        raise UsageError("--textfile: does not listen; remove --listen and --web-config")
    if superblocks:
        raise UsageError("--textfile: reads superblocks every time; --superblocks can only be 'never' here")
    _write_textfile(textfile, InventoryCache(Roots(), max_age, timeout=None))


def _write_textfile(path: str, inventories: "InventoryCache") -> None:
    from prometheus_client import generate_latest

    from blklab.md.exporter.collector import Collector, make_registry
    from blklab.md.exporter.device_activity import ActivitySinceBoot

    output.check(path)
    collector = Collector(inventories, ActivitySinceBoot(Roots()), warn, Roots())
    content = generate_latest(make_registry(collector))
    # node_exporter runs as another user.
    output.write(path, content, mode=0o644)


def _serve(listen: str, config: Path | None, inventories: "InventoryCache") -> None:
    from prometheus_client import make_wsgi_app

    from blklab.md.exporter.collector import Collector, make_registry
    from blklab.md.exporter.device_activity import READ_INTERVAL_S, ActivityCounter

    activity = ActivityCounter(Roots())
    registry = make_registry(Collector(inventories, activity, warn, Roots()))
    with listening(listen, config, make_wsgi_app(registry), "metrics"):
        while True:
            activity.read()
            time.sleep(READ_INTERVAL_S)
