"""fio job files as workloads."""

from pathlib import Path

import pytest

from blklab.errors import UsageError
from blklab.spec import fio_job, host_cell
from blklab.spec.cells import plan
from blklab.spec.workload import Job

EXPERIMENT = """
devices.disk = { model = "sm883" }
stacks.alone = { device = "disk" }
workloads.x = { job_file = "x.fio" }
"""

JOBS = """
; what all share
[global]
ioengine=libaio
direct=1
bs=4k        # a comment
group_reporting
filename=/dev/null
runtime=60
time_based

[reader]
rw=randread
iodepth_batch_submit=4
iodepth=32

[writer]
readwrite=write
bs=64k
size=1g
"""


def read(directory: Path, text: str) -> list[tuple[str, fio_job.Tables]]:
    path = directory / "x.fio"
    path.write_text(text)
    return fio_job.read(path)


def test_jobs_run_together_with_what_global_says(tmp_path: Path) -> None:
    ((first, jobs),) = read(tmp_path, JOBS)
    assert first == "reader"
    assert list(jobs) == ["reader", "writer"]
    reader, writer = (Job.model_validate(table) for table in jobs.values())
    assert (reader.rw, reader.bs, reader.iodepth, reader.iodepth_batch) == ("randread", "4k", 32, 4)
    assert (writer.rw, writer.bs, writer.size) == ("write", "64k", 1 << 30)
    assert reader.runtime == writer.runtime == 60 * 10**9
    assert reader.time_based


def test_it_becomes_the_jobs_of_a_cell(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text(JOBS)
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    (cell,) = plan(tmp_path / "exp.toml").cells
    assert cell.labels["workload"] == "x"
    assert [job["name"] for job in cell.document["jobs"]] == ["reader", "writer"]
    assert cell.document["runtime_ns"] == 60 * 10**9
    assert cell.document["jobs"][0]["batch_submit"] == 4


def test_jobs_after_a_stonewall_are_a_workload_of_their_own(tmp_path: Path) -> None:
    text = "[a]\nsize=1m\n[b]\nstonewall\nrw=write\nsize=1m\n[c]\nsize=1m\n"
    groups = read(tmp_path, text)
    assert [(name, list(jobs)) for name, jobs in groups] == [("a", ["a"]), ("b", ["b", "c"])]
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    assert [cell.labels["workload"] for cell in plan(tmp_path / "exp.toml").cells] == ["x/a", "x/b"]


def test_a_synchronous_engine_has_one_in_flight(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text("[a]\nioengine=psync\niodepth=32\n")
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    (cell,) = plan(tmp_path / "exp.toml").cells
    assert cell.document["jobs"][0]["iodepth"] == 1


@pytest.mark.parametrize(
    ("option", "output"),
    [
        ("buffered=1", "a.direct: the page cache is not simulated: expected true"),
        ("sync=1", "a.options.sync: is not simulated: use --on host"),
        ("verify=crc32c", "a.options.verify: is not simulated: use --on host"),
    ],
)
def test_what_only_fio_does_is_not_simulated(tmp_path: Path, option: str, output: str) -> None:
    (tmp_path / "x.fio").write_text(f"[a]\n{option}\nnorandommap\n")
    (tmp_path / "exp.toml").write_text(EXPERIMENT + "targets.alone = { directory = '.' }")
    with pytest.raises(UsageError, match=f"workloads.x.jobs.{output}"):
        plan(tmp_path / "exp.toml")
    with pytest.raises(UsageError, match="size: is missing"):
        plan(tmp_path / "exp.toml", form=host_cell.FORM)


def test_what_fio_needs_besides_reaches_it(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text("[a]\nsync=dsync\nnorandommap\nsize=1m\nfilename=/dev/sda\n")
    (tmp_path / "exp.toml").write_text(EXPERIMENT + "targets.alone = { directory = '.' }")
    (cell,) = plan(tmp_path / "exp.toml", form=host_cell.FORM).cells
    (job,) = cell.document["jobs"]
    assert job["options"].items() >= {"sync": "dsync", "norandommap": "1"}.items()
    assert not {"filename", "directory"} & job["options"].keys()


def test_jobs_may_share_a_name(tmp_path: Path) -> None:
    ((_, jobs),) = read(tmp_path, "[a]\n[a]\nrw=write\n[a]\n")
    assert list(jobs) == ["a", "a-2", "a-3"]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("[a]\nrw=randtrim\n", "[a]: rw: found 'randtrim', expected one of read, write, "
                               "randread, randwrite, rw, readwrite, randrw"),
        ("[a]\niodepht=3\n", "[a]: iodepht: no such option; did you mean 'iodepth'?"),
        ("[a]\nioengine=rbd\n", "[a]: ioengine: found 'rbd', expected 'libaio', 'io_uring', "
                                "'posixaio', 'sync', 'psync', 'vsync', 'pvsync', 'pvsync2', "
                                "'mmap'"),
        ("[a]\nbs=5\n", "[a]: bs: block size '5': expected a multiple of 512 up to 1 GiB"),
        (
            "[a]\nsize=${SIZE}\n",
            "line 2: found '${SIZE}': variables are not supported, write the value",
        ),
        ("rw=read\n", "line 1: found 'rw=read', expected [JOB]: a fio job file begins with a "
                      "section"),
        ("[global]\nbs=4k\n", "found no job, only [global]"),
        ("include other.fio\n", "line 1: include is not supported: copy the content of that "
                                "file here"),
        ("[a]\nrate_iops=10,20\n", "[a]: rate_iops: rate_iops '10,20': only one rate for reads "
                                   "and writes is simulated"),
    ],
)  # fmt: skip
def test_what_no_cell_has_is_named(tmp_path: Path, text: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'x.fio'}: {output}"


def test_keys_next_to_a_job_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "exp.toml").write_text(EXPERIMENT.replace('x.fio"', 'x.fio", bs = "4k"'))
    with pytest.raises(UsageError) as caught:
        plan(tmp_path / "exp.toml")
    assert str(caught.value) == (
        f"{tmp_path / 'exp.toml'}: workloads.x.bs: not allowed with job_file: edit the job file"
    )
