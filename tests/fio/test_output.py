"""fio's JSON as an outcome: every version, several jobs, all kinds of defects."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.outcome import SyncResult
from tests.fio.conftest import DATA, recorded

ONE = (DATA / "one.json").read_text()


def test_one_job_of_fio_3() -> None:
    outcome = output.outcome(recorded("one.json"))
    read = outcome.read
    assert (read.total_ios, read.io_bytes) == (31865, 31865 * 4096)
    assert read.iops == pytest.approx(31833.166833)
    assert outcome.runtime_ns == 1_001_000_000
    clat = read.clat_ns
    assert (clat.count, clat.min, clat.max) == (31865, 15554, 773372)
    assert (clat.p50, clat.p99, clat.p25) == (52480, 93696, None)
    assert clat.relative_error == 1 / 128
    assert not clat.bins
    assert outcome.write.total_ios == 0
    assert outcome.write.clat_ns.mean is None
    assert outcome.fio is not None
    assert outcome.fio.version == "fio-3.33"
    assert outcome.job_options["one"]["bs"] == "4k"
    device = outcome.devices[0]
    assert (device.name, device.ios, device.queue_ns) == ("vda", [28647, 0], 1168 * 10**6)
    assert device.leaf
    assert outcome.warnings == []


def test_jobs_that_ran_at_the_same_time_add() -> None:
    document = recorded("four.json")
    outcome = output.outcome(document)
    for direction in ("read", "write"):
        directions = [job[direction] for job in document["jobs"]]
        assert outcome.direction(direction).total_ios == sum(item["total_ios"] for item in directions)
        assert outcome.direction(direction).io_bytes == sum(item["io_bytes"] for item in directions)
        assert outcome.direction(direction).iops == pytest.approx(sum(item["iops"] for item in directions))
        clat = outcome.direction(direction).clat_ns
        assert clat.count == sum(count for _, count in clat.bins)
        assert clat.min == min(item["clat_ns"]["min"] for item in directions if item["total_ios"])
    assert [group.name for group in outcome.groups] == ["mix", "scan", "sparse"]
    assert outcome.groups[0].read.total_ios == sum(job["read"]["total_ios"] for job in document["jobs"][:2])


def test_each_clone_has_its_percentile() -> None:
    document = recorded("four.json")
    mix, scan, _ = output.outcome(document).groups
    expected = []
    for job in document["jobs"][:2]:
        expected.append(max(job[way]["clat_ns"]["percentile"]["99.000000"] for way in ("read", "write")))
    assert mix.clone_p99_ns == pytest.approx(expected, rel=0.02)  # fio's are the upper ends of its bins
    assert len(mix.clone_p99_ns) == len(mix.clones) == 2
    assert (scan.clones, scan.clone_p99_ns) == ([], [])


def test_a_stonewall_parts_groups() -> None:
    document = recorded("stonewall.json")
    first, second = output.outcomes(document)
    assert first.write.total_ios == 400
    assert second.read.total_ios == 200
    assert second.write.total_ios == 0
    with pytest.raises(BlklabError, match=r"2 groups ran one after another \(first, second\)"):
        output.outcome(document)


def test_fio_2_counts_in_kib_and_microseconds() -> None:
    write = output.outcome(recorded("fio-2.2.10.json")).write
    assert write.io_bytes == 37500272 * 1024
    assert write.iops == pytest.approx(15624.70, abs=0.01)
    assert write.bw_bytes == pytest.approx(62499 * 1024, rel=1e-4)
    clat = write.clat_ns
    assert (clat.min, clat.max, clat.mean) == (964_000, 261_110_000, 8_151_190)
    assert (clat.p99, clat.p99_99) == (8_640_000, 150_528_000)
    assert clat.count == 9374944


def test_fio_2_1_has_whole_iops_and_no_totals() -> None:
    read = output.outcome(recorded("fio-2.1.11.json")).read
    assert read.iops == 10
    assert read.io_bytes == (44920 + 44992) * 1024
    assert read.total_ios == round(5 * 2127.550) + round(5 * 2119.748)
    # Of two jobs without bins there are means, but no quantiles.
    assert read.clat_ns.mean == pytest.approx(254_995, abs=5)
    assert read.clat_ns.p50 is None


def test_without_percentiles_there_are_none() -> None:
    document = recorded("one.json")
    del document["jobs"][0]["read"]["clat_ns"]["percentile"]
    clat = output.outcome(document).read.clat_ns
    assert clat.p50 is None
    assert clat.mean == pytest.approx(53283.74439)


def test_latency_that_was_not_measured() -> None:
    document = recorded("one.json")
    document["jobs"][0]["read"]["clat_ns"] = {"min": 0, "max": 0, "mean": 0.0, "N": 0}
    read = output.outcome(document).read
    assert read.total_ios == 31865
    assert read.clat_ns.count == 0
    assert read.clat_ns.mean is None


def test_a_job_that_failed_is_named_with_fios_words() -> None:
    document = recorded("one.json")
    document["jobs"][0]["error"] = 5
    with pytest.raises(BlklabError, match="job 'one' failed: Input/output error"):
        output.outcome(document)
    words = "fio: pid=0, err= 5/file:io_u.c:1845, func=io_u error, error=Input/output error"
    document["notes"] = [words]
    with pytest.raises(BlklabError, match="func=io_u error"):
        output.outcome(document)


def test_nothing_but_trims_is_no_result() -> None:
    with pytest.raises(BlklabError, match="job 't' did only 4 trims"):
        output.outcome(recorded("trim.json"))
    document = recorded("one.json")
    document["jobs"][0]["read"]["total_ios"] = 0
    with pytest.raises(BlklabError, match="job 'one' did no I/O"):
        output.outcome(document)


def test_merged_reads_and_writes_are_divided_as_requested() -> None:
    document = recorded("one.json")
    job = document["jobs"][0]
    job["mixed"] = job.pop("read")
    del job["write"]
    only_reads = output.outcome(document)
    assert only_reads.read.total_ios == job["mixed"]["total_ios"]
    assert only_reads.warnings == []
    job["job options"] |= {"rw": "randrw", "rwmixwrite": "25"}
    mixed = output.outcome(document)
    assert mixed.read.total_ios == round(0.75 * job["mixed"]["total_ios"])
    assert mixed.write.clat_ns.count == 0
    assert "they are divided 75:25 as requested" in mixed.warnings[0]
    del job["job options"]["rw"]
    with pytest.raises(BlklabError, match="unified_rw_reporting"):
        output.outcome(document)


def test_overflowed_counters_are_corrected() -> None:
    document = recorded("one.json")
    read = document["jobs"][0]["read"]
    known = output.outcome(copy.deepcopy(document)).read
    read["io_bytes"] = -1000
    document["disk_util"][0]["in_queue"] = -1
    outcome = output.outcome(document)
    # The bandwidth is in KiB/s, rounded down.
    assert outcome.read.io_bytes == pytest.approx(known.io_bytes, rel=1e-4)
    assert outcome.devices[0].queue_ns == ((1 << 32) - 1) * 10**6
    assert any("io_bytes is -1000" in warning for warning in outcome.warnings)


def test_a_clients_run_is_the_sum_of_its_machines() -> None:
    document = recorded("one.json")
    job = document.pop("jobs")[0]
    document["client_stats"] = [job, copy.deepcopy(job), {**job, "jobname": "All clients"}]
    assert output.outcome(document).read.total_ios == 2 * 31865


def test_an_array_and_its_members() -> None:
    document = recorded("one.json")
    disk = document["disk_util"][0]
    array = {**disk, "name": "md0", "aggr_read_ios": 1, "aggr_util": 2.0}
    document["disk_util"] = [array, {**disk, "name": "sda", "read_sectors": 8}]
    md, member = output.outcome(document).devices
    assert (md.kind, md.leaf, md.above, md.sectors) == ("md", False, [], ())
    assert (member.kind, member.above, member.sectors) == ("disk", ["md0"], [8, 0])


@pytest.mark.parametrize("before", ["", "note: something {odd}\nfio: {\n", "\ufeff"])
@pytest.mark.parametrize("after", ["", "\nRun status group 0 (all jobs):\n  {}\n"])
def test_notes_around_the_json_are_kept(before: str, after: str) -> None:
    document = output.parse_document(before + ONE + after)
    assert document["jobs"][0]["jobname"] == "one"
    assert ("Run status group 0 (all jobs):" in document["notes"]) == bool(after)
    if before.startswith("note"):
        assert output.outcome(document).warnings == ["note: something {odd}", "fio: {"]


def test_of_many_documents_of_one_run_the_last_counts() -> None:
    earlier = recorded("one.json")
    earlier["jobs"][0]["read"]["total_ios"] = 1
    document = output.parse_document(json.dumps(earlier, indent=2) + "\n" + ONE)
    assert document["jobs"][0]["read"]["total_ios"] == 31865
    with pytest.raises(BlklabError, match="different fio runs"):
        output.parse_document(ONE + (DATA / "trim.json").read_text())
    (document,) = output.parse_documents(ONE + ONE[: len(ONE) // 2])
    assert document["notes"][-1].startswith("warning: the last document was ignored: it ends in ")


def test_documents_of_several_runs_are_separate() -> None:
    later = recorded("one.json")
    later["timestamp"] += 60
    later["timestamp_ms"] += 60_000
    documents = output.parse_documents("first\n" + ONE + "second\n" + json.dumps(later))
    assert [document["notes"] for document in documents] == [["first"], ["second"]]
    assert output.parse_time(documents[0]) != output.parse_time(documents[1])


@pytest.mark.parametrize("mark", ["> ", "  > > ", "    ", "Result for {my} disk: "])
def test_quoted_and_indented_json_is_read(mark: str) -> None:
    whole = mark + ONE.rstrip().replace("\n", "\n" + mark) if mark[-2] != ":" else mark + ONE
    assert output.parse_document(whole)["jobs"][0]["jobname"] == "one"


def test_not_a_number_is_nothing() -> None:
    document = output.parse_document(ONE.replace('"usr_cpu" : 4', '"usr_cpu" : -nan, "x" : 4'))
    assert output.outcome(document).read.total_ios == 31865


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON of fio"),
        ("fio: nothing\n", "no JSON of fio"),
        ("[1, 2]", "no JSON of fio"),
        ("{}", "no JSON of fio"),
        (ONE[:3000], "it ends in line "),
        (ONE.replace('"groupid" : 0,', '"groupid" 0,'), "line 9 column 17: Expecting ':'"),
        ("{" * 100_000, "invalid"),
        ("{\n" * 10_000, "invalid"),
        ('{"jobs": ' + "[" * 100_000, "invalid"),
        ('{"jobs": [' + "9" * 5000 + "]}", "invalid"),
    ],
)
def test_broken_json_is_said_where(text: str, words: str) -> None:
    with pytest.raises(BlklabError) as error:
        output.parse_document(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_field_is_said_where() -> None:
    document = recorded("four.json")
    document["jobs"][2]["read"]["clat_ns"]["bins"]["x"] = 1
    with pytest.raises(BlklabError, match=r"jobs\[2\]\.read\.clat_ns\.bins: found key 'x'"):
        output.outcome(document)
    document = recorded("four.json")
    document["jobs"][1]["write"]["total_ios"] = "many"
    with pytest.raises(BlklabError, match=r"jobs\[1\]\.write\.total_ios: found 'many', expected a number"):
        output.outcome(document)


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([{}]),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the path of everything in a document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(result for key, item in inner for result in places(item, (*path, key)))]


ORIGINAL = {
    name: (document := recorded(name), places(document)[1:])
    for name in ("one.json", "grouped.json", "fio-2.2.10.json", "stonewall.json")
}


@settings(max_examples=300)
@given(st.data())
def test_a_changed_document_is_an_outcome_or_one_clear_line(data: st.DataObject) -> None:
    original, paths = ORIGINAL[data.draw(st.sampled_from(sorted(ORIGINAL)))]
    document = copy.deepcopy(original)
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3)):
        table: Any = document
        try:
            for key in path[:-1]:
                table = table[key]
            table[path[-1]] = data.draw(STRANGE)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    try:
        result = output.outcomes(document)
    except BlklabError as error:
        assert "\n" not in str(error)
    else:
        json.dumps([item.as_document() for item in result], allow_nan=False)


@settings(max_examples=200)
@given(st.integers(0, len(ONE)), st.integers(0, 200), st.text(max_size=10))
def test_a_cut_document_is_a_document_or_one_clear_line(start: int, length: int, instead: str) -> None:
    text = ONE[:start] + instead + ONE[start + length :]
    try:
        output.outcomes(output.parse_document(text))
    except BlklabError as error:
        assert "\n" not in str(error)


def test_fsync_latency_is_read() -> None:
    sync = output.outcome(recorded("sync.json")).sync
    assert sync is not None
    # fio 3.33 writes 0 as total_ios; N is right.
    assert (sync.total_ios, sync.lat_ns.count) == (511, 511)
    assert sync.iops == pytest.approx(511 / 1.026)
    latency = sync.lat_ns
    assert (latency.min, latency.p50, latency.p99_9) == (83700, 1400832, 67633152)
    assert output.outcome(recorded("one.json")).sync == SyncResult()


def test_unlike_jobs_of_one_name_keep_their_options() -> None:
    def job(**options: str) -> dict[str, object]:
        part = {"total_ios": 10, "io_bytes": 40960, "iops": 10.0, "runtime": 1000}
        return {"jobname": "j", "groupid": 0, "job options": options, "read": part}

    document = {"fio version": "fio-3.33", "jobs": [job(bs="4k"), job(bs="64k"), job(bs="4k")]}
    (outcome,) = output.outcomes(output.parse_document(json.dumps(document)))
    assert outcome.job_options == {"j": {"bs": "4k"}, "j-2": {"bs": "64k"}}
