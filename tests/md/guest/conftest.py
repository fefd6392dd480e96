from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig
from tests.runners.lab.conftest import _emulated, guest_image

__all__ = ["_emulated", "guest_image"]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk with Python and blklab."""
    return payload.make(tmp_path_factory.mktemp("python"))


@pytest.fixture
def rig(guest_image: GuestImage, python: Path) -> Iterator[Callable[[Sequence[VirtualDiskShape]], Rig]]:
    """Boots a machine with disks."""
    made: list[Rig] = []

    def boot(shapes: Sequence[VirtualDiskShape]) -> Rig:
        made.append(Rig(guest_image, python, shapes, memory=768 << 20))
        return made[-1].__enter__()

    yield boot
    for item in made:
        item.__exit__(None, None, None)
