from pathlib import Path

import pytest

from tests.md.conftest import Arrays


@pytest.fixture
def machine(tmp_path: Path) -> Arrays:
    (tmp_path / "machine").mkdir()
    return Arrays(tmp_path / "machine")
