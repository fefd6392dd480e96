"""`blklab devices import` and `export`: the figures of io.cost become a model, and a model has them again."""

import gzip
import json
import tomllib
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from blklab.calibrate import iocost
from blklab.devices import stock_models
from blklab.errors import UsageError
from tests.conftest import Run

XG6 = {
    "rbps": 2_419_411_544, "rseqiops": 256_089, "rrandiops": 229_994,
    "wbps": 833_689_535, "wseqiops": 12_618, "wrandiops": 22_672,
}  # fmt: skip
LINE = f"259:0 ctrl=user model=linear {' '.join(f'{key}={value}' for key, value in XG6.items())}\n"


def result(**changed: int) -> list[Any]:
    """Returns what resctl-bench writes, as far as blklab reads it."""
    report = {"scr_dev_model": "KXG6AZNV512G TOSHIBA", "scr_dev_size": 512_110_190_592}
    model = {**XG6, **changed}
    before = {"model": dict.fromkeys(XG6, 1)}
    return [
        {
            "spec": {"kind": "iocost-params"},
            "sysinfo": {"sysreqs_report": report, "iocost": before},
            "record": {"devnr": "259:0", "model": model, "scaled": [dict.fromkeys(XG6, 7)]},
        }
    ]


def test_an_imported_disk_has_the_measured_rates(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    plain, packed = tmp_path / "1.json", tmp_path / "2.json.gz"
    plain.write_text(json.dumps(result()))
    packed.write_bytes(gzip.compress(json.dumps(result(rrandiops=229_994)).encode()))
    own = tmp_path / "blklab/devices/mine.toml"
    own.parent.mkdir(parents=True)
    done = run("devices", "import", plain, packed, "-o", own)
    assert (done.status, done.out) == (0, ""), done.err
    table = tomllib.loads(own.read_text())
    assert table["library"] == {
        "name": "KXG6AZNV512G TOSHIBA", "class": "nvme-consumer", "certainty": "measured",
        "match": ["KXG6AZNV512G TOSHIBA*"],
    }  # fmt: skip
    assert table["capacity"] == 512_110_190_592
    (disk,) = json.loads(run("devices", "identify", "KXG6AZNV512G TOSHIBA", "--json").out)
    assert disk["model"] == "mine"
    exported = json.loads(run("devices", "export", "mine", "--iocost", "--json").out)["model"]
    for figure in ("rbps", "rseqiops", "rrandiops", "wbps", "wrandiops"):
        assert exported[figure] == pytest.approx(XG6[figure], rel=0.05), figure
    # Sequential small writes have no parameter, and the interval says so.
    assert exported["wseqiops"] > 1.5 * XG6["wseqiops"]
    assert table["uncertainty"]["write"] > 2 * table["uncertainty"]["read"]


def test_lines_of_the_kernel_are_read_and_printed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "io.cost.model"
    path.write_text(LINE)
    done = run("devices", "import", path, "--model", "nvme-consumer", "--name", "KXG6")
    assert done.status == 0, done.err
    assert tomllib.loads(done.out)["read_command_ns"] < 1e9 / XG6["rrandiops"]
    done = run("devices", "export", "pm983", "--iocost", "--device", "259:0")
    model, qos = done.out.splitlines()
    assert iocost.format_figures(next(iocost._in_lines(model))) == model.partition("model=linear ")[2]
    assert qos.startswith("259:0 enable=1 rpct=95 rlat=")


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("", (), "no figures of a disk"),
        ("[]", (), "no figures of a disk"),
        ("[" * 100_000, (), "no figures of a disk"),
        (LINE.replace("rbps=2419411544", "rbps=0"), (), "no figures of a disk"),
        (LINE, (), "--model: expected a model such as nvme-consumer"),
        (LINE, ("--model", "nvme-consume"), "did you mean 'nvme-consumer'?"),
        (LINE, ("--model", "hdd-7200"), "--model: expected a flash disk, found hdd"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(
    run: Run, tmp_path: Path, content: str, words: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "x"
    path.write_text(content)
    done = run("devices", "import", path, *words)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err


def test_different_disks_are_not_one(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "1.json", tmp_path / "2.json"
    one.write_text(json.dumps(result()))
    other.write_text(json.dumps(result()).replace("KXG6AZNV512G TOSHIBA", "B"))
    done = run("devices", "import", one, other)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "'B' and 'KXG6AZNV512G TOSHIBA' are different disks" in done.err


def test_damaged_results_are_refused_or_read(tmp_path: Path) -> None:
    random, path = Random(1), tmp_path / "x"
    for content in (gzip.compress(json.dumps(result()).encode()), json.dumps(result()).encode(), LINE.encode()):
        for _ in range(200):
            damaged = bytearray(content)
            for _ in range(random.randint(1, 4)):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            path.write_bytes(damaged[: random.randint(1, len(damaged))])
            with suppress(UsageError):
                assert all(disk.figures.keys() == XG6.keys() for disk in iocost.read(path))


@pytest.mark.parametrize("figure", XG6)
@pytest.mark.parametrize("value", [1, 10**14])
def test_unlikely_figures_give_a_model_or_one_line(run: Run, tmp_path: Path, figure: str, value: int) -> None:
    path = tmp_path / "x"
    path.write_text(LINE.replace(f"{figure}={XG6[figure]}", f"{figure}={value}"))
    done = run("devices", "import", path, "--model", "nvme-consumer")
    assert (done.status == 0 and tomllib.loads(done.out)) or (done.status == 2 and done.err.count("\n") == 1), done.err


def test_broken_compression_and_missing_files_are_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:20])
    for name in (path, tmp_path / "nothing", tmp_path):
        done = run("devices", "import", name)
        assert (done.status, done.err.count("\n")) == (2, 1), done.err
    assert run("devices", "export", "aws-gp3", "--iocost").status == 2
    assert run("devices", "export", "pm983").status == 2


def fio(iops: float, depth: int = 32) -> str:
    options = {"rw": "randread", "bs": "4k", "iodepth": str(depth)}
    job = {"jobname": "cell", "groupid": 0, "job options": options, "read": {"iops": iops}, "write": {"iops": 0}}
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]})


def test_results_of_fio_are_imported_as_calibrate_fits_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.calibrate.fit.ENOUGH_IOS", 10_000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bench = tmp_path / "bench/sda/4k"
    bench.mkdir(parents=True)
    (bench / "randread-32-1.json").write_text(fio(60_000))
    (bench / "randread-1-1.json").write_text(fio(9_000, 1))
    own = tmp_path / "config/blklab/devices/kingston.toml"
    own.parent.mkdir(parents=True)
    done = run("devices", "import", tmp_path / "bench", "--model", "ssd-datacenter", "--name", "KINGSTON X", "-o", own)
    assert done.status == 0, done.err
    assert "fitting read_command_ns, read_latency_ns to randread-32-1 cell, randread-1-1 cell" in done.err.replace(
        "randread-1-1 cell, randread-32-1 cell", "randread-32-1 cell, randread-1-1 cell"
    )
    fitted = run("calibrate", tmp_path / "bench", "--model", "ssd-datacenter", "--json")
    device = json.loads(fitted.out)["device"]
    written = tomllib.loads(own.read_text())
    assert {key: written["device"][key] for key in device} == device | {"source": written["device"]["source"]}
    assert written["library"]["match"] == ["KINGSTON X*"]
    assert written["device"]["read_latency_ns"] != 45_000
    assert "program_ns = 12_155_641  # unknown: from ssd-datacenter\n" in own.read_text()
    assert json.loads(run("devices", "show", "kingston", "--json").out)["certainty"] == "measured"
    one = run("devices", "import", bench / "randread-32-1.json", "--model", "ssd-datacenter")
    assert tomllib.loads(one.out)["library"] == {
        "name": "A measured disk",
        "class": "ssd-datacenter",
        "certainty": "measured",
    }


def test_results_of_two_kinds_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fio.json").write_text(fio(60_000))
    (tmp_path / "model").write_text("8:0 rbps=1 rseqiops=1 rrandiops=1 wbps=1 wseqiops=1 wrandiops=1")
    for names in (["fio.json", "model"], ["model", "fio.json"]):
        done = run("devices", "import", *(tmp_path / name for name in names), "--model", "ssd-datacenter")
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert f"{tmp_path}/model: is no result of fio, but other files are: import one kind" in done.err
    (tmp_path / "fio.json").write_text(fio(60_000)[:-9])
    done = run("devices", "import", tmp_path / "fio.json", "--model", "ssd-datacenter")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "fio.json: fio's JSON is invalid" in done.err


def test_small_writes_of_io_cost_find_the_cache_of_single_bit_cells_full() -> None:
    documents = {figure: iocost._document(stock_models.stock("990-pro"), figure) for figure in iocost.LOADS}
    fills = {figure: document["devices"][0]["model"].get("slc_fill") for figure, document in documents.items()}
    assert {figure for figure, fill in fills.items() if fill == 1} == {"wseqiops", "wrandiops"}
    assert documents["wbps"]["runtime_ns"] == 60 * documents["rbps"]["runtime_ns"] / 1.5
