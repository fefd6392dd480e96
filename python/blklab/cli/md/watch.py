"""`blklab md watch`: arrays for Prometheus."""

import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from blklab.cli.common import DURATION, warn
from blklab.units import NANOSECONDS

if TYPE_CHECKING:
    from blklab.md.exporter.inventory_cache import InventoryCache
    from blklab.md.exporter.server import ListenAddress
    from blklab.md.exporter.web_config import WebConfig

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
    help="Where to listen; :PORT is all addresses, [::1]:PORT IPv6.  [default: 127.0.0.1:19809]",
)
@click.option(
    "--web-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificates and users, as Prometheus's web configuration files have them.",
)
@click.option(
    "--superblocks",
    type=_Interval(),
    metavar="DURATION",
    help="How old superblocks may become before the disks are read again; 'never' reads none."
    "  [default: 1h]",
)
@click.option(
    "--textfile",
    metavar="FILE",
    help="Write FILE once, for node_exporter, and end; - is standard output.",
)
def watch(
    *, listen: str | None, web_config: Path | None, superblocks: int | None, textfile: str | None
) -> None:
    """Export the md arrays of this machine to Prometheus; bad-block lists first.

    Nothing is changed, and no array is touched: sysfs is read at each scrape, the members'
    superblocks once in an hour, and when md has just written them. What cannot be seen is counted,
    and said on stderr. Units for systemd, alerts and a dashboard are in packaging/.

    \b
    Examples:
      blklab md watch
      blklab md watch --listen :19809 --web-config /etc/blklab/web-config.yml
      blklab md watch --superblocks never
      blklab md watch --textfile /var/lib/prometheus/node-exporter/blklab_md.prom
    """
    from blklab.errors import UsageError
    from blklab.md.exporter.inventory_cache import InventoryCache
    from blklab.system.roots import Roots

    every = HOUR if superblocks is None else superblocks
    age = None if every == NEVER else every / NANOSECONDS["s"]
    if textfile is None:
        _serve(listen or "127.0.0.1:19809", web_config, InventoryCache(Roots(), age))
        return
    if listen or web_config:
        raise UsageError("--textfile serves nothing: leave --listen and --web-config out")
    if superblocks:
        raise UsageError("--textfile reads superblocks each time, or --superblocks never")
    _write(textfile, InventoryCache(Roots(), age, patience=None))


def _write(path: str, disks: "InventoryCache") -> None:
    from prometheus_client import generate_latest

    from blklab import output
    from blklab.md.exporter.collector import Collector, registry
    from blklab.md.exporter.device_activity import ActivitySinceBoot
    from blklab.system.roots import Roots

    output.check(path)
    content = generate_latest(registry(Collector(disks, ActivitySinceBoot(Roots()), warn)))
    # node_exporter is somebody else.
    output.write(path, content, mode=0o644)


def _serve(listen: str, config: Path | None, disks: "InventoryCache") -> None:
    import threading

    from blklab.md.exporter.collector import Collector, registry
    from blklab.md.exporter.device_activity import INTERVAL, ActivityCounter
    from blklab.md.exporter.server import ListenAddress, MetricsServer
    from blklab.md.exporter.web_config import WebConfig, context, load
    from blklab.system.roots import Roots

    address = ListenAddress(listen)
    settings = load(config) if config else WebConfig()
    if config and settings.tls_server_config:
        context(config, settings.tls_server_config)
    _say_who_may_read(address, settings)
    tally = ActivityCounter(Roots())
    with MetricsServer(address, registry(Collector(disks, tally, warn)), config, warn) as server:
        scheme = "https" if settings.tls_server_config else "http"
        click.echo(f"blklab: listening on {scheme}://{server.address}/metrics", err=True)
        threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
        try:
            while True:
                tally.read()
                time.sleep(INTERVAL)
        except (KeyboardInterrupt, SystemExit):
            server.shutdown()  # a service that is stopped has not failed


def _say_who_may_read(address: "ListenAddress", settings: "WebConfig") -> None:
    """Warns of what an address that is not this machine's alone gives away."""
    if address.host == "localhost" or _loopback(address.host):
        return
    tls = settings.tls_server_config
    if not settings.basic_auth_users and not (tls and tls.client_ca_file):
        warn(f"{address}: whoever reaches it may read everything; --web-config names who may")
    elif not tls:
        warn(f"{address}: without tls_server_config, passwords cross the network as they are")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
