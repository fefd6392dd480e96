"""Without the extras: the core works, and other commands say which extra they need."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from blklab.cli.exit_status import EXTRAS

ROOT = Path(__file__).parents[2]

BARE = """
import importlib.abc, sys
allowed = {"click", "rich", "blklab", "markdown_it", "pygments", "mdurl", "_blklab"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in sys.stdlib_module_names and package not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from blklab.cli import main
main(sys.argv[1:])
"""
"""An installation that has only click, rich and the extension."""

TRACE = "tests/data/traces/pgbench-raid1"


def bare(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
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
    assert "this command needs" not in done.stderr
    assert done.returncode == (3 if "--probed" in arguments else 0), done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "examples/mirrors.toml", "--no-store"), "run"),
        (("trace", "report", TRACE, "-o", "-"), "report"),
        (("trace", "stat", TRACE, "--keep", "x"), "run"),
        (("md", "watch"), "watch"),
        (("serve",), "serve"),
        (("cache", "curve", TRACE, "--device", "md127", "--cluster", "local"), "cluster"),
        (("trace", "stat", "s3://bucket/x-*"), "cluster"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_command_names_the_extra_that_it_needs(arguments: tuple[str, ...], extra: str) -> None:
    done = bare(*arguments)
    assert done.returncode == 3, done.stderr
    assert done.stderr.endswith(f"pip install 'blklab[{extra}]'\n")
    assert len(done.stderr.splitlines()) == 1


def test_extras_have_the_packages_that_they_name() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    provided = packages_distributions()
    requirements = {extra: " ".join(declared[extra]).lower() for extra in EXTRAS}
    indirect = {"numpy", "markupsafe", "dask", "fsspec"}  # come with scipy, jinja2, distributed and s3fs
    for extra, packages in EXTRAS.items():
        for package in set(packages) - indirect:
            assert any(name.lower().replace("_", "-") in requirements[extra] for name in provided[package]), package
