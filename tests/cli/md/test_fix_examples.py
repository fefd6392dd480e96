"""The plans of `blklab md fix` that the documents show are those that it prints."""

import re
import shlex

import pytest

from tests.cli.md.test_fix import _here, machine
from tests.conftest import Run
from tests.md.conftest import Arrays
from tests.test_readme import Example, examples, name

__all__ = ["_here", "machine"]

PLANS = [example for example in examples("#") if "--plan" in example.commands[0][0]]


def test_there_are_plans() -> None:
    assert PLANS


@pytest.mark.parametrize("example", PLANS, ids=name)
def test_a_plan_is_what_is_shown(machine: Arrays, run: Run, example: Example) -> None:
    machine.mirror()
    for command, shown in example.commands:
        result = run(*shlex.split(command.replace("/dev/md0", "md0"), comments=True))
        assert result.status == 0, result.err
        printed = " ".join(result.out.replace(str(machine.roots.dev), "/dev").split())
        for piece in re.split(r"^…\n", shown, flags=re.MULTILINE):
            assert " ".join(piece.split()) in printed
