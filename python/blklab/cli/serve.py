"""`blklab serve`: a web page over the store."""

import socket
import time
from pathlib import Path

import click

from blklab.cli.common import is_given, repeatable, store_option, warn
from blklab.cli.web_server import serve_app, web_config_option
from blklab.errors import UsageError

DEFAULT_PORT = 19810


@click.command()
@click.option(
    "--listen",
    default=f"127.0.0.1:{DEFAULT_PORT}",
    metavar="HOST:PORT",
    help="Address to listen on; :PORT means all addresses, [::1]:PORT is IPv6.",
)
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Short for --listen 127.0.0.1:PORT.")
@web_config_option
@repeatable("--host-name", "names", metavar="NAME", help="Also answer requests to this name of the host.")
@store_option
def serve(*, listen: str, port: int | None, web_config: Path | None, names: tuple[str, ...], store: str | None) -> None:
    """Show the store as a web page: campaigns, comparisons, trends, reports, traces, audits of hosts.

    Without passwords, it answers requests to addresses, localhost, the name of this host, and --host-name only, so that
    other sites cannot read the store through a browser. The page only reads the store. Running campaigns are read again
    every 10 seconds. `blklab trace stat --keep NAME` and `blklab md audit --keep` store what the pages of traces and
    hosts show.

    \b
    Examples:
      blklab serve
      blklab serve --listen :19810 --web-config /etc/blklab/web-config.yml
      blklab serve --store postgresql://blklab@db/results

    \b
    Exit status: 0 stopped by SIGINT or SIGTERM; 2 the store does not exist; 3 the address is in use.
    """
    from blklab.web.config import load_web_config
    from blklab.web.server import ListenAddress
    from blklab.web.site import Site

    if port is not None:
        if is_given("listen"):
            raise UsageError("--port and --listen both name a port: use one of the two")
        listen = f"127.0.0.1:{port}"
    host_names = {"localhost", socket.gethostname(), ListenAddress(listen).host, *names} - {""}
    hosts = (
        None if web_config and load_web_config(web_config).basic_auth_users else {name.lower() for name in host_names}
    )
    with serve_app(listen, web_config, Site(store, warn, hosts), "", connections=256):
        while True:
            time.sleep(3600)
