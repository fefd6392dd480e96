"""Locks with a deadline."""

import fcntl
import os
from pathlib import Path

import pytest

from blklab.system.file_lock import wait_for_lock


def test_a_lock_that_another_holds_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = os.open(path, os.O_RDWR | os.O_CREAT)
    second = os.open(path, os.O_RDWR)
    wait_for_lock(first, 0.0)
    with pytest.raises(TimeoutError, match="another process holds the lock for 0 s"):
        wait_for_lock(second, 0.0)
    fcntl.flock(first, fcntl.LOCK_UN)
    wait_for_lock(second, 0.0)
    os.close(first)
    os.close(second)
