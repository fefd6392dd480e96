"""What distinguishes imported runs, and which of them are repeats."""

import json
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.importers.base import ImportSource
from blklab.importers.collect import batches
from blklab.importers.run_labels import RunNaming
from blklab.text.name_differences import differing
from tests.importers.conftest import FIO, imported, runs


def write(path: Path, device: str | None = "sda", **options: str) -> Path:
    """Writes a result of fio on a device."""
    document = json.loads((FIO / "one.json").read_text())
    document["jobs"][0]["job options"] = {"rw": "randread", **options}
    document["global options"] = {}
    document["disk_util"] = [] if device is None else [{**document["disk_util"][0], "name": device}]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def labels(*paths: Path, pattern: str | None = None) -> list[dict[str, str]]:
    batch, _ = imported(*paths, naming=RunNaming(pattern=pattern))
    return [{k: v for k, v in own.items() if k not in {"rw", "workload"}} for own, _ in runs(batch)]


@pytest.mark.parametrize(
    ("first", "second", "label", "values"),
    [
        # Devices, files and hosts are known.
        (("a1", "sda", {}), ("a2", "nvme0n1", {}), "device", ["sda", "nvme0n1"]),
        (("a1", "sda", {}), ("a2", None, {}), "device", ["sda", None]),
        (("a1", None, {"filename": "/x/f"}), ("a2", None, {"filename": "/y/f"}), "file",
         ["x", "y"]),
        (("a1", "sda", {"hostname": "u"}), ("a2", "sda", {"hostname": "v"}), "host", ["u", "v"]),
        # Options.
        (("a1", "sda", {"ioengine": "libaio"}), ("a2", "sda", {"ioengine": "io_uring"}),
         "ioengine", ["libaio", "io_uring"]),
        # In doubt: names that are no numbers of runs.
        (("ssd", "sda", {}), ("hdd", "sda", {}), "source", ["ssd", "hdd"]),
        (("raid1-4k", "md0", {}), ("raid5-4k", "md0", {}), "source", ["raid1", "raid5"]),
        (("one", None, {}), ("two", None, {}), "source", ["one", "two"]),
        (("run1", None, {}), ("run2", None, {}), "source", ["run1", "run2"]),
        (("x/f", "sda", {}), ("y/f", "sda", {}), "source", ["x", "y"]),
    ],
)  # fmt: skip
def test_runs_in_doubt_are_kept_apart(
    tmp_path: Path, first: Any, second: Any, label: str, values: list[str | None]
) -> None:
    paths = [write(tmp_path / f"{name}.json", on, **more) for name, on, more in (first, second)]
    own = labels(*paths)
    assert [each.get(label) for each in own] == values
    assert {each["repeat"] for each in own} == {"1"}


@pytest.mark.parametrize(
    "names",
    [
        ("fio-run1", "fio-run2"),
        ("fio_repeat_01", "fio_repeat_02"),
        ("fio-2024-05-01", "fio-2024-05-02"),
        ("fio.20240501T1200", "fio.20240501T1300"),
        ("fio-1714550400", "fio-1714554000"),
    ],
)
def test_numbered_runs_on_one_device_are_repeats(tmp_path: Path, names: tuple[str, str]) -> None:
    own = labels(*(write(tmp_path / f"{name}.json") for name in names))
    assert own[0] == {"repeat": "1"}
    assert own[1] == {"repeat": "2"}


def test_a_device_that_distinguishes_is_a_label_of_every_run(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{device}-{bs}.json", device, bs=bs) for device in ("sda", "sdb") for bs in ("4k", "64k")
    ]
    assert [(own["device"], own["bs"]) for own in labels(*paths)] == [
        ("sda", "4k"), ("sda", "64k"), ("sdb", "4k"), ("sdb", "64k"),
    ]  # fmt: skip
    assert all("source" not in own for own in labels(*paths))


def test_a_pattern_splits_names(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.json") for name in ("raid1_4k_1", "raid1_4k_2", "raid5_4k_1")]
    assert labels(*paths, pattern="{stack}_{size}_{repeat}") == [
        {"stack": "raid1", "size": "4k", "repeat": "1"},
        {"stack": "raid1", "size": "4k", "repeat": "2"},
        {"stack": "raid5", "size": "4k", "repeat": "1"},
    ]
    odd = write(tmp_path / "odd.json")
    result = batches([str(path) for path in (*paths, odd)], ImportSource(()), RunNaming(pattern="{a}_{b}_{c}"))
    assert result.errors == [
        f"{odd}: neither the file name 'odd' nor the job name 'one' matches --pattern '{{a}}_{{b}}_{{c}}'"
    ]
    assert len(result.batches[0].plan.cells) == 3
    # The name of the job matches.
    assert labels(odd, pattern="{x}ne") == [{"x": "o", "repeat": "1"}]


def test_names_of_jobs_win_over_names_of_files(tmp_path: Path) -> None:
    path = write(tmp_path / "done.json")  # its job is `one`
    batch, notes = imported(path, naming=RunNaming(pattern="{a}ne"))
    assert runs(batch)[0][0]["a"] == "o"
    expected = "matches the names of file and job: labels are from the name of the job"
    assert [note.partition("'{a}ne' ")[2][: len(expected)] for note in notes] == [expected]
    # With its ending, a pattern is of files; without fixed text it would match every job.
    assert labels(path, pattern="{a}ne.json") == [{"a": "do", "repeat": "1"}]
    batch, notes = imported(path, naming=RunNaming(pattern="{a}"))
    assert runs(batch)[0][0]["a"] == "done"
    assert "labels are from the name of the file" in notes[0]


def test_numbered_files_with_equal_options_are_repeats(tmp_path: Path) -> None:
    """Also if the device is unknown; a directory is read in the order of the numbers."""
    for number in range(1, 12):
        write(tmp_path / "in" / f"a-c1-{number}.json", None)
    batch, notes = imported(tmp_path / "in")
    assert [labels["repeat"] for labels, _ in runs(batch)] == [str(number) for number in range(1, 12)]
    assert [cell.document["source"].rpartition("-")[2] for cell in batch.plan.cells][:3] == [
        "1.json",
        "2.json",
        "3.json",
    ]
    assert len(notes) == 1
    assert "a-c1-#.json (1 to 11): numbered files with equal options are repeats of one cell" in notes[0]


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("a-c1-1", "a-c1-3"), ({}, {})),  # a gap
        (("a-c1-1", "a-c2-2"), ({}, {})),  # another cell
        (("raid-0", "raid-1"), ({}, {})),  # numbers of things
        (("a-1", "a-2"), ({}, {"gtod_reduce": "1"})),  # other options
    ],
)
def test_other_numbered_files_are_no_repeats(
    tmp_path: Path, names: tuple[str, str], options: tuple[dict[str, str], dict[str, str]]
) -> None:
    paths = [write(tmp_path / f"{name}.json", None, **more) for name, more in zip(names, options, strict=True)]
    assert {each["repeat"] for each in labels(*paths)} == {"1"}


def test_runs_that_differ_fivefold_are_no_repeats(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"fio-run{number}.json") for number in (1, 2)]
    document = json.loads(paths[1].read_text())
    for factor, sources in ((4, [None, None]), (6, ["run1", "run2"])):
        changed = json.loads(json.dumps(document))
        for key in ("iops", "total_ios", "io_bytes", "bw_bytes"):
            changed["jobs"][0]["read"][key] *= factor
        paths[1].write_text(json.dumps(changed))
        batch, notes = imported(*paths)
        assert [own.get("source") for own, _ in runs(batch)] == sources
        assert any("IOPS differ by more than 5 times" in note for note in notes) is (factor == 6)


def test_directories_below_a_directory_are_read_and_split_by_a_pattern(tmp_path: Path) -> None:
    for kernel in ("6.1", "6.8"):
        for load in ("reads", "writes"):
            path = tmp_path / "results" / kernel / f"{load}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
    (tmp_path / "results" / "notes").mkdir()
    for number in range(24):
        (tmp_path / "results" / "notes" / f"{number}.txt").write_text("a note")
    batch, notes = imported(tmp_path / "results", naming=RunNaming(pattern="{kernel}/{load}"))
    assert [(own["kernel"], own["load"]) for own, _ in runs(batch)] == [
        ("6.1", "reads"), ("6.1", "writes"), ("6.8", "reads"), ("6.8", "writes"),
    ]  # fmt: skip
    assert [note for note in notes if "unknown format" in note] == [
        f"{tmp_path}/results/notes/0.txt and 23 more: unknown format: skipped"
    ]
    # Without a pattern, a label has the whole version.
    batch, _ = imported(tmp_path / "results" / "6.1" / "reads.json", tmp_path / "results" / "6.8" / "reads.json")
    assert [own["source"] for own, _ in runs(batch)] == ["6.1", "6.8"]


def test_a_version_is_never_split() -> None:
    assert differing(["fio-6.1.json", "fio-6.8.json"]) == ["6.1", "6.8"]
    assert differing(["6.1.9/a", "6.1.10/a"]) == ["6.1.9", "6.1.10"]


@pytest.mark.parametrize("pattern", ["", "plain", "{}", "{a}_{a}", "{a b}"])
def test_wrong_patterns(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="--pattern"):
        labels(write(tmp_path / "x.json"), pattern=pattern)


def test_a_bad_file_does_not_refuse_the_others(tmp_path: Path) -> None:
    good, bad, other = write(tmp_path / "a.json"), tmp_path / "b.json", tmp_path / "c.txt"
    bad.write_text('{"jobs": [{"jobname": "x", "read": {"total_ios": -5000000000}}]}')
    other.write_text("hello\n")
    paths = [str(path) for path in (good, bad, other, tmp_path / "no")]
    result = batches(paths, ImportSource(()), RunNaming())
    assert len(result.batches[0].plan.cells) == 1
    unknown, gone, wrong = result.errors
    assert "cannot be read" in gone
    assert unknown.startswith(f"{other}: unknown format")
    assert wrong == (f"{bad}: jobs[0].read.total_ios: found -5000000000, expected a number from 0 to 2^64")
    with pytest.raises(BlklabError, match="total_ios"):
        batches([str(bad)], ImportSource(()), RunNaming())


def test_what_differs_in_names() -> None:
    assert differing(["a/ssd_4k.json", "a/hdd_4k.json"]) == ["ssd", "hdd"]
    assert differing(["x.txt:5", "x.txt:40"]) == ["line 5", "line 40"]
    assert differing(["r.json", "r-new.json"]) == ["r.json", "r-new.json"]
