"""`blklab serve`: a web page over the store."""

import time
from pathlib import Path

import click

from blklab.cli.common import store_option, warn
from blklab.cli.web_server import listening, web_config_option


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:19810",
    metavar="HOST:PORT",
    help="Address to listen on; :PORT means all addresses, [::1]:PORT is IPv6.",
)
@web_config_option
@store_option
def serve(*, listen: str, web_config: Path | None, store: str | None) -> None:
    """Show the store as a web page: campaigns, comparisons, trends, reports, traces, audits of hosts.

    The page only reads the store. Running campaigns are read again every 10 seconds. `blklab trace stat --keep NAME`
    and `blklab md audit --keep` store what the pages of traces and hosts show.

    \b
    Examples:
      blklab serve
      blklab serve --listen :19810 --web-config /etc/blklab/web-config.yml
      blklab serve --store postgresql://blklab@db/results

    \b
    Exit status: 0 stopped by SIGINT or SIGTERM; 2 the store does not exist; 3 the address is in use.
    """
    from blklab.serve.application import Site

    with listening(listen, web_config, Site(store, warn), "", connections=256):
        while True:
            time.sleep(3600)
