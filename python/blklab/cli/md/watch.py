"""`blklab md watch`: exports md arrays to Prometheus."""

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
    help="Address to listen on; :PORT means all addresses, [::1]:PORT is IPv6.  [default: 127.0.0.1:19809]",
)
@click.option(
    "--web-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificates and users, in the format of Prometheus's web configuration files.",
)
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
    from blklab.errors import UsageError
    from blklab.md.exporter.inventory_cache import InventoryCache
    from blklab.system.roots import Roots

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

    from blklab import output
    from blklab.md.exporter.collector import Collector, make_registry
    from blklab.md.exporter.device_activity import ActivitySinceBoot
    from blklab.system.roots import Roots

    output.check(path)
    collector = Collector(inventories, ActivitySinceBoot(Roots()), warn, Roots())
    content = generate_latest(make_registry(collector))
    # node_exporter runs as another user.
    output.write(path, content, mode=0o644)


def _serve(listen: str, config: Path | None, inventories: "InventoryCache") -> None:
    import threading

    from blklab.md.exporter.collector import Collector, make_registry
    from blklab.md.exporter.device_activity import READ_INTERVAL_S, ActivityCounter
    from blklab.md.exporter.server import ListenAddress, MetricsServer
    from blklab.md.exporter.web_config import WebConfig, load_web_config, make_tls_context
    from blklab.system.roots import Roots

    address = ListenAddress(listen)
    settings = load_web_config(config) if config else WebConfig()
    if config and settings.tls_server_config:
        make_tls_context(config, settings.tls_server_config)
    _warn_about_access(address, settings)
    activity = ActivityCounter(Roots())
    registry = make_registry(Collector(inventories, activity, warn, Roots()))
    with MetricsServer(address, registry, config, warn) as server:
        scheme = "https" if settings.tls_server_config else "http"
        click.echo(f"blklab: listening on {scheme}://{server.address}/metrics", err=True)
        threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
        try:
            while True:
                activity.read()
                time.sleep(READ_INTERVAL_S)
        except (KeyboardInterrupt, SystemExit):
            server.shutdown()  # a service that is stopped has not failed


def _warn_about_access(address: "ListenAddress", settings: "WebConfig") -> None:
    """Warns if other hosts can read the metrics without a password, or a password in clear text."""
    if address.host == "localhost" or _is_loopback(address.host):
        return
    tls = settings.tls_server_config
    if not settings.basic_auth_users and not (tls and tls.client_ca_file):
        warn(f"{address}: everyone on the network can read the metrics; to restrict this, use --web-config")
    elif not tls:
        warn(
            f"{address}: passwords cross the network unencrypted; to encrypt them, set"
            " tls_server_config in the file of --web-config"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
