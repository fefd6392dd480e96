"""The README's examples are run, and print what the README says they print."""

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import Run

ROOT = Path(__file__).parent.parent
EXAMPLES = re.findall(
    r"```console\n\$ blklab (.*?)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_prints_what_is_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    for folder in ("tests", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    result = run(*shlex.split(command))
    assert result.status == 0, result.err
    printed = "\n".join(line.rstrip() for line in result.out.splitlines()) + "\n"
    # A line of … stands for any lines.
    pieces = [re.escape(piece) for piece in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?:.*\n)*?".join(pieces), printed), printed
