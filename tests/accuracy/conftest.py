"""The command `accuracy/run`, in this process."""

import pytest

from accuracy.command import main
from tests.conftest import Outcome, Run


@pytest.fixture
def judge(capfd: pytest.CaptureFixture[str]) -> Run:
    """Returns a function that runs `accuracy/run ARGUMENTS…` in this process."""

    def judge(*arguments: object) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert isinstance(exit_.value.code, int)
        return Outcome(exit_.value.code, captured.out, captured.err)

    return judge
