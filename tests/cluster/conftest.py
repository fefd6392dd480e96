"""A real scheduler and real workers, as processes that tests can kill."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DASK = Path(sys.executable).with_name("dask")
PATIENCE_S = 120


class DaskProcesses:
    """A scheduler at a fixed address, and its workers."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._directory = directory
        self._started = 0
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self) -> None:
        host, _, port = self.address.partition(":")
        self.scheduler = self._start("scheduler", "--host", host, "--port", port, "--no-dashboard")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with socket.create_connection((host, int(port)), timeout=1):
                    return
            except OSError:
                assert time.monotonic() < deadline
                assert self.scheduler.poll() is None
                time.sleep(0.05)

    def start_worker(self, *options: str, environment: dict[str, str] | None = None) -> None:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "600", *options)
        self.workers.append(self._start("worker", f"tcp://{self.address}", *options, environment=environment))

    def wait_for_workers(self, count: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=PATIENCE_S)

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        self.scheduler.wait()

    def kill_worker(self, number: int) -> None:
        worker = self.workers.pop(number)
        worker.kill()
        worker.wait()

    def _start(self, *words: str, environment: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
        self._started += 1
        log = self._directory / f"{words[0]}-{self._started}.log"
        with log.open("wb") as output:
            return subprocess.Popen([DASK, *words], cwd=self._directory, stdout=output, stderr=output, env=environment)

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait()


@pytest.fixture
def dask_processes(tmp_path: Path) -> Iterator[DaskProcesses]:
    """Returns a scheduler without workers."""
    directory = tmp_path / "dask"
    directory.mkdir()
    processes = DaskProcesses(directory)
    try:
        processes.start_scheduler()
        yield processes
    finally:
        processes.stop()
