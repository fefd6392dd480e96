"""The frame of the command line: help, version, completion, laziness."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import blklab
from blklab.cli import root
from blklab.cli.lazy import LazyGroup
from tests.conftest import Run
from tests.md.conftest import image

ROOT = Path(__file__).parents[2]


def groups() -> list[tuple[str, LazyGroup]]:
    """Returns every group, with the words that lead to it."""
    result: list[tuple[str, LazyGroup]] = [("", root.blklab)]
    for path, group in result:
        for name in group.entries:
            command = group.get_command(click.Context(group), name)
            if isinstance(command, LazyGroup):
                result.append((f"{path} {name}".strip(), command))
    return result


def commands() -> list[tuple[str, click.Command]]:
    """Returns every command, groups too, with the words that lead to it."""
    return [
        (f"{path} {name}".strip(), command)
        for path, group in groups()
        for name in group.entries
        if (command := group.get_command(click.Context(group), name))
    ]


@pytest.mark.parametrize(("path", "command"), [("", root.blklab), *commands()])
def test_every_option_has_a_help_text(path: str, command: click.Command) -> None:
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [option.opts[-1] for option in options if not option.help] == [], path


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_says_what_to_type(run: Run, option: str) -> None:
    outcome = run(option)
    assert outcome.status == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    shown = [line.split()[-1] for line in re.findall(r"(?m)^  (\S* +[a-z]+)  +[A-Z].*\?", outcome.out)]
    assert shown == [name for name, entry in root.blklab.entries.items() if not entry.rare]
    groups = re.findall(r"(?m)^  ([A-Z][a-z]+) +([a-z]+)  ", outcome.out)
    assert groups == [
        ("Look", "trace"), ("Check", "md"), ("Decide", "advise"), ("Measure", "run"), ("Results", "runs")
    ]  # fmt: skip
    assert "First commands" in outcome.out
    assert "audit = md audit, record = trace record, stat = trace stat" in outcome.out
    assert "With --help: also rare commands, exit status, environment." in outcome.out
    assert "Exit status:" not in outcome.out


@pytest.mark.parametrize("words", [["--help", "--all"], ["--all", "-h"]])
def test_help_of_all_adds_rare_commands_exit_status_and_environment(run: Run, words: list[str]) -> None:
    outcome = run(*words)
    assert (outcome.status, outcome.err) == (0, "")
    for part in ("First commands", "Exit status", "Environment", "BLKLAB_DEBUG", "NO_COLOR", "calibrate", "completion"):
        assert part in outcome.out
    for group, rare in (("md", "probe"), ("trace", "events")):
        assert f"  {rare}" not in run(group, "--help").out
        assert f"  {rare}" in run(group, *words).out


def test_all_needs_help(run: Run) -> None:
    assert run("--all").status == 2


@pytest.mark.parametrize("alias", root.ALIASES)
def test_an_alias_is_the_command(run: Run, alias: str) -> None:
    words = root.ALIASES[alias]
    assert run(alias, "--help") == run(*words, "--help")
    assert f"Usage: blklab {' '.join(words)} " in run(alias, "--help").out
    assert f"blklab {' '.join(words)} --help" in run(alias, "--nonsense").err


@pytest.mark.parametrize("path", [path for path, _ in commands()])
def test_every_command_has_help_that_fits(run: Run, path: str) -> None:
    outcome = run(*path.split(), "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: blklab {path}")
    assert max(len(line) for line in outcome.out.splitlines()) <= 100
    assert run(*path.split(), "-h").out == outcome.out


@pytest.mark.parametrize("group", [group for _, group in groups()])
def test_the_registry_reads_well(group: LazyGroup) -> None:
    for name, entry in group.entries.items():
        assert re.fullmatch(r"[a-z][a-z-]*", name)
        assert entry.summary[0].isupper()
        assert not entry.summary.endswith(".")
        assert len(entry.summary) <= 66


def test_alone_it_shows_its_help_and_fails(run: Run) -> None:
    outcome = run()
    assert (outcome.status, outcome.out) == (2, "")
    assert "First commands" in outcome.err


def test_the_version_is_cargos(run: Run) -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["version"]
    assert blklab.__version__ == version
    outcome = run("--version")
    assert outcome.status == 0
    assert outcome.out.startswith(f"blklab {version}")
    assert ("debug build" in outcome.out) == blklab.DEBUG_BUILD


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trcae"], "did you mean 'trace'?"),
        (["audti"], "did you mean 'audit'?"),
        (["zzz"], "see 'blklab --help'"),
        (["--zzz"], "--zzz"),
        (["completion", "tcsh"], "bash"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(run: Run, arguments: list[str], hint: str) -> None:
    outcome = run(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("blklab: error: ")
    assert outcome.err.count("\n") == 1
    assert hint in outcome.err
    assert "blklab" in outcome.err.removeprefix("blklab: error: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run: Run, shell: str) -> None:
    outcome = run("completion", shell)
    assert outcome.status == 0
    assert "_BLKLAB_COMPLETE" in outcome.out


def test_completion_completes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_BLKLAB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "blklab comp")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run().out == "plain,compare\nplain,completion\n"
    monkeypatch.setenv("COMP_WORDS", "blklab audit --im")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run().out == "plain,--image\n"


@pytest.mark.parametrize(
    ("path", "words", "options"),
    [
        ("tests/data/traces/pgbench-raid1", ["trace", "stat"], []),
        ("tests/data/traces/pgbench-raid1/md127", ["trace", "stat"], []),
        ("tests/data/formats/msr.csv", ["trace", "stat"], []),
        ("examples/mirrors.toml", ["run"], ["--dry-run"]),
        ("examples/article-2019-mirrors.toml", ["run"], ["--dry-run"]),
    ],
)
def test_a_file_in_place_of_a_command_is_shown(run: Run, path: str, words: list[str], options: list[str]) -> None:
    done = run(ROOT / path, "--json")
    expected = run(*words, ROOT / path, *options, "--json")
    assert (done.status, done.out) == (0, expected.out)
    said, *rest = done.err.splitlines()
    assert said.endswith(f": {' '.join(['blklab', *words, str(ROOT / path), *options])}")
    assert rest == expected.err.splitlines()


def test_images_of_md_members_are_audited(run: Run, tmp_path: Path) -> None:
    images = [image(f"raid1-12.vd{letter}", tmp_path) for letter in "ab"]
    done = run(*images)
    expected = run("md", "audit", "--image", *images)
    assert (done.status, done.out) == (expected.status, expected.out)
    assert done.err == f"blklab: {images[0]} is an image of an md member: blklab md audit --image {images[0]}\n"


def test_a_command_comes_before_a_file_and_other_files_are_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs", "trcae", "text.toml"):
        Path(name).write_text("[stuff]\nworkloads = 1\n" * (name == "runs"))
    assert run("runs", "--help").out.startswith("Usage: blklab runs")
    assert "did you mean 'trace'?" in run("trcae").err
    assert "no command 'text.toml'; see 'blklab --help'" in run("text.toml").err
    assert run(".").status == 2


@pytest.mark.parametrize("words", ["", "md", "md audit", "run"])
def test_help_is_a_command_as_well(run: Run, words: str) -> None:
    asked = run("help", *words.split())
    assert asked == run(*words.split(), "--help")
    assert asked.status == 0


def test_help_imports_nothing_heavy() -> None:
    script = """
import sys
from blklab.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = {"rich", "jinja2", "altair", "vl_convert", "asyncio", "blklab.cli.trace"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


def test_listing_a_group_imports_no_command() -> None:
    script = """
import sys
from blklab.cli import main
try:
    main(["trace", "--help"])
except SystemExit:
    pass
loaded = [name for name in sys.modules if name.startswith("blklab.cli.trace.")]
sys.exit(f"imported {loaded}" if loaded else 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


def test_change_is_for_plans_only(run: Run) -> None:
    result = run("compare", "one", "two", "--change", "3%")
    assert (result.status, result.err) == (
        2, "blklab: error: --change needs --plan: it is the change that the planned runs can find\n",
    )  # fmt: skip
