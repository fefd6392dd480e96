"""Guards what reviewers would otherwise have to: which crate may use which, how long a function may
be, where processes are started, and what must not be in the repository at all. Which Python package
may import which is in pyproject.toml (import-linter)."""

import ast
import itertools
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests import rust_modules

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "blklab"

LONGEST = 70
"""Lines of a function, without its docstring."""

RUST_FUNCTION = re.compile(r"( *)(?:pub(?:\(.*?\))? )?(?:const |async |unsafe )*fn (\w+)")

CRATES = {
    "agent": set[str](),
    "schema": set[str](),
    "stats": {"schema"},
    "cache": {"schema", "stats"},
    "trace": {"schema", "stats"},
    "sim": {"cache", "md", "schema", "stats"},
    "md": {"schema"},
    "documents": {"cache", "trace", "sim", "md"},
    "py": {"stats", "cache", "trace", "sim", "md"},
}
"""Which of our crates each may depend on."""

STARTS_PROCESSES = re.compile(
    r"(system/(ansible_inventory|child_process|dmsetup|signatures)|cluster|bisect/git)\.py|(runners|md)/.*"
    r"|trace/(record|fio)/.*"
)
"""Files below python/blklab that may import subprocess."""

# Split, so that this file does not name them itself.
REGISTRIES = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "static.crates" + ".io",
    "index.crates" + ".io",
    "proxy." + "golang.org",
    "registry." + "npmjs.org",
    "deb.debian" + ".org",
]
DEVELOPER_PATHS = re.compile(r"(?<![\w.~-])/(?:home/[a-z_][\w-]*|Users/\w+|root|work)/[\w.-]+")


@cache
def files() -> tuple[Path, ...]:
    """Returns every file that is, or is about to be, in the repository."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listing.split("\0") if name]
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def texts() -> Iterator[tuple[Path, str]]:
    """Returns every text file but recorded data, with its content."""
    for path in files():
        if path.relative_to(ROOT).parts[:2] == ("tests", "data"):
            continue
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            yield path, content.decode(errors="replace")


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path) -> Iterator[str]:
    """Returns the modules that a file imports, wherever in it, by their full names."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("manifest", sorted(ROOT.glob("crates/*/Cargo.toml")), ids=lambda path: path.parent.name)
def test_crates_depend_only_downwards(manifest: Path) -> None:
    """Otherwise the agent, which runs in guests, would get the dependencies of the simulator."""
    content = tomllib.loads(manifest.read_text())
    tables = [content, *content.get("target", {}).values()]
    used = {
        name.removeprefix("blklab-")
        for table in tables
        for kind in ("dependencies", "dev-dependencies", "build-dependencies")
        for name in table.get(kind, {})
        if name.startswith("blklab-")
    }
    crate = manifest.parent.name
    assert crate in CRATES, f"crates/{crate} is new: say in CRATES what it may depend on"
    assert used <= CRATES[crate]


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_no_module_of_a_crate_imports_another_in_a_circle(crate: str) -> None:
    """Modules in a circle can only be read, changed and tested together."""
    assert circle(ROOT / "crates" / crate / "src") == ""


def circle(source: Path) -> str:
    """Returns `a → b → a`, empty if no top-level modules of a crate import each other so."""
    graph = rust_modules.uses(source)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))  # graphlib goes from what is used to its user
    return ""


def test_circles_of_modules_are_found(tmp_path: Path) -> None:
    """The check itself overlooked `use` lines of several parts, and modules only of tests."""
    (tmp_path / "b").mkdir()
    (tmp_path / "lib.rs").write_text(
        "pub mod a;\nmod b;\nmod c;\n#[cfg(test)]\nmod made;\npub use c::{Gamma, Other as More};\n"
    )
    (tmp_path / "a.rs").write_text("use crate::{\n    // c,\n    b::{deep::X, c},\n};\n")
    (tmp_path / "b" / "mod.rs").write_text(
        "mod deep;\n#[cfg(test)]\nmod tests {\n    use crate::a::Y;\n}\nuse super::Gamma;\n"
    )
    (tmp_path / "b" / "deep.rs").write_text("use super::made;\n#[cfg(test)]\nuse crate::a;\n")
    (tmp_path / "c.rs").write_text("use std::fmt;\n")
    (tmp_path / "made.rs").write_text("use crate::a;\n")
    assert rust_modules.uses(tmp_path) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert circle(tmp_path) == ""
    (tmp_path / "c.rs").write_text("fn f(y: &crate::a::Y) {}\n")
    assert circle(tmp_path) in {"a → b → c → a", "b → c → a → b", "c → a → b → c"}
    (tmp_path / "c.rs").write_text("")
    (tmp_path / "b" / "deep.rs").write_text("use super::super::a::Y;\n")
    assert circle(tmp_path) in {"a → b → a", "b → a → b"}


def test_every_dependency_has_a_reason() -> None:
    """A dependency without a reason stays for ever: it is not known what could replace it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in requirements} - {"blklab"}
    for manifest in ROOT.glob("crates/*/Cargo.toml"):
        content = tomllib.loads(manifest.read_text())
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            names |= {name for name in content.get(kind, {}) if not name.startswith("blklab-")}
    reasons = (ROOT / "docs" / "reference" / "dependencies.md").read_text()
    assert not {name for name in names if f"`{name}`" not in reasons}


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.lineno, node.end_lineno or 0
            if ast.get_docstring(node) is not None:
                first += (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            yield node.name, last - first + 1


def rust_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yields what has a body: it ends at the depth of its `fn`, as rustfmt has it."""
    lines = path.read_text().splitlines()
    for first, line in enumerate(lines):
        if match := RUST_FUNCTION.match(line):
            for last in range(first, len(lines)):
                if lines[last].endswith(";") and (last == first or lines[last].startswith(f"{match[1]})")):
                    break  # a declaration
                if lines[last].startswith(f"{match[1]}}}") or (last == first and line[-1] == "}"):
                    yield match[2], last - first + 1
                    break


def test_functions_are_short() -> None:
    """A longer function does not fit on a screen: its reader forgets the beginning before the end."""
    long = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in files()
        if path.suffix in {".py", ".rs"}
        for name, length in (python_functions if path.suffix == ".py" else rust_functions)(path)
        if length > LONGEST
    }
    assert not long


def test_no_registry_is_named() -> None:
    """A mirror behind a firewall could not be used: the files named the host."""
    named = [f"{path.relative_to(ROOT)}: {host}" for path, text in texts() for host in REGISTRIES if host in text]
    assert not named


def test_requirements_are_pinned_by_hash_and_name_no_index() -> None:
    """A build of the same commit got other versions on another day."""
    for path in ROOT.glob("requirements/*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert not re.search(r"^--(?!hash)|^-", text, re.M), path
        pins = re.findall(r"^[a-z0-9].*", text, re.M)
        assert pins
        assert all("==" in pin and pin.endswith("\\") for pin in pins)


def test_no_developers_machine_is_named() -> None:
    """Paths of one machine in tests and recordings: they passed only there."""
    named = [
        f"{path.relative_to(ROOT)}: {match[0]}" for path, text in texts() for match in DEVELOPER_PATHS.finditer(text)
    ]
    assert not named


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_processes_start_where_they_may_and_never_in_a_shell(path: Path) -> None:
    """blklab runs as root, and names of disks and files are not its own: in a shell, they would be commands."""
    starters = {"subprocess", "pty", "multiprocessing"}
    if not STARTS_PROCESSES.fullmatch(path.relative_to(PACKAGE).as_posix()):
        assert not starters & {module.split(".")[0] for module in imports(path)}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call):
            shell = [word.value for word in node.keywords if word.arg == "shell"]
            assert not shell, f"{path}:{node.lineno}: shell="
            name = ast.unparse(node.func)
            if name == "os.fork" and path.name == "remote_program.py":  # it runs no program
                continue
            assert not re.fullmatch(
                r"os\.(system|popen|exec\w+|spawn\w+|posix_spawnp?|fork)"
                r"|(asyncio\.)?create_subprocess_\w+|subprocess\.get(status)?output",
                name,
            ), f"{path}:{node.lineno}: {name}"


def test_scripts_can_be_run() -> None:
    """A script without its bit failed only in a fresh clone."""
    for path in files():
        if path.read_bytes()[:2] == b"#!":
            assert path.stat().st_mode & 0o111, f"{path} is not executable"


@pytest.mark.parametrize(
    "path", [path for path in files() if path.suffix == ".py" and path.parent.name in {"bench", "scripts"}], ids=str
)
def test_programs_import_names_that_exist(path: Path) -> None:
    """mypy does not check them, so a renamed function would be found by the next `make bench` only."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "blklab":
            code = f"from {node.module} import {', '.join(name.name for name in node.names)}"
            exec(code, {})  # noqa: S102  # Raises ImportError
