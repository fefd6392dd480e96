"""fio job files as workloads."""

from pathlib import Path

import pytest

from blklab.errors import UsageError
from blklab.experiment import fio_job, host_cell
from blklab.experiment.cells import plan
from blklab.experiment.workload import Job

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
    return fio_job.read(path)[0]


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
    text = "[global]\ndirect=1\nsize=1m\n[a]\n[b]\nstonewall\nrw=write\n[c]\n"
    groups = read(tmp_path, text)
    assert [(name, list(jobs)) for name, jobs in groups] == [("a", ["a"]), ("b", ["b", "c"])]
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    assert [cell.labels["workload"] for cell in plan(tmp_path / "exp.toml").cells] == ["x/a", "x/b"]


def test_a_synchronous_engine_has_one_in_flight(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text("[a]\ndirect=1\nioengine=psync\niodepth=32\n")
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    (cell,) = plan(tmp_path / "exp.toml").cells
    assert cell.document["jobs"][0]["iodepth"] == 1


@pytest.mark.parametrize(
    ("option", "output"),
    [
        ("rw=randread\nbuffered=1", "a.direct: found false, which is fio's default: of the page cache only"),
        ("rw=randrw\ndirect=0", "a.direct: found false, which is fio's default: of the page cache only"),
        ("percentage_random=50", "a.options.percentage_random: is not simulated: use --on host"),
    ],
)
def test_what_only_fio_does_is_not_simulated(tmp_path: Path, option: str, output: str) -> None:
    (tmp_path / "x.fio").write_text(f"[a]\ndirect=1\n{option}\nnorandommap\n")
    (tmp_path / "exp.toml").write_text(EXPERIMENT + "targets.alone = { directory = '.' }")
    with pytest.raises(UsageError, match=f"workloads.x.jobs.{output}"):
        plan(tmp_path / "exp.toml")
    with pytest.raises(UsageError, match="size: is missing"):
        plan(tmp_path / "exp.toml", form=host_cell.FORM)


def test_options_that_the_simulator_ignores_are_one_note(tmp_path: Path) -> None:
    text = "[global]\ndirect=1\nprioclass=1\nnice=5\n[a]\nverify=crc32c\nprio=0\n[b]\nstonewall\n"
    text += "zonemode=zbd\nzonesize=1m\n"
    (tmp_path / "x.fio").write_text(text)
    (tmp_path / "exp.toml").write_text(EXPERIMENT + "targets.alone = { directory = '.', size = '1GiB' }")
    notes = [note for note in plan(tmp_path / "exp.toml").notes if "ignores" in note]
    assert notes == [
        "the simulator ignores these options of fio, and figures lack their effect: "
        "prioclass=1, verify=crc32c, zonemode=zbd, zonesize=1m"
    ]
    with pytest.raises(UsageError, match=r"options\.zonemode: blklab does not pass this option on to fio: remove it"):
        plan(tmp_path / "exp.toml", form=host_cell.FORM)
    (tmp_path / "x.fio").write_text(text.replace("zbd", "none").replace("zonesize=1m\n", ""))
    host_plan = plan(tmp_path / "exp.toml", form=host_cell.FORM)
    assert not [note for note in host_plan.notes if "ignores" in note]
    assert host_plan.cells[0].document["jobs"][0]["options"].items() >= {"prioclass": "1", "verify": "crc32c"}.items()


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
        ("[a]\nbs=5\ndirect=1\n", "[a]: bs: block size 5: expected a multiple of 512, because of "
                                   "direct I/O (direct = false allows other sizes)"),
        ("[a]\nfilename=/dev/sda:/dev/sdb\n", "[a]: filename: found '/dev/sda:/dev/sdb', expected "
         "one file or device: write a job for each, or build a stack of several devices"),
        ("[a]\nioscheduler=none\n", "[a]: ioscheduler: found 'none': set scheduler in the "
                                     "experiment: blklab restores it"),
        ("[a]\nkb_base=1000\n", "[a]: kb_base: found '1000': expected 1024: write sizes in powers "
                                 "of two"),
        ("[a]\nmem=mmaphuge:/tmp/x\n", "[a]: options: mem: found 'mmaphuge:/tmp/x', expected a "
                                        "value without a file"),
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


def test_jobs_have_the_defaults_of_fio(tmp_path: Path) -> None:
    # etcd's test of a disk: fio --rw=write --ioengine=sync --fdatasync=1 --size=22m --bs=2300
    text = "[etcd]\nrw=write\nioengine=sync\nfdatasync=1\nsize=22m\nbs=2300\n[bare]\nsize=1m\n"
    (tmp_path / "x.fio").write_text(text)
    (tmp_path / "exp.toml").write_text(EXPERIMENT + "targets.alone = { directory = '.' }")
    (cell,) = plan(tmp_path / "exp.toml", form=host_cell.FORM).cells
    etcd, bare = (job["options"] for job in cell.document["jobs"])
    assert {key: etcd[key] for key in ("bs", "direct", "fdatasync", "ioengine", "size")} == {
        "bs": "2300", "direct": "0", "fdatasync": "1", "ioengine": "sync", "size": str(22 << 20),
    }  # fmt: skip
    assert "fsync" not in etcd
    assert (bare["ioengine"], bare["direct"], bare["bs"]) == ("psync", "0", "4k")


def test_fdatasync_is_a_flush_in_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text("[a]\ndirect=1\nrw=randwrite\nfdatasync=4\nsize=1m\n")
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    (cell,) = plan(tmp_path / "exp.toml").cells
    assert cell.document["jobs"][0]["fsync"] == 4


def test_options_that_blklab_sets_itself_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text(JOBS.replace("[writer]", "[writer]\nmem=shm\noutput=x.txt"))
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    made = plan(tmp_path / "exp.toml")
    where = tmp_path / "x.fio"
    assert list(made.notes) == [
        f"{where}: blklab sets these options itself: group_reporting, filename, output"
        " (jobs use the stack's device or file)",
        f"{where}: jobs run as threads, not as processes, so that they end with blklab",
    ]
    (tmp_path / "x.fio").write_text("[a]\ndirect=1\nmem=shm\n")
    assert list(plan(tmp_path / "exp.toml").notes) == []
    (tmp_path / "exp.toml").write_text(EXPERIMENT + "targets.alone = { device = '/dev/x' }")
    (cell,) = plan(tmp_path / "exp.toml", form=host_cell.FORM).cells
    assert cell.document["jobs"][0]["options"]["mem"] == "shm"
