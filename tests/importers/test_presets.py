"""The outputs of programs with a preset; every figure was computed by hand from the sample."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.importers import tables
from blklab.importers.base import ImportSource
from blklab.importers.collect import batches
from blklab.importers.run_labels import RunNaming
from blklab.outcome import Outcome
from tests.importers.conftest import DATA, ROOT, imported, outcome, runs

KIB = 1024
MIB = 1 << 20
GIB = 1 << 30


def by_workload(path: Path) -> dict[str, Outcome]:
    return {labels["workload"]: run for labels, run in runs(imported(path)[0])}


def test_randomio() -> None:
    batch, notes = imported(DATA / "randomio-4k.txt")
    assert (notes, batch.plan.runner) == ([], "randomio")
    assert [labels["repeat"] for labels, _ in runs(batch)] == [str(number) for number in range(1, 11)]
    labels, first = runs(batch)[0]
    assert (labels["bs"], labels["numjobs"]) == ("4k", "8")
    assert (first.read.iops, first.write.iops) == (40648.4, 13489.4)
    assert first.read.total_ios == 406484  # in the 10 s of the command line
    assert first.read.bw_bytes == 40648.4 * 4096
    assert first.read.clat_ns.mean == pytest.approx(100_000)
    assert first.read.clat_ns.max == pytest.approx(575_800_000)
    assert first.write.clat_ns.mean == pytest.approx(300_000)
    assert first.write.clat_ns.stddev == pytest.approx(2_600_000)
    assert first.read.clat_ns.min is None  # 0.0 ms
    options = batch.plan.cells[0].document["jobs"][0]["options"]
    assert options["filename"] == "/dev/zvol/nas02/iscsi/test"


def test_threads_between_tables_of_randomio() -> None:
    first, second, third = (labels for labels, _ in runs(imported(DATA / "form-randomio.txt")[0]))
    assert (first["numjobs"], first["bs"], second["repeat"]) == ("16", "512", "2")
    assert (third["numjobs"], third["bs"]) == ("64", "64k")


def test_randomio_without_writes() -> None:
    first, *_ = runs(imported(DATA / "randomio-reads.txt")[0])
    assert first[1].read.iops == 194061.8
    assert (first[1].write.total_ios, first[1].write.clat_ns.min) == (0, None)  # `inf nan 0.0 nan`


def test_iozone() -> None:
    batch, notes = imported(DATA / "iozone-sd.md")
    assert notes == []
    results = {(labels["heading"].split()[0], labels["workload"], labels["bs"]): run for labels, run in runs(batch)}
    assert len(results) == 2 * 2 * 6
    # 6,748 and 920 KiB/s in records of 4 KiB: 1,687 and 230 IOPS
    assert results["Sandisk", "random-read", "4k"].read.iops == pytest.approx(1687)
    assert results["Sandisk", "random-write", "4k"].write.iops == pytest.approx(230)
    run = results["Transcend", "write", "512k"]
    assert run.write.bw_bytes == pytest.approx(7337 * KIB)
    assert (run.write.io_bytes, run.write.total_ios, run.read.total_ios) == (32 * MIB, 64, 0)
    options = batch.plan.cells[0].document["jobs"][0]["options"]
    assert (options["direct"], options["rw"]) == ("1", "write")


def test_gaps_of_iozone_are_tests_that_were_left_out() -> None:
    results = by_workload(DATA / "iozone-3.492.txt")
    assert results.keys() == {"write", "rewrite", "random-read", "random-write"}
    assert results["random-read"].read.iops == pytest.approx(290025 / 1024)
    assert results["random-read"].runtime_ns == pytest.approx(102400 / 290025 * 1e9, abs=1)


def test_tables_of_bonnie() -> None:
    batch, notes = imported(DATA / "bonnie-1.97.txt")
    results = [(labels["workload"], labels["source"], run) for labels, run in runs(batch)]
    assert [name for name, _, _ in results] == ["write", "rewrite", "read", "seeks"] * 2
    assert {source for _, source, _ in results} == {"line 3", "line 16"}
    assert "kept apart by the label source" in notes[0]
    write, rewrite, read, seeks = (run for _, _, run in results[:4])
    assert write.write.bw_bytes == 711234 * KIB
    assert write.write.iops == 711234 / 8  # chunks of 8 KiB
    assert write.write.clat_ns.max == 104 * 10**6
    assert write.write.io_bytes == 64 * GIB
    assert rewrite.read.iops == rewrite.write.iops == 41019 / 8
    assert read.read.iops == 60090 / 8
    assert (seeks.read.iops, seeks.read.clat_ns.max) == (2165, 14_473_000)


@pytest.mark.parametrize("csv", [False, True])
def test_bonnie_2_has_a_chunk_and_units(tmp_path: Path, csv: bool) -> None:
    table = (DATA / "bonnie-2.00a.txt").read_text()
    line = (DATA / "bonnie-csv-2.00a.txt").read_text()
    path = tmp_path / "bonnie.txt"
    path.write_text(line.replace("2G,,", "2G,64k,") if csv else f"{table}\n{line}")
    results = by_workload(path)
    assert results.keys() == {"write", "rewrite", "seeks"}  # reading was too fast
    speed = 924134 * KIB if csv else 902 * MIB
    assert results["write"].write.bw_bytes == speed
    assert results["write"].write.iops == speed / (64 * KIB)
    assert results["write"].write.clat_ns.max == 44_077_000
    assert results["seeks"].read.bw_bytes == 11254 * 64 * KIB


def test_sysbench() -> None:
    batch, notes = imported(DATA / "sysbench-1.0.txt")
    assert notes == [f"{DATA}/sysbench-1.0.txt:23: min, mean, max, p95 of reads, writes, fsyncs together: left out"]
    ((labels, run),) = runs(batch)
    assert (labels["rw"], labels["bs"], labels["numjobs"]) == ("randrw", "16k", "1")
    assert (run.read.iops, run.write.iops, run.sync and run.sync.iops) == (1221.33, 814.22, 2605.62)
    assert run.read.bw_bytes == pytest.approx(19.08 * MIB)
    assert (run.runtime_ns, run.read.total_ios) == (60_030_000_000, 73316)  # 1221.33 × 60.03


def test_sysbench_1_1_prints_iops() -> None:
    (_, writes), (labels, reads) = runs(imported(DATA / "sysbench-1.1.txt")[0])
    assert writes.write.iops == 9057.41
    assert writes.write.bw_bytes == pytest.approx(88.45 * MIB)
    assert writes.write.clat_ns.mean is None  # of writes and fsyncs
    assert (labels["rw"], labels["numjobs"]) == ("randread", "128")
    assert reads.read.clat_ns.mean == pytest.approx(14_460_000)
    assert reads.read.clat_ns.p95 == pytest.approx(34_330_000)
    assert reads.sync is None


def test_blkparse() -> None:
    batch, _ = imported(DATA / "form-blkparse.txt")
    ((labels, run),) = runs(batch)
    assert (labels["device"], batch.plan.runner) == ("sde", "blkparse")
    assert (run.read.total_ios, run.read.io_bytes) == (2000, 8000 * KIB)
    assert (run.write.total_ios, run.write.io_bytes) == (6450, 5948 * MIB)
    # Of the larger rate: 5948 MiB at 3,045,376 KiB/s, which are 2 s.
    assert run.runtime_ns == pytest.approx(5948 * KIB / 3_045_376 * 1e9, abs=1)
    assert run.read.bw_bytes == 4000 * KIB


def test_recorded_summary_of_blkparse_has_five_devices() -> None:
    batch, _ = imported(ROOT / "tests/data/traces/pgbench-raid1/expected/ALL.summary.txt")
    by_device = {labels["device"]: run for labels, run in runs(batch)}
    assert (by_device["vdd"].read.total_ios, by_device["vdd"].write.total_ios) == (7545, 2043)


def test_summary_of_one_cpu_has_no_total(tmp_path: Path) -> None:
    content = (DATA / "form-blkparse.txt").read_text()
    path = tmp_path / "summary.txt"
    path.write_text(content[content.index("CPU1") : content.index("Total")] + content[content.index("Throughput") :])
    assert outcome(path).write.total_ios == 6450


def test_dd() -> None:
    (write_labels, write), (read_labels, read) = runs(imported(DATA / "dd-gnu.txt")[0])
    assert (write_labels["rw"], read_labels["rw"], read_labels["bs"]) == ("write", "read", "1m")
    assert (write.write.total_ios, write.write.io_bytes, write.read.total_ios) == (1024, GIB, 0)
    assert write.write.bw_bytes == pytest.approx(GIB / 35.1909)
    assert read.read.iops == pytest.approx(1024 / 24.8919)


def test_dd_of_bsd() -> None:
    assert outcome(DATA / "dd-bsd.txt").write.bw_bytes == pytest.approx(3954192288, rel=1e-5)


def test_direction_of_dd_is_unknown_without_its_command(tmp_path: Path) -> None:
    path = tmp_path / "dd.txt"
    path.write_text("4+0 records in\n4+0 records out\n4096 Bytes (4,1 kB, 4,0 KiB) kopiert, 0,5 s, 8,2 kB/s\n")
    batch, notes = imported(path)
    assert notes == [f"{path}:1: the direction is unknown: reads are assumed; --label rw=write for writes"]
    assert runs(batch)[0][1].read.iops == 8
    batch, notes = imported(path, options={"rw": "write"})
    assert (notes, runs(batch)[0][1].write.bw_bytes) == ([], 8192)


def test_sdd() -> None:
    (read_labels, read), (write_labels, write) = runs(imported(DATA / "form-sdd.txt")[0])
    assert (read_labels["rw"], read_labels["bs"], write_labels["rw"]) == ("read", "64k", "write")
    assert (read.read.bw_bytes, read.read.iops, read.runtime_ns) == (GIB / 4, 4096, 4_000_000_000)
    assert (write.write.bw_bytes, write.write.iops) == (GIB / 8, 2048)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("randomio-4k.txt", "0.1  575.8", "575.8", ":5: found '54137.7 .*', expected total | 5 figures of reads"),
        ("randomio-4k.txt", "40648.4", "4064x.4", ":5: found '4064x.4', expected a number for read.iops"),
        ("iozone-3.492.txt", "392446", "39x446", ":16: found '102400 .*', expected kB, reclen and KiB per second"),
        ("bonnie-1.97.txt", "64G", "many", ":5: found 'Machine  .*', expected a name, a size, and 6 pairs"),
        ("bonnie-1.97.txt", "711234", "7.1.2", ":5: found '7.1.2', expected a number"),
        (
            "sysbench-1.0.txt",
            "writes/s",
            "writes/m",
            ":23: found 'File operations:', expected reads, writes and fsyncs",
        ),
        ("form-blkparse.txt", "Throughput", "Speed", ":21: found 'Total \\(sde\\):', expected the counts of a device"),
        ("dd-gnu.txt", "copied", "copied at once", ":2: found '1024\\+0 records in', expected records in, records out"),
        ("form-sdd.txt", "Total time", "Time", ":2: found 'sdd: Read .*', expected records, and Total time"),
    ],
)
def test_broken_result_is_named(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    path = tmp_path / name
    content = (DATA / name).read_text()
    assert old in content
    path.write_text(content.replace(old, new))
    with pytest.raises(BlklabError, match="^" + re.escape(str(path)) + message.replace("|", r"\|")):
        imported(path)


@pytest.mark.parametrize("preset", tables.PRESETS)
def test_other_text_has_no_results(tmp_path: Path, preset: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("twelve disks\n1 2 3\n")
    with pytest.raises(BlklabError, match=f"notes.txt: no results of {preset}, expected "):
        imported(path, form=preset)


def test_too_many_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_RUNS", 5)
    with pytest.raises(BlklabError, match="has more than 5 runs, expected fewer"):
        imported(DATA / "randomio-4k.txt")


SAMPLES = sorted(
    path for path in DATA.glob("*") if re.match(r"(form-)?(randomio|iozone|bonnie|sysb|blkp|dd|sdd)", path.name)
)


@given(st.sampled_from(SAMPLES), st.data())
def test_changed_output_is_one_line_or_a_result(
    tmp_path_factory: pytest.TempPathFactory, sample: Path, data: st.DataObject
) -> None:
    lines = sample.read_text().split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        first, second = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["cut", "swap lines", "swap cells", "junk"])):
            case "cut":
                lines[first] = lines[first][: data.draw(st.integers(0, len(lines[first])))]
            case "swap lines":
                lines[first], lines[second] = lines[second], lines[first]
            case "swap cells":
                cells = re.split(r"(\s+)", lines[first])
                lines[first] = "".join(data.draw(st.permutations(cells)))
            case "junk":
                lines[first] += data.draw(st.binary(max_size=20)).decode("latin-1")
    path = tmp_path_factory.mktemp("changed") / sample.name
    path.write_text("\n".join(lines))
    try:
        result = batches([str(path)], ImportSource(()), RunNaming())
    except BlklabError as error:
        assert str(error).startswith(f"{path}")
        assert len(str(error).splitlines()) == 1
    else:
        for note in result.notes:
            assert len(note.splitlines()) == 1
        for batch in result.batches:
            for _, run in runs(batch):
                assert run.runtime_ns > 0
                assert (
                    run.read.total_ios
                    or run.write.total_ios
                    or run.sync
                    or run.read.clat_ns.max
                    or run.write.clat_ns.max
                )
