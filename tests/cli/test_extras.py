"""Without the extras: the core works, and other commands say which extra they need."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest

from blklab.cli.extras import EXTRAS, remedy
from blklab.cli.lazy import LazyGroup
from blklab.cli.root import blklab

ROOT = Path(__file__).parents[2]

BARE = """
import importlib.machinery, sys
allowed = {"click", "msgspec", "rich", "blklab", "markdown_it", "pygments", "mdurl", "_blklab"}
blocked = []

class Bare(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        package = name.partition(".")[0]
        if package in blocked or (not blocked and package not in sys.stdlib_module_names and package not in allowed):
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Bare
from blklab.cli import main
"""
"""An installation that has only click, msgspec, rich and the extension."""

FORKING = f"""{BARE}
import json, os
from blklab.cli import root
statuses = []
for blocked, words, messages in json.load(sys.stdin):
    if (process := os.fork()) == 0:
        os.dup2(os.open(messages, os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        main(words)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(json.dumps(statuses))
"""
"""Runs commands, each in a process that has blklab loaded."""

TRACE = "tests/data/traces/pgbench-raid1"


def blocked(extras: Sequence[str]) -> list[str]:
    """Returns the packages that an installation with some extras lacks; without any: all except the core's."""
    wanted = {package for extra, packages in EXTRAS.items() if extra in extras for package in packages}
    return sorted({package for packages in EXTRAS.values() for package in packages} - wanted) if extras else []


def bare(*arguments: str, extras: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    script = f"{BARE}\nblocked = {blocked(extras)}\nmain(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("md", "audit", "--probed", "/dev/null"),
        ("md", "probe"),
        ("trace", "stat", TRACE),
        ("trace", "events", TRACE),
        ("trace", "hist", TRACE, "--device", "md127"),
        ("cache", "curve", TRACE, "--device", "md127", "--policy", "lru"),
        ("cache", "status"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_core_works_without_extras(arguments: tuple[str, ...]) -> None:
    done = bare(*arguments)
    assert "missing extras" not in done.stderr
    assert done.returncode == (3 if "--probed" in arguments else 0), done.stderr


NEEDS = {
    "advise": ("run, report", "--load database --devices 2xpm983 --html page.html"),
    "bisect": ("run, lab", "examples/mirrors.toml --good 6.1 --bad 6.12 --fail-if iops<1"),
    "cache curve": ("cluster", f"{TRACE} --device md127 --cluster=local"),
    "calibrate": ("run", "--store {none} {none}"),
    "compare": ("run", "--store {none} a b"),
    "devices export": ("run", "pm983 --iocost"),
    "devices identify": ("run", "PM983"),
    "devices import": ("run", "{none}"),
    "devices list": ("run", ""),
    "devices refit": ("run", "{none}"),
    "devices show": ("run", "pm983"),
    "import": ("run", "--store {none} {none}"),
    "lab build": ("run, lab", ""),
    "lab demo": ("run, lab", ""),
    "lab kernels": ("run", ""),
    "lab prune": ("run", ""),
    "md watch": ("watch", "--textfile -"),
    "report": ("run, report", "--store {none} 1"),
    "reproduce": ("run", "{none}"),
    "run": ("run, lab", "examples/mirrors.toml --no-store --on lab"),
    "runs export": ("run", "--store {none} 1"),
    "runs list": ("run", "--store {none}"),
    "runs note": ("run", "--store {none} 1 a"),
    "runs rm": ("run", "--store {none} 1"),
    "runs show": ("run", "--store {none} 1"),
    "runs tag": ("run", "--store {none} 1 a"),
    "runs trend": ("run", "--store {none} a"),
    "serve": ("run, report, serve", ""),
    "trace diff": ("run", f"{TRACE} {TRACE}"),
    "trace hist": ("cluster", "s3://bucket/x-*"),
    "trace report": ("report", f"{TRACE} -o -"),
    "trace stat": ("run, postgresql", f"{TRACE} --keep a --store postgresql://localhost:1/a"),
    "tune": ("run", "--store {none} 1"),
}
"""All extras that commands need with these arguments."""


def messages(commands: Collection[str], directory: Path, *, with_extras: bool) -> dict[str, tuple[int, str]]:
    """Returns the exit status and the messages of commands, without extras or with those that they need."""
    items = []
    for command in commands:
        extras, arguments = NEEDS[command]
        words = [*command.split(), *arguments.format(none=directory / "none").split()]
        items.append((blocked(extras.split(", ") if with_extras else []), words, str(directory / command)))
    done = subprocess.run(
        [sys.executable, "-c", FORKING], input=json.dumps(items), capture_output=True, text=True, check=True, cwd=ROOT
    )
    statuses = json.loads(done.stdout)
    return {
        command: (status, (directory / command).read_text()) for command, status in zip(commands, statuses, strict=True)
    }


def test_one_message_names_all_missing_extras(tmp_path: Path) -> None:
    for command, (status, message) in messages(NEEDS, tmp_path, with_extras=False).items():
        extras = NEEDS[command][0]
        assert status == 3, f"{command}: {message}"
        assert f"needs missing extras: {extras} (" in message, command
        assert len(message.splitlines()) == 1


def test_declared_extras_suffice(tmp_path: Path) -> None:
    quick = ("compare", "devices list", "report", "runs list", "trace diff", "trace report")
    for command, (_, message) in messages(quick, tmp_path, with_extras=True).items():
        assert "missing extras" not in message, command


def test_help_marks_commands_whose_extra_is_missing() -> None:
    help_text = bare("--help").stdout
    assert len(help_text.splitlines()) <= 40
    lines = " ".join(help_text.split())
    assert "or is it noise? (missing extras: run) report" in lines
    assert "undo what a killed run changed? reproduce" in lines
    lines = " ".join(bare("--help", extras=["run"]).stdout.split())
    assert "or is it noise? report" in lines
    assert "show results? (missing extras: report) serve" in lines
    assert bare("runs", "--help").stdout.count("(missing extras: run)") == 6


def test_every_declaration_is_tested() -> None:
    declared: list[str] = []

    def walk(group: LazyGroup, path: str, inherited: tuple[str, ...]) -> None:
        for name, entry in group.entries.items():
            command = group.get_command(click.Context(group), name)
            extras = (*inherited, *entry.extras)
            if isinstance(command, LazyGroup):
                walk(command, f"{path} {name}", extras)
            if extras and (not isinstance(command, LazyGroup) or command.invoke_without_command):
                declared.append(f"{path} {name}".strip())
                assert set(extras) <= set(NEEDS[declared[-1]][0].split(", "))

    walk(blklab, "", ())
    assert set(NEEDS) - set(declared) == {"cache curve", "trace hist", "trace stat"}  # Only with these arguments


def installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: dict[str, object] | None, marker: str = ""
) -> str:
    """Returns the remedy of an installation in a virtual environment."""
    metadata = tmp_path / "site/blklab-0.2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.4\nName: blklab\nVersion: 0.2.0\n")
    (metadata / "WHEEL").write_text("Tag: cp311-abi3-manylinux2014_x86_64\nTag: cp311-abi3-manylinux_2_17_x86_64\n")
    if origin is not None:
        (metadata / "direct_url.json").write_text(json.dumps(origin))
    (tmp_path / (marker or "pyvenv.cfg")).touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/v/bin/python")
    return remedy(["run", "report"])


@pytest.mark.parametrize(
    ("marker", "program", "extras"),
    [
        ("", "/v/bin/python -m pip install", "run,report"),
        ("pipx_metadata.json", "pipx install --force", "run,report,watch"),
        ("uv-receipt.toml", "uv tool install --force", "run,report,watch"),
    ],
)
def test_hint_is_the_wheel_that_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, marker: str, program: str, extras: str
) -> None:
    # Programs that replace the environment also get the extras that it has.
    monkeypatch.setattr("blklab.cli.extras.missing", lambda wanted: [extra for extra in wanted if extra != "watch"])
    wheel = tmp_path / "my wheels" / "blklab-0.2.0-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    hint = installed(monkeypatch, tmp_path, {"url": wheel.as_uri(), "archive_info": {}}, marker)
    assert hint == f"{program} '{wheel}[{extras}]'"


@pytest.mark.parametrize("origin", [None, {"url": "file:///gone/blklab.whl", "archive_info": {}}])
def test_hint_is_the_name_of_the_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: dict[str, object] | None
) -> None:
    name = "./blklab-0.2.0-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl[run,report]"
    page = ROOT / "docs/howto/install.md"
    assert installed(monkeypatch, tmp_path, origin) == (
        f"/v/bin/python -m pip install '{name}' (`make dist` builds this file: {page})"
    )


def test_hint_of_a_checkout_is_make_setup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hint = installed(monkeypatch, tmp_path, {"url": "file:///src/blk%20lab", "dir_info": {"editable": True}})
    assert hint == "make -C '/src/blk lab' setup"


def test_no_hint_names_a_package_that_is_not_ours() -> None:
    places = [*(ROOT / "python").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "packaging/debian/blklab"]
    assert not [str(path) for path in places if re.search(r"[\s'\"`]blklab\[", path.read_text())]


def test_extras_have_the_packages_that_they_name() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    provided = packages_distributions()
    requirements = {extra: " ".join(declared[extra]).lower() for extra in EXTRAS}
    indirect = {"numpy", "markupsafe", "dask", "fsspec"}  # come with scipy, jinja2, distributed and s3fs
    for extra, packages in EXTRAS.items():
        for package in set(packages) - indirect:
            assert any(name.lower().replace("_", "-") in requirements[extra] for name in provided[package]), package
