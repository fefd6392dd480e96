"""Listen for HTTP until a command is stopped, and warn if others can read what it serves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import warn

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from blklab.web.config import WebConfig
    from blklab.web.server import ListenAddress

web_config_option = click.option(
    "--web-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificates and users, in the format of Prometheus's web configuration files.",
)
"""Decorator: add `--web-config`, passed as `web_config`."""


@contextmanager
def serve_app(
    listen: str, config: Path | None, app: "WSGIApplication", page: str, connections: int | None = None
) -> Iterator[None]:
    """Serve `app` at HOST:PORT, and at /`page` what the user looks for, until SIGINT or SIGTERM ends the block.

    Raises UsageError and EnvironmentLacks.
    """
    from blklab.web.config import WebConfig, load_web_config, make_tls_context
    from blklab.web.server import ListenAddress, WebServer

    address = ListenAddress(listen)
    settings = load_web_config(config) if config else WebConfig()
    if config and settings.tls_server_config:
        make_tls_context(config, settings.tls_server_config)
    _warn_about_access(address, settings, page or "results")
    with WebServer(address, app, config, warn, connections=connections) as server:
        scheme = "https" if settings.tls_server_config else "http"
        click.echo(f"blklab: listening on {scheme}://{server.address}/{page}", err=True)
        threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            server.shutdown()  # a service that is stopped has not failed


def _warn_about_access(address: "ListenAddress", settings: "WebConfig", content: str) -> None:
    """Warns if other hosts can read it without a password, or a password in clear text."""
    with suppress(ValueError):  # the name of a host
        if address.host == "localhost" or ip_address(address.host).is_loopback:
            return
    tls = settings.tls_server_config
    if not settings.basic_auth_users and not (tls and tls.client_ca_file):
        warn(f"{address}: everyone on the network can read the {content}; to restrict this, use --web-config")
    elif not tls:
        warn(
            f"{address}: passwords cross the network unencrypted; to encrypt them, "
            "set tls_server_config in the file of --web-config"
        )
