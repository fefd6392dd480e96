import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import blklab
from blklab.errors import EnvironmentLacks
from blklab.runners.lab.agent import Agent
from blklab.runners.lab.image import GuestImage, image
from blklab.runners.lab.image.cache import directory
from blklab.runners.lab.machine import qemu

KERNEL = os.environ.get("BLKLAB_GUEST_KERNEL", "6.1")
"""That of the guests in these tests: all use one image."""

BINARY = Path(str(blklab.__file__)).with_name("_agent")


@pytest.fixture
def serving() -> Iterator[Callable[[], tuple[subprocess.Popen[bytes], socket.socket]]]:
    """Starts the guest's agent as an ordinary process."""
    if not BINARY.is_file():
        pytest.skip("the guest's agent is not built: scripts/setup")
    started: list[tuple[subprocess.Popen[bytes], socket.socket]] = []

    def serve() -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [str(BINARY), "--stdio"], stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.PIPE
            )
        started.append((process, ours))
        return process, ours

    yield serve
    for process, ours in started:
        ours.close()
        process.communicate(timeout=30)


@pytest.fixture
def agent(serving: Callable[[], tuple[subprocess.Popen[bytes], socket.socket]]) -> Iterator[Agent]:
    """A client of such an agent, greeted."""
    with closing(Agent(serving()[1])) as client:
        client.hello(30)
        yield client


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has guests emulated, which works everywhere and is the same everywhere."""
    monkeypatch.setenv("BLKLAB_ACCEL", "tcg")


@pytest.fixture(scope="session")
def guest_image() -> GuestImage:
    """The image of real guests, out of the user's cache, or made once for all tests."""
    try:
        qemu.find()
        return image(KERNEL, note=lambda _: None)
    except EnvironmentLacks as error:
        pytest.skip(f"no guest can be had: {error}")


@pytest.fixture
def cache(guest_image: GuestImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a cache of the test's own, with the image in it, and returns the lab's part of it."""
    ours = own_cache(guest_image, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ours


def own_cache(guest_image: GuestImage, parent: Path) -> Path:
    """Makes a cache with the image in `parent`/cache: guests of other tests are not seen in it."""
    assert guest_image.kernel.is_file()
    ours = parent / "cache" / "blklab" / "lab"
    filled(ours)
    return ours


def filled(ours: Path) -> None:
    """Has a cache lead to what is in the user's."""
    ours.mkdir(parents=True)
    theirs = directory()
    shutil.copyfile(theirs / "pointers.json", ours / "pointers.json")
    for path in theirs.iterdir():
        if path.is_dir():
            (ours / path.name).symlink_to(path)


def left(ours: Path) -> list[str]:
    """Returns what is in a cache besides images, their parts, headers and their names."""
    known = {"debian", "pointers.json", "lock"}
    return [
        path.name
        for path in ours.iterdir()
        if path.name not in known and path.name.split("-")[0] not in {"image", "kernel", "programs", "headers"}
    ]


def guests(ours: Path) -> list[int]:
    """Returns the processes that run QEMU with an image of a cache of ours, by their ids."""
    result = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(qemu.PROGRAM) in words[0] and any(word.startswith(os.fsencode(ours)) for word in words):
            result.append(int(path.parent.name))
    return result
