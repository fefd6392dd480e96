"""A private directory, and cells for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MAKE = Callable[..., Any]


@pytest.fixture
def make() -> MAKE:
    """Returns a function that makes a cell's document: `make(rw="randread", …)`, one job."""

    def make(**options: str) -> Any:
        words = {"rw": "randread", "bs": "4k", "size": "4194304", "ioengine": "libaio"}
        return {
            "seed": 1,
            "file_bytes": 4 << 20,
            "jobs": [{"name": "work", "options": words | {"direct": "1"} | options}],
            "command": None,
            "runtime_ns": 10**9,
            "ramp_ns": 0,
            "interval_ns": 250 * 10**6,
            "host": {"drop_caches": False, "precondition": "none", "steady": None},
        }

    return make


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Returns a directory for private files."""
    path = tmp_path / "work"
    path.mkdir()
    return path
