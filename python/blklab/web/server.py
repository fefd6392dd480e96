"""An HTTP server with TLS and basic authentication for a WSGI application: for metrics and for the web page.

Prometheus's client library has a server without basic authentication, which handles TLS handshakes one after the
other, reads certificates only once, and asks the name server for its name.
"""

import base64
import binascii
import errno
import io
import re
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from email.message import Message
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.web.config import WebConfig, load_web_config, make_tls_context
from blklab.web.passwords import PasswordChecks, TooManyGuesses

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REQUEST_TIMEOUT_S = 10.0  # Time that a client has for its TLS handshake and its whole request
ANSWER_TIMEOUT_S = 30.0  # Time that a client has to receive the whole answer
SLOW_S = 0.25  # Time that a request or an answer has at least, even if other connections wait
MAX_CONNECTIONS = 32  # Limits the number of threads if scrapes hang, for example because of a disk
WAIT_S = 5.0  # Time that a connection waits for the end of another one; more of them wait in the kernel
SOFTWARE = "blklab"  # What `Server` names
Log = Callable[[str], None]


class ListenAddress(str):
    """HOST:PORT, [IPV6]:PORT, or :PORT for all addresses."""

    def __init__(self, text: str) -> None:
        """Raises UsageError."""
        host, colon, port = text.rpartition(":")
        has_brackets = host.startswith("[") and host.endswith("]")
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise UsageError(f"{text!r}: expected HOST:PORT, [IPV6]:PORT or :PORT")
        if ":" in host and not has_brackets:
            raise UsageError(f"{text!r}: write an IPv6 address as [ADDRESS]:PORT")
        self.host = host[1:-1] if has_brackets else host
        self.port = int(port)

    def socket_address(self) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
        """Returns what to bind to. Raises EnvironmentLacks if there is no such host."""
        if not self.host:
            # One socket for both, where there is IPv6.
            dual_stack = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if dual_stack else socket.AF_INET
            return family, ("::" if dual_stack else "0.0.0.0", self.port)  # noqa: S104  # as requested
        try:
            first = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise EnvironmentLacks(f"{self}: {reason}", "use an address of this host") from None
        return first[0], first[4]


class WebServer(socketserver.ThreadingMixIn, WSGIServer):
    """Serves an application that reads no bodies of requests. The constructor binds, `serve_forever` answers."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that wait to be accepted; beyond that, the kernel drops them for a second or more."""

    def __init__(
        self,
        address: ListenAddress,
        app: "WSGIApplication",
        config: Path | None,
        log: Log,
        *,
        connections: int | None = None,
    ) -> None:
        """`config` is a web configuration file; None: no TLS, no auth. Raises EnvironmentLacks."""
        self.address_family, bind_address = address.socket_address()
        self._config = config
        self._log = log
        self._connection = threading.local()
        self._free = threading.BoundedSemaphore(connections or MAX_CONNECTIONS)
        self._waiting: dict[socket.socket, dict[str, float]] = {}
        """Connections that wait for their clients, the oldest first, and when they are "slow" and "late"."""
        self._waiting_lock = threading.Lock()
        self._app = app
        self._passwords = PasswordChecks()
        try:
            super().__init__(bind_address, _Handler)
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            raise EnvironmentLacks(
                f"{address}: {(error.strerror or str(error)).lower()}",
                "use --listen with another port" if in_use else "use --listen with another address",
            ) from None
        self.set_app(self._respond)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """ADDRESS:PORT on which it listens."""
        host = self.socket.getsockname()[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def server_bind(self) -> None:
        """Binds the address; IPv6 on all addresses includes IPv4."""
        # HTTPServer.server_bind asks the name server for the host's name, which may take minutes.
        if self.address_family == socket.AF_INET6:
            all_addresses = self.server_address[0] == "::"
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not all_addresses))
        socketserver.TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = self.port
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Whether another connection is allowed; otherwise the server closes it.

        It waits for the end of another one. The oldest one whose client is slow has to go first.
        """
        until = time.monotonic() + WAIT_S
        free = self._free.acquire(blocking=False)
        while not free and time.monotonic() < until:
            self.service_actions()  # not called while this waits
            self._hang_up("slow", limit=1)
            free = self._free.acquire(timeout=0.05)
        return free

    def service_actions(self) -> None:
        """Ends connections at their deadlines; called twice per second."""
        self._hang_up("late")

    def _hang_up(self, timer: str, limit: int | None = None) -> None:
        now = time.monotonic()
        with self._waiting_lock:
            for line in [line for line, times in self._waiting.items() if times[timer] <= now][:limit]:
                del self._waiting[line]
                with suppress(OSError):  # the client was faster
                    # The kernel discards what it has not sent yet; otherwise it keeps that for minutes.
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    line.shutdown(socket.SHUT_RDWR)

    def _begin_wait(self, seconds: float) -> None:
        now = time.monotonic()
        with self._waiting_lock:
            self._waiting[self._connection.line] = {"slow": now + SLOW_S, "late": now + seconds}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts the connection's thread."""
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()  # there is no thread that would do so
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles a connection, and then allows another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answers a connection, with TLS if the configuration file has it now."""
        # In the connection's own thread, so that an idle client does not delay others. TLS takes the socket over; a
        # duplicate ends the connection below TLS.
        with request.dup() as self._connection.line:
            self._begin_wait(REQUEST_TIMEOUT_S)
            try:
                config = load_web_config(self._config) if self._config else WebConfig()
                if self._config and config.tls_server_config:
                    context = make_tls_context(self._config, config.tls_server_config)
                    context.sslsocket_class = _TlsSocket
                    request = context.wrap_socket(request, server_side=True)
                self._connection.config = config
                with request:
                    super().finish_request(request, client_address)
            finally:
                with self._waiting_lock:
                    self._waiting.pop(self._connection.line, None)

    def _respond(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Runs the application behind basic authentication, if users are configured (RFC 7617)."""
        with self._waiting_lock:
            if self._waiting.pop(self._connection.line, None) is None:
                raise ConnectionAbortedError  # the request was too late
        refusal = self._refuse(environ)
        if refusal is None:
            answer = self._app(environ, partial(_start_response, start_response))
        else:
            status, header = refusal
            _start_response(start_response, status, [("Content-Type", "text/plain; charset=utf-8"), header])
            answer = [f"{status.partition(' ')[2]}\n".encode()]
        self._begin_wait(ANSWER_TIMEOUT_S)
        return answer

    def _refuse(self, environ: "WSGIEnvironment") -> tuple[str, tuple[str, str]] | None:
        """Returns the status and a header for a request without the right password; None for one with it."""
        config: WebConfig = self._connection.config
        if not config.basic_auth_users:
            return None
        try:
            if self._passwords.admits(config, environ.get("REMOTE_ADDR", ""), *_credentials(environ)):
                return None
        except TooManyGuesses:
            return "429 Too Many Requests", ("Retry-After", "1")
        return "401 Unauthorized", ("WWW-Authenticate", 'Basic realm="blklab", charset="UTF-8"')

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Logs an error in one line, without a traceback; ignores closed connections."""
        error = sys.exception()
        if isinstance(error, BlklabError):
            self._log(str(error))
        elif not isinstance(error, OSError):
            self._log(f"{client_address[0]}: {type(error).__name__}: {error}")


class _TlsSocket(ssl.SSLSocket):
    def sendall(self, data: Any, flags: int = 0) -> None:
        """Raises ConnectionAbortedError if the connection has ended: wsgiref prints a traceback of an SSLError."""
        try:
            super().sendall(data, flags)
        except ssl.SSLError:
            raise ConnectionAbortedError from None


def _start_response(start_response: "StartResponse", status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
    """Begins a response; `Server` names no version, which would tell attackers what it does not withstand."""
    return start_response(status, [*headers, ("Server", SOFTWARE)], *more)


class _RequestReader(io.BufferedReader):
    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self.lines: list[bytes] = []

    def readline(self, size: int | None = -1, /) -> bytes:
        """Returns a line; the end of the connection is not the end of the headers, which is an empty line."""
        if line := super().readline(size):
            self.lines.append(line)
            return line
        raise ConnectionAbortedError


HEADER_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r]*\r?\n")
"""A header without white space before the colon, which proxies understand in different ways (RFC 9112, 5.1)."""


def check_headers(lines: Sequence[bytes], headers: Message, version: str) -> str | None:
    """Returns why the headers of a request are refused, as by RFC 9112, 3.2, 5 and 6; None if they are not.

    Two programs on the way could take them for different requests.
    """
    for line in lines:
        if not HEADER_LINE.fullmatch(line):
            return "Bad header line"
    hosts = headers.get_all("Host", [])
    if len(hosts) > 1 or (version == "HTTP/1.1" and not hosts):
        return "Expected one Host header"
    lengths = {length.strip() for length in headers.get_all("Content-Length", [])}
    if lengths and (len(lengths) > 1 or "Transfer-Encoding" in headers):
        return "Two lengths of the body"
    if any(not (length.isascii() and length.isdigit()) for length in lengths):
        return "Bad Content-Length"
    return None


class _Handler(WSGIRequestHandler):
    server: WebServer
    rbufsize = 0  # the reader has the buffer

    def setup(self) -> None:
        super().setup()
        self.rfile = self._reader = _RequestReader(cast("io.RawIOBase", self.rfile))

    def version_string(self) -> str:
        return SOFTWARE

    def parse_request(self) -> bool:
        """Parses the request; refuses one whose headers are not those of HTTP."""
        if not super().parse_request():
            return False
        # The first line is the request, the last one is empty.
        problem = check_headers(self._reader.lines[1:-1], self.headers, self.request_version)
        if problem is not None:
            self.send_error(HTTPStatus.BAD_REQUEST, problem)
        return problem is None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _credentials(environ: "WSGIEnvironment") -> tuple[str, str]:
    scheme, _, encoded = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return user, password
