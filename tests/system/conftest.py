"""The machines that the tests are about."""

from pathlib import Path

import pytest

from tests.system.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """An array md127 of sda1 and sdb1 with a volume dm-0, and a plain disk sdc."""
    made = Machine(tmp_path)
    for disk, number in (("sda", 0), ("sdb", 16), ("sdc", 32)):
        made.device(disk, f"8:{number}", device__model="DISK")
        made.device(f"{disk}1", f"8:{number + 1}", parent=disk)
    made.device("md127", "9:127", slaves="sda1 sdb1", md__level="raid1")
    made.device("dm-0", "253:0", slaves="md127", dm__name="vg-lv")
    return made
