"""`blklab trace convert`: the form that a name stands for."""

import re
from pathlib import Path

import pytest

from blklab.trace.convert import SUFFIXES
from tests.conftest import Run

ROOT = Path(__file__).parents[3]
TRACE = ROOT / "tests" / "data" / "traces" / "scsi-errors"


@pytest.mark.parametrize("name", ["x.parqet", "x.iolog.gz", "x.json", "x.PARQUET"])
def test_a_suffix_of_no_form_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    outcome = run("trace", "convert", TRACE, "-o", tmp_path / name)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--to: parquet, ios, iolog" in outcome.err
    assert outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x", "x.2024", ".x", "x.y/z"])
def test_other_names_are_names(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "x.y").mkdir()
    assert run("trace", "convert", TRACE, "-o", tmp_path / name).status == 0
    assert (tmp_path / f"{name}.blktrace.0").is_file()


def test_a_form_that_is_named_needs_no_suffix(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert run("trace", "convert", TRACE, "-o", path, "--to", "iolog").status == 0
    assert path.read_text().startswith("fio version 3 iolog")


def test_stdout_by_its_other_name(run: Run) -> None:
    outcome = run("trace", "convert", TRACE, "-o", "/dev/stdout", "--to", "iolog2")
    assert outcome.status == 0
    assert outcome.out.startswith("fio version 2 iolog")


def test_the_suffixes_are_the_cores() -> None:
    core = (ROOT / "crates/trace/src/export/mod.rs").read_text()
    table = core[core.index("static TARGETS") : core.index("const fn")]
    known = {suffix for row in re.findall(r"&\[(.*?)\]", table) for suffix in re.findall(r'"(.*?)"', row)}
    assert {"." + suffix.rpartition(".")[2] for suffix in known} == set(SUFFIXES)


def test_a_file_of_a_per_cpu_set_names_the_set(run: Run, tmp_path: Path) -> None:
    assert run("trace", "convert", TRACE, "-o", tmp_path / "host.1.blktrace.0").status == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert "host.1.blktrace.0" in names and all(name.startswith("host.1.blktrace.") for name in names)
    assert not any(name.count("blktrace") > 1 for name in names)
