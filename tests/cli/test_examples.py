"""Every example on every runner: what runs, and why something does not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blklab.experiment import load
from blklab.runners.lab import runner
from blklab.runners.lab.image import kernels
from blklab.runners.lab.machine import qemu
from tests.conftest import Run

EXAMPLES = Path(__file__).parents[2] / "examples"

CONTROLLERS = "controllers: only the simulator has controllers: use --on sim"
PAST = "none of {} cells runs here: no kernel"
NO_STACKS = "stacks: is missing: only --on host runs this file"
WHOLE_DEVICE = "size: is missing here and in the target"
REASONS = {  # Why no cell of an example runs
    ("article-2008-spindles", "lab"): PAST.format(10),
    ("article-2017-caches", "lab"): PAST.format(7),
    ("article-2019-mirrors", "lab"): PAST.format(28),
    ("controller", "lab"): CONTROLLERS,
    ("controller", "host"): "workloads.oltp.size: is missing here and in the target",
    ("saturation", "lab"): PAST.format(30),
    ("unbalanced", "lab"): PAST.format(48),
    ("directory", "sim"): NO_STACKS,
    ("directory", "lab"): NO_STACKS,
    ("sweep", "sim"): NO_STACKS,
    ("sweep", "lab"): NO_STACKS,
    ("delay", "host"): WHOLE_DEVICE,
    ("load", "host"): WHOLE_DEVICE,
    ("mirrors", "host"): WHOLE_DEVICE,
    ("raid10", "host"): WHOLE_DEVICE,
}
REMEDIES = {  # With which it does
    ("article-2008-spindles", "lab"): ("--set", "kernel=6.1"),
    ("article-2017-caches", "lab"): ("--set", "kernel=6.1"),
    ("article-2019-mirrors", "lab"): ("--set", "kernel=6.1"),
    ("saturation", "lab"): ("--set", "kernel=6.1"),
    ("unbalanced", "lab"): ("--set", "kernel=['4.19', '6.1']"),
    ("delay", "host"): ("--set", "size=64MiB"),
    ("load", "host"): ("--set", "size=64MiB"),
    ("mirrors", "host"): ("--set", "size=64MiB"),
    ("raid10", "host"): ("--set", "size=64MiB"),
}
SMALLER = {  # For machines without so much space
    ("article-2008-spindles", "host"): ("--set", "size=64MiB"),
    ("article-2019-mirrors", "host"): ("--set", "size=64MiB"),
    ("saturation", "host"): ("--set", "size=64MiB"),
    ("journal", "host"): ("--set", "size=64MiB"),
}
OFFERED = [kernels.OfferedKernel(f"{version}-cloud-amd64", "1") for version in ("6.1.0-49", "6.12.107+deb12")]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab with the kernels of Debian 12, without QEMU."""

    def image(kernel: str, **_: Any) -> SimpleNamespace:
        kernels.choose(kernel, OFFERED)
        return SimpleNamespace(initrd=Path(__file__))

    monkeypatch.setattr(runner, "image", image)
    monkeypatch.setattr(runner, "hold_directory", lambda _directory: _Nothing())
    monkeypatch.setattr(qemu, "find", lambda: ("qemu", "8"))
    monkeypatch.setattr(qemu, "accelerators", lambda _asked: ["tcg"])


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("on", ["sim", "lab", "host"])
@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.toml")))
def test_every_example_runs_everywhere_or_says_why_not(run: Run, tmp_path: Path, example: str, on: str) -> None:
    path = EXAMPLES / f"{example}.toml"
    command = ["run", path, "--on", on, "--dry-run", *SMALLER.get((example, on), ())]
    if on == "host":
        stacks = load.read(path).raw.get("stacks")
        command += [word for name in stacks for word in ("--target", f"{name}={tmp_path}")] if stacks else []
        command += [] if stacks else ["--target", tmp_path]
    outcome = run(*command)
    reason = REASONS.get((example, on))
    if reason is None:
        assert (outcome.status, " cell" in outcome.out) == (0, True), outcome.err
        return
    assert outcome.status == 2
    assert reason in outcome.err
    assert outcome.err.count("\n") == 1
    if remedy := REMEDIES.get((example, on)):
        outcome = run(*command, *remedy)
        assert (outcome.status, " cell" in outcome.out) == (0, True), outcome.err


@pytest.mark.usefixtures("lab")
def test_cells_of_other_kernels_are_named(run: Run) -> None:
    outcome = run("run", EXAMPLES / "unbalanced.toml", "--on", "lab", "--dry-run", *REMEDIES["unbalanced", "lab"])
    assert outcome.err == "blklab: warning: 24 of 48 cells run here: kernel 4.19 is not in the lab\n"
