"""The five sentences: on real traces word for word, and where something is absent."""

from pathlib import Path

import pytest

from blklab.trace.sentences import sentences
from blklab.trace.view import DeviceView, ProfileView
from tests.trace.conftest import life, read_trace
from tests.trace.generated import FLUSH, QUEUED, READ, WRITE, Q, Record, process, write_trace


def sentences_of(device: DeviceView) -> dict[str, str]:
    result = {sentence.topic: sentence.text for sentence in sentences(device)}
    assert list(result) == ["Load", "Pattern", "Latency", "Locality", "Origin"]
    for text in result.values():
        assert text[0].isupper() or text.startswith(device.label)
        assert text.endswith(".")
        assert not {"  ", " ,", " ;", "None", "nan", "()", ";."} & {
            text[at : at + n] for n in (2, 3, 4) for at in range(len(text))
        }
    return result


def of(view: ProfileView, label: str) -> dict[str, str]:
    return sentences_of(next(device for device in view.devices if device.label == label))


def test_an_array(pgbench: ProfileView) -> None:
    result = sentences_of(pgbench.focus)
    assert result["Load"] == (
        "md127 received 18,476 I/Os and 93.9 MiB in 1m 23s (222 IOPS, 1.13 MiB/s): 89 % reads,"
        " 7.9 % writes and 3 % flushes; reads are mostly 4 KiB (83 %; up to 128 KiB) and writes are"
        " 4 KiB to 160 KiB (median 8 KiB)."
    )
    assert result["Pattern"].startswith("Reads are random (2 % of them continue a stream) and writes")
    assert "arrivals are bursty: the busiest second had 542 I/Os" in result["Pattern"]
    assert "Q2C: from being queued to completion" in result["Latency"]
    assert "52; none for 38 % of the time" in result["Latency"]
    assert result["Locality"].startswith("The I/O touched 44.1 MiB of distinct 4 KiB blocks")
    assert "not Zipf" in result["Locality"]
    assert "fio (73 %), postgres (24 %) and 5 other processes" in result["Origin"]
    assert "73 % came from dm-1" in result["Origin"]


def test_a_volume_that_is_read_by_zipfs_law(pgbench: ProfileView) -> None:
    result = of(pgbench, "dm-1")
    assert "nothing but reads, all 4 KiB." in result["Load"]
    assert "writes" not in " ".join(result.values())
    assert "follows Zipf's law with exponent 1.2" in result["Locality"]
    assert result["Origin"] == "All I/O was queued by fio; all of it was queued on dm-1 itself."


def test_errors_are_named(scsi: ProfileView) -> None:
    result = sentences_of(scsi.focus)
    assert "6 I/Os failed with ENODATA" in result["Latency"]
    assert "before dispatch" in result["Latency"]


@pytest.mark.parametrize("label", ["dm-0", "vdc", "vdd"])
def test_every_device_has_its_sentences(pgbench: ProfileView, label: str) -> None:
    of(pgbench, label)


def test_one_read(tmp_path: Path) -> None:
    view = read_trace(write_trace(tmp_path / "sdz", life(0, 8)))
    result = sentences_of(view.focus)
    assert "nothing but reads, all 4 KiB." in result["Load"]
    assert "Reads (1) are too few to call sequential" in result["Pattern"]
    assert "Reads take 10 ms at the median" in result["Latency"]


def test_no_completions(tmp_path: Path) -> None:
    records = [Record(at, Q, QUEUED | READ, sector=8 * at, size=4096) for at in range(50)]
    result = sentences_of(read_trace(write_trace(tmp_path / "sdz", records)).focus)
    assert result["Latency"].startswith("No I/O was recorded from queueing to completion")
    assert "in flight" not in result["Latency"]
    assert "reads are sequential (98 %" in result["Pattern"].lower()


def test_flushes_alone(tmp_path: Path) -> None:
    flushes = [Record(at, Q, QUEUED | WRITE | FLUSH, pid=3) for at in range(3)]
    path = write_trace(tmp_path / "sdz", [process(3, b"sync"), *flushes])
    result = sentences_of(read_trace(path).focus)
    assert "nothing but flushes." in result["Load"]
    assert result["Locality"].startswith("No data was read or written")
    assert result["Origin"].startswith("All I/O was queued by sync")


def test_a_format_that_knows_no_processes() -> None:
    path = Path(__file__).parents[1] / "data" / "formats" / "msr.csv"
    result = sentences_of(read_trace(path).focus)
    assert result["Origin"] == "The trace does not contain the processes that queued the I/O."


def test_one_is_singular(tmp_path: Path) -> None:
    records = [record for n in range(4) for record in life(n * 10_000_000, 8)]
    result = sentences_of(read_trace(write_trace(tmp_path / "t", records)).focus)
    assert "1 I/O is in flight on average (at most 1" in result["Latency"]
    assert "only 1 distinct block was accessed" in result["Locality"]


def test_what_a_format_cannot_tell_is_not_said() -> None:
    formats = Path(__file__).parents[1] / "data" / "formats"
    result = sentences_of(read_trace(formats / "oracle-general.bin").focus)
    assert "the trace does not distinguish reads and writes" in result["Load"]
    assert "read" not in result["Pattern"]
    assert "came from" not in result["Origin"]
    assert "queued on" not in result["Origin"]
