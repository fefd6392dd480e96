"""What a shell completes."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from blklab.cli.root import blklab
from tests.conftest import Run


def suggestions(*words: str) -> list[str]:
    """Returns what a shell suggests for the last word."""
    completion = ShellComplete(blklab, {}, "blklab", "_BLKLAB_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


def test_loads_and_metrics_are_completed() -> None:
    assert suggestions("advise", "--load", "v") == ["virtual-machines"]
    assert "read.p99" in suggestions("compare", "--metric", "read.p")
    assert "iops" in suggestions("runs", "trend", "--metric", "")


def test_models_are_completed_behind_a_count_and_a_comma() -> None:
    assert {"2xsn850", "2xsn850x"} <= set(suggestions("advise", "--devices", "2xsn85"))
    assert "2xpm983,4xn300-8tb" in suggestions("advise", "--devices", "2xpm983,4xn3")
    assert suggestions("devices", "show", "pm98") == ["pm983"]


def test_campaigns_are_completed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = tmp_path / "one.toml"
    experiment.write_text(
        '[devices]\nd = { model = "pm983" }\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "randread"\n[settings]\nmax_ios = 100\n'
    )
    store = tmp_path / "store.db"
    monkeypatch.setenv("BLKLAB_STORE", str(store))
    for _ in range(2):
        assert run("run", experiment).status == 0
    assert suggestions("runs", "show", "") == ["2", "1"]
    assert suggestions("compare", "1", "") == ["2", "1"]


@pytest.mark.parametrize("content", [None, b"", b"no store"])
def test_without_a_store_nothing_is_suggested_and_nothing_fails(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.db"
    if content is not None:
        store.write_bytes(content)
    monkeypatch.setenv("BLKLAB_STORE", str(store))
    assert suggestions("runs", "show", "") == []
    assert content is not None or not store.exists()
