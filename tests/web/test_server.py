"""Over a real socket: plain, with TLS, with certificates of clients, with users."""

import math
import re
import select
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError

import pytest
from prometheus_client import CollectorRegistry, make_wsgi_app

from blklab.errors import EnvironmentLacks, UsageError
from blklab.md.exporter import metrics
from blklab.web import passwords
from blklab.web import server as serving
from blklab.web.server import ListenAddress, WebServer
from tests.md.conftest import Arrays, machine
from tests.md.exporter.conftest import Exported, mirrored, parsed
from tests.web.conftest import HASHED, PASSWORD, ask, trusting

__all__ = ["machine", "mirrored"]  # fixtures

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Log = list[str]


@contextmanager
def served(
    what: "CollectorRegistry | WSGIApplication",
    config: Path | None = None,
    at: str = "127.0.0.1:0",
    connections: int | None = None,
) -> Iterator[tuple[WebServer, Log]]:
    log: Log = []
    app = make_wsgi_app(what) if isinstance(what, CollectorRegistry) else what
    with WebServer(ListenAddress(at), app, config, log.append, connections=connections) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield server, log
        finally:
            server.shutdown()
            thread.join()


def test_a_connection_without_a_thread_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    refused: list[str] = []

    def started(thread: threading.Thread) -> None:
        if not refused and "process_request_thread" in thread.name:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with served(CollectorRegistry(), connections=1) as (server, log):
        monkeypatch.setattr(threading.Thread, "start", started)
        url = f"http://127.0.0.1:{server.port}/metrics"
        with pytest.raises((OSError, HTTPException)):
            ask(url)
        assert ask(url)[0] == 200
    assert (len(refused), len(log)) == (1, 1)


def test_deadlines_hold_while_a_connection_waits_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "WAIT_S", 0.1)
    with WebServer(ListenAddress("127.0.0.1:0"), make_wsgi_app(CollectorRegistry()), None, print) as server:
        lines = [socket.socketpair() for _ in range(3)]
        for line, _ in lines:
            server._waiting[line] = {"slow": math.inf, "late": 0.0}
        while server._free.acquire(blocking=False):
            pass
        assert not server.verify_request(None, None)
        assert server._waiting == {}
        for both in lines:
            for line in both:
                line.close()


@pytest.fixture
def registry(mirrored: Arrays) -> CollectorRegistry:
    return Exported(mirrored).registry


def test_plain(registry: CollectorRegistry) -> None:
    with served(registry) as (server, log):
        status, headers, text = ask(f"http://127.0.0.1:{server.port}/metrics")
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert parsed(text)["up", frozenset()] == 1
        # What is asked for, and no more.
        _, _, text = ask(f"http://127.0.0.1:{server.port}/metrics?name[]=blklab_md_up")
        assert parsed(text) == {("up", frozenset()): 1}
    assert log == []


def test_ipv6_and_all_addresses(registry: CollectorRegistry) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with served(registry, at="[::1]:0") as (server, _):
        assert ask(f"http://[::1]:{server.port}/")[0] == 200
        with pytest.raises(URLError):
            ask(f"http://127.0.0.1:{server.port}/")
    with served(registry, at=":0") as (server, _):
        assert ask(f"http://[::1]:{server.port}/")[0] == 200
        assert ask(f"http://127.0.0.1:{server.port}/")[0] == 200


def test_tls_and_certificates_of_clients(registry: CollectorRegistry, certificates: Path, tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    config.write_text(
        f"tls_server_config:\n  cert_file: {certificates}/server.crt\n  key_file: {certificates}/server.key\n"
    )
    anybody, known = trusting(certificates), trusting(certificates, "client")
    with served(registry, config) as (server, log):
        url = f"https://127.0.0.1:{server.port}/metrics"
        assert ask(url, context=anybody)[0] == 200
        with pytest.raises((URLError, ConnectionError)):
            ask(url.replace("https", "http"))
        # Changed while it runs, as when certificates are renewed.
        with config.open("a") as file:
            file.write(f"  client_ca_file: {certificates}/ca.crt\n"
                       "  client_auth_type: RequireAndVerifyClientCert\n")  # fmt: skip
        assert ask(url, context=known)[0] == 200
        with pytest.raises((URLError, ssl.SSLError, ConnectionError)):
            ask(url, context=anybody)
        assert log == []
        # An invalid file admits no user.
        config.write_text("tls_server_config: {}\n")
        with pytest.raises((URLError, ConnectionError)):
            ask(url, context=known)
        assert log == [f"{config}: tls_server_config.cert_file: is missing"]


def test_names_of_files_are_relative_to_the_configuration(registry: CollectorRegistry, certificates: Path) -> None:
    config = certificates / "web.yml"
    config.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key,"
                      " min_version: TLS13}\n")  # fmt: skip
    old = trusting(certificates)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with served(registry, config) as (server, _):
        url = f"https://127.0.0.1:{server.port}/metrics"
        assert ask(url, context=trusting(certificates))[0] == 200
        with pytest.raises((URLError, ConnectionError)):
            ask(url, context=old)


def test_users(registry: CollectorRegistry, tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users:\n  prometheus: {HASHED}\n")
    with served(registry, config) as (server, log):
        url = f"http://127.0.0.1:{server.port}/metrics"
        assert ask(url, f"prometheus:{PASSWORD}")[0] == 200
        for user in (
            None, "", ":", "prometheus:", "prometheus", f"nobody:{PASSWORD}", f":{PASSWORD}",
            f"prometheus:{PASSWORD}!", "prometheus:\0", "prömetheus:ö", f"Prometheus:{PASSWORD}",
        ):  # fmt: skip
            status, headers, text = ask(url, user)
            assert status == 401, user
            assert headers["WWW-Authenticate"].startswith("Basic realm=")
            assert "blklab_md" not in text
        for header in ("Basic", "Basic ?", "Bearer x", "Basic w7w=", "Basic /w=="):
            request = urllib.request.Request(url, headers={"Authorization": header})
            with pytest.raises(HTTPError) as refused:
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
            refused.value.close()
            assert refused.value.code == 401
    assert log == []


def test_a_silent_client_blocks_no_other(
    registry: CollectorRegistry, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_S", 3600.0)
    config = certificates / "web-silent.yml"
    config.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    with served(registry, config) as (server, log):
        with socket.create_connection(("127.0.0.1", server.port)):
            url = f"https://127.0.0.1:{server.port}/metrics"
            assert ask(url, context=trusting(certificates))[0] == 200
        # Rubbish, and those who hang up, are not worth a line.
        with socket.create_connection(("127.0.0.1", server.port)) as rude:
            rude.sendall(b"\0" * 100)
            with suppress(ConnectionResetError):
                rude.recv(100)
    assert log == []


HUGE = bytes(1 << 26)  # more than the kernel buffers


def huge_or_small(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """An application with an answer that takes long to receive, and one that does not."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [HUGE if environ["PATH_INFO"] == "/huge" else b"small"]


@contextmanager
def asking_for_huge(server: WebServer, context: ssl.SSLContext | None = None) -> Iterator[socket.socket]:
    """A client that has begun to receive the huge answer."""
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") if context else plain as client:
            client.sendall(b"GET /huge HTTP/1.0\r\n\r\n")
            assert client.recv(1) == b"H"
            yield client


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.0", b"GET / HTTP/1.0\r\n", b"GET / HTTP/1.0\r\nX: y\r\n\r", b"GET /\r\n"]
)
@pytest.mark.parametrize("late", [False, True])
def test_an_incomplete_request_never_reaches_the_application(
    monkeypatch: pytest.MonkeyPatch, *, sent: bytes, late: bool
) -> None:
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_S", 0.1 if late else 3600.0)
    monkeypatch.setattr(WebServer, "daemon_threads", False)  # the end of `served` waits for them
    asked = []

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        asked.append(environ["PATH_INFO"])
        return huge_or_small(environ, start_response)

    with served(app) as (server, log), socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(sent)
        if not late:
            client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            assert client.recv(100) == b""
    assert asked == []
    assert log == []


def test_a_request_that_is_complete_after_its_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline may pass after the last byte has been read, and before the application runs."""
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_S", 0.0)
    monkeypatch.setattr(WebServer, "daemon_threads", False)
    asked = []
    real = serving._Handler.get_environ

    def late(handler: Any) -> dict[str, Any]:
        server.service_actions()
        return real(handler)

    monkeypatch.setattr(serving._Handler, "get_environ", late)

    def app(_environ: "WSGIEnvironment", _start_response: "StartResponse") -> Iterable[bytes]:
        asked.append(1)
        return []

    with served(app) as (server, log), pytest.raises((URLError, ConnectionError)):
        ask(f"http://127.0.0.1:{server.port}/")
    assert asked == []
    assert log == []


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_an_answer_has_a_deadline(
    certificates: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, tls: bool, reads: bool
) -> None:
    """Also if the client reads a byte now and then. Its connection is free again."""
    monkeypatch.setattr(serving, "SLOW_S", 3600.0)
    monkeypatch.setattr(serving, "WAIT_S", 3600.0)
    config = certificates / "web-answer.yml"
    config.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    context = trusting(certificates) if tls else None
    options: dict[str, Any] = {"context": context} if tls else {}
    with served(huge_or_small, config if tls else None, connections=1) as (server, log):
        monkeypatch.setattr(serving, "ANSWER_TIMEOUT_S", 0.2)
        with asking_for_huge(server, context) as client:
            end = select.poll()
            end.register(client, 0)
            received, until = 0, time.monotonic() + 60
            while not end.poll(50):  # a client that reads nothing learns of the end, too
                assert time.monotonic() < until
                received += len(client.recv(1)) if reads else 0
            monkeypatch.setattr(serving, "ANSWER_TIMEOUT_S", 3600.0)
            assert ask(f"http{'s' * tls}://127.0.0.1:{server.port}/", **options)[2] == "small"
            assert received < len(HUGE)
    assert log == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("tls", [False, True])
def test_clients_that_receive_slowly_stop_no_scrape(
    certificates: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, tls: bool
) -> None:
    monkeypatch.setattr(serving, "ANSWER_TIMEOUT_S", 3600.0)
    monkeypatch.setattr(serving, "WAIT_S", 3600.0)
    config = certificates / "web-slow.yml"
    config.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    context = trusting(certificates) if tls else None
    options: dict[str, Any] = {"context": context} if tls else {}
    with served(huge_or_small, config if tls else None, connections=3) as (server, log), ExitStack() as clients:
        for _ in range(5):
            clients.enter_context(asking_for_huge(server, context))
            assert ask(f"http{'s' * tls}://127.0.0.1:{server.port}/", **options)[2] == "small"
    assert log == []
    assert capfd.readouterr().err == ""


def test_only_slow_connections_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a request or an answer that has just begun, nor a client that waits for the application."""
    monkeypatch.setattr(serving, "SLOW_S", 3600.0)
    monkeypatch.setattr(serving, "WAIT_S", 0.1)
    asked, answers = threading.Event(), threading.Event()

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        asked.set()
        answers.wait()
        return huge_or_small(environ, start_response)

    with served(app, connections=1) as (server, _), socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /huge HTTP/1.0\r\n")
        url = f"http://127.0.0.1:{server.port}/"
        with pytest.raises((URLError, ConnectionError)):
            ask(url)
        monkeypatch.setattr(serving, "SLOW_S", 0.0)
        client.sendall(b"\r\n")
        asked.wait()
        with pytest.raises((URLError, ConnectionError)):
            ask(url)
        monkeypatch.setattr(serving, "SLOW_S", 3600.0)
        answers.set()
        assert client.recv(1) == b"H"
        with pytest.raises((URLError, ConnectionError)):
            ask(url)
        received = 1
        while part := client.recv(1 << 20):
            received += len(part)
        assert received > len(HUGE)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.0\r\nX: "])
def test_forty_clients_without_a_request_stop_no_scrape(
    registry: CollectorRegistry, certificates: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool, sent: bytes
) -> None:
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_S", 3600.0)
    config = certificates / "web-forty.yml"
    config.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    with served(registry, config if tls else None) as (server, log), ExitStack() as clients:
        options: dict[str, Any] = {"context": trusting(certificates)} if tls else {}
        for number in range(40):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(sent)
            if number in {0, 31, 35, 39}:
                assert ask(f"http{'s' * tls}://127.0.0.1:{server.port}/", **options)[0] == 200
    assert log == []


@pytest.mark.parametrize("tls", [False, True])
def test_a_request_has_a_deadline(
    registry: CollectorRegistry, certificates: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    """A client that sends a byte now and then is never idle."""
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_S", 0.2)
    config = certificates / "web-deadline.yml"
    config.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    with (
        served(registry, config if tls else None) as (server, log),
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.settimeout(0.05)
        client.sendall(b"\x16\x03\x01\x3f\xff" if tls else b"GET ")  # a TLS record of 16 KiB
        with suppress(ConnectionError):
            while True:
                client.sendall(b"\0")
                with suppress(TimeoutError):
                    if not client.recv(100):
                        break
    assert log == []


def test_threads_do_not_pile_up_behind_a_scrape_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 2)
    hanging, answers = threading.Semaphore(0), threading.Event()

    class Hanging:
        def collect(self) -> list[metrics.Family]:
            hanging.release()
            answers.wait()
            return []

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Hanging())
    with served(registry) as (server, _):
        url = f"http://127.0.0.1:{server.port}/metrics"
        with ThreadPoolExecutor(2) as clients:
            asked = [clients.submit(ask, f"{url}?{number}") for number in range(2)]
            for _ in asked:
                hanging.acquire()
            try:
                with pytest.raises((URLError, ConnectionError)):
                    ask(url)
            finally:
                answers.set()
            assert [item.result()[0] for item in asked] == [200, 200]
        # Their threads may take a moment to end.
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(URLError, ConnectionError):
                assert ask(url)[0] == 200
                break
        else:
            pytest.fail("no connection is free again")


def test_a_port_that_is_taken(registry: CollectorRegistry) -> None:
    with served(registry) as (server, _):
        taken = f"127.0.0.1:{server.port}"
        with pytest.raises(EnvironmentLacks) as refused:
            WebServer(ListenAddress(taken), make_wsgi_app(registry), None, print)
    assert str(refused.value) == (f"{taken}: address already in use; use --listen with another port")


def test_an_address_that_is_not_ours(registry: CollectorRegistry) -> None:
    with pytest.raises(EnvironmentLacks, match="cannot assign requested address"):
        WebServer(ListenAddress("192.0.2.1:0"), make_wsgi_app(registry), None, print)


@pytest.mark.parametrize("words", ["", "9809", "localhost", "localhost:", "localhost:x", "::1:9809", "h:65536", "h:٣"])
def test_what_is_no_address(words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(words))):
        ListenAddress(words)


def answer_to(server: WebServer, request: bytes) -> str:
    """Returns the head of the answer to some bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(request)
        with line.makefile("rb") as stream:
            return stream.read().decode().partition("\r\n\r\n")[0]


@pytest.mark.parametrize(
    "headers",
    [
        "Host: a\r\nContent-Length: -1",
        "Host: a\r\nContent-Length: 1\r\nContent-Length: 2",
        "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "Host: a\r\nContent-Length: +1",
        "Host : a",
        "Host: a\r\n folded: x",
        "Host: a\r\nHost: b",
        "Host: a\r\nno colon",
        "Accept: x",
    ],
)
def test_what_is_not_http_is_refused(registry: CollectorRegistry, headers: str) -> None:
    with served(registry) as (server, log):
        head = answer_to(server, f"GET /metrics HTTP/1.1\r\n{headers}\r\n\r\n".encode())
    assert " 400 " in head.partition("\r\n")[0]
    assert log == []


def test_http_1_0_needs_no_host(registry: CollectorRegistry) -> None:
    with served(registry) as (server, _):
        assert " 200 " in answer_to(server, b"GET /metrics HTTP/1.0\r\n\r\n")


def test_no_answer_names_a_version(registry: CollectorRegistry, tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users:\n  prometheus: {HASHED}\n")
    requests = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /\r\n"]
    for file in (None, config):
        with served(registry, file) as (server, _):
            for request in requests:
                head = answer_to(server, request)
                assert re.findall(r"(?im)^server: *(.*?)\r?$", head) in ([], ["blklab"])


def test_many_guesses_are_told_to_wait(
    registry: CollectorRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "MOST_WAITING", 0)
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users:\n  prometheus: {HASHED}\n")
    with served(registry, config) as (server, _):
        status, headers, _ = ask(f"http://127.0.0.1:{server.port}/metrics", "prometheus:wrong")
    assert (status, headers["Retry-After"]) == (429, "1")
