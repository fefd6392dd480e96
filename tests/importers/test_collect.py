"""Files to campaigns: recognised, labelled, bounded; and each defect is one line."""

import json
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError, UsageError
from blklab.importers import collect
from blklab.importers.base import ImportFile, ImportSource
from blklab.importers.collect import batches
from blklab.importers.run_labels import RunNaming
from blklab.importers.tables import PRESETS
from blklab.store.series import unpack_output
from blklab.text import user_file
from tests.importers.conftest import DATA, FIO, imported, runs
from tests.trace.test_documented import documented_fields

DESCRIBED = ("result", "imported result")
"""Sections of docs/reference/formats.md."""

SAMPLES = {
    **{path.name: "fio-text" for path in DATA.glob("*fio*.txt")},
    **{path.name: "iostat" for path in DATA.glob("*iostat*.txt")},
    "fio-3.33.json": "fio",
    **dict.fromkeys(("fio-3.33-mixed.json", "fio-3.33-status.json"), "fio"),
    "hist_clat_hist.1.log": "fio-log",
    **{path.name: path.name.split("-")[0] for path in DATA.glob("*") if path.name.split("-")[0] in PRESETS},
    "bonnie-csv-2.00a.txt": "bonnie-csv",
    **{f"form-{name}.txt": name for name in ("randomio", "blkparse", "sdd")},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_recognised_by_no_other(name: str) -> None:
    file = ImportFile(DATA / name, (DATA / name).read_text())
    matching = [key for key, each in collect.FORMATS.items() if each.matches(file)]
    assert matching == [SAMPLES[name]]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_field_is_documented(name: str) -> None:
    output = documented_fields("outcome", *DESCRIBED)
    device = "sda" if "iostat" in name else None
    batch, _ = imported(DATA / name, device=device, keep_first=True, interval_ns=10**10)
    for _, result in runs(batch):
        outcome = result.as_document()
        devices = [key for device in outcome["devices"] for key in device]
        inner = outcome.get("fio", {})
        assert {*outcome, *devices, *inner, *outcome["read"]} - output == set()


def test_a_directory_is_all_that_is_in_it(tmp_path: Path) -> None:
    for name in ("fio-3.25.txt", "form-iostat-12.txt", "README.md"):
        (tmp_path / name).write_text((DATA / name).read_text())
    (tmp_path / "broken.json").write_text('{"jobs": [')
    (tmp_path / "disk.img").write_bytes(bytes(512))
    result = batches([str(tmp_path)], ImportSource((), device="sda"), RunNaming(name="all"))
    assert [(item.plan.runner, len(item.plan.cells)) for item in result.batches] == [("fio", 3), ("iostat", 1)]
    assert {item.plan.name for item in result.batches} == {"all"}
    assert result.notes[0] == f"{tmp_path}/README.md: unknown format: skipped"
    assert result.errors == [
        f"{tmp_path}/disk.img: is not text",
        f"{tmp_path}/broken.json: fio's JSON is invalid: it ends in line 1",
    ]


def test_labels_are_given_and_renamed() -> None:
    naming = RunNaming(
        labels={"stack": "near", "repeat": "9"},
        new_values={("workload", "mytest"): "sync", ("device", "nvme1n1"): "nvme"},
    )
    batch, _ = imported(DATA / "fio-3.25.txt", naming=naming)
    (first, _), (second, raw), _ = runs(batch)
    assert first["stack"] == "near"
    assert "repeat" in first
    assert first["repeat"] == "1"
    assert second["workload"] == "sync"
    assert raw.devices[0].name == "nvme"


def test_names_can_be_chosen_with(tmp_path: Path) -> None:
    path = tmp_path / "run@12:30~.out"
    path.write_text((DATA / "fio-3.25.txt").read_text())
    assert imported(path)[0].plan.name == "run-12-30"
    assert imported(path, naming=RunNaming(name="v1.2"))[0].plan.name == "v1.2"


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"", "is empty; expected results"),
        (b"\n \n", "is empty; expected results"),
        (b"hello\n", "unknown format; known are fio: fio's JSON, JSON+; fio-log:"),
        (b"a\0b", "is not text"),
    ],
)
def test_what_is_no_result(tmp_path: Path, content: bytes, output: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        imported(path)
    assert str(caught.value).startswith(f"{path}: {output}")


def test_the_texts_of_a_directory_are_not_in_memory_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_file, "LARGEST", 2 << 20)  # also the size of the buffer
    document = (DATA / "fio-3.33.json").read_text()
    for number in range(20):
        (tmp_path / f"{number}.json").write_text(document + " " * (1 << 20))
    tracemalloc.start()
    batch, _ = imported(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(batch.plan.cells) == 80
    assert peak < 10 << 20  # of 20 MiB, a file at a time
    assert unpack_output(batch.finished_runs[batch.plan.cells[3].key].raw).startswith(document)


class CountedPath(type(Path())):  # type: ignore[misc]
    """A path that counts how often one is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedPath.compared += 1
        return bool(super().__eq__(other))

    __hash__ = Path.__hash__


def test_logs_find_their_document_without_a_search_among_all() -> None:
    names: dict[Path, set[str]] = {CountedPath(f"d/{number}.json"): {f"p{number}"} for number in range(500)}
    logs = [ImportFile(CountedPath(f"d/p{number}_iops.1.log"), "") for number in range(500)]
    CountedPath.compared = 0
    companions = collect._companions(names, logs)
    assert companions == {path: [log] for path, log in zip(names, logs, strict=True)}
    assert CountedPath.compared < 10_000  # a search among all: 250,000


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[(DATA / "fio-3.33.json").read_text()])
    writer.start()
    assert len(imported(pipe)[0].plan.cells) == 4
    writer.join()


def test_files_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_file, "LARGEST", 100)
    path = tmp_path / "file"
    path.write_text("x" * 101)
    with pytest.raises(UsageError, match="is larger than"):
        imported(path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        imported(tmp_path / "nothing")


TEXTS = {
    **{name: (DATA / name).read_text() for name in SAMPLES},
    "one_iops.1.log": (FIO / "one_iops.1.log").read_text(),
}


@given(st.sampled_from(sorted(TEXTS)), st.floats(0, 1), st.integers(0, 300), st.text(max_size=30), st.booleans())
def test_mangled_files_are_one_line_or_a_result(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: float, length: int, new: str, twice: bool
) -> None:
    content = TEXTS[name]
    at = round(place * len(content))
    path = tmp_path_factory.mktemp("mangled") / name
    path.write_text(content[:at] + new + content[at + length :] + (content if twice else ""), errors="replace")
    try:
        result = batches([str(path)], ImportSource((), None, None, True), RunNaming()).batches
    except BlklabError as error:
        assert str(path) in str(error)
        assert len(str(error).splitlines()) == 1
    else:
        for batch in result:
            for labels, outcome in runs(batch):
                assert json.dumps([dict(labels), outcome.as_document()], allow_nan=False)


@pytest.mark.parametrize("name", collect.FORMATS)
@pytest.mark.parametrize(
    "line",
    [
        *("x" * 100_000, "1, 2, 3, " * 10_000, "r/s w/s %util " * 10_000, "iops min avg " * 9000),
        *("12 | " * 20_000, "Reads Queued: 1, " * 9000, "=" * 99_999),
    ],
)
def test_long_lines_are_soon_refused(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / "x_iops.1.log"
    path.write_text("\n".join([line] * 5))
    with pytest.raises(BlklabError):
        imported(path, form=name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x_iops.1.log", "1000, 9999999999999999999, 0, 0\n2000, 9999999999999999999, 0, 0\n"),
        ("x_iops.1.log", "0, 1, 0, 999999999999999999\n" * 20),
    ],
)
def test_what_the_store_cannot_keep_is_refused(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(BlklabError, match=r"figures of 2\^63 or more|expected a number"):
        imported(path)
