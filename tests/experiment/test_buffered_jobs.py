"""Jobs that use the page cache (`direct = false`) in the simulator."""

import pytest

from blklab.documents import cell
from tests.experiment.conftest import SMALL, Expand, Fails

RANDOM = 'rw = "randread"\nbs = "4k"\n'
BUFFERED = 'rw = "read"\nbs = "64k"\ndirect = false\n'


def job(expand: Expand, more: str = "") -> cell.Job:
    """Returns the document of a sequential buffered job."""
    (made,) = expand(RANDOM, BUFFERED + more).cells
    document: cell.Job = made.document["jobs"][0]
    return document


def test_a_sequential_buffered_job_has_read_ahead(expand: Expand) -> None:
    document = job(expand, "iodepth = 32\n")
    # fio advises the kernel (`fadvise_hint=1`), and io_submit(2) returns when the data are there.
    assert (document["buffered"], document["fadvise_sequential"], document["iodepth"]) == (True, True, 1)
    (direct,) = expand(RANDOM, 'rw = "read"\nbs = "64k"\n').cells
    assert not {"buffered", "fadvise_sequential"} & direct.document["jobs"][0].keys()


@pytest.mark.parametrize(("hint", "advises"), [("0", False), ("1", True), ("'sequential'", True), ("'none'", False)])
def test_fadvise_hint_decides_whether_the_kernel_is_advised(expand: Expand, hint: str, advises: bool) -> None:
    plan = expand(RANDOM, f"{BUFFERED}options = {{ fadvise_hint = {hint} }}\n")
    assert plan.cells[0].document["jobs"][0].get("fadvise_sequential", False) == advises
    assert plan.notes == []  # It is not ignored
    (note,) = expand(RANDOM, f"{RANDOM}options = {{ fadvise_hint = 1 }}\n").notes
    assert "ignores these options of fio" in note


def test_read_ahead_is_a_setting_of_buffered_cells(expand: Expand) -> None:
    settings = ("[settings]", "[settings]\nread_ahead = 4096")
    (direct,) = expand(*settings).cells
    assert "read_ahead_bytes" not in direct.document
    (buffered,) = expand(*settings, text=SMALL.replace(RANDOM, BUFFERED)).cells
    assert buffered.document["read_ahead_bytes"] == 4 << 20


def test_read_ahead_can_be_swept(expand: Expand) -> None:
    plan = expand(RANDOM, BUFFERED, more="[sweep]\nread_ahead_kb = [0, 128, 4096]\n")
    labels = [made.labels["read_ahead_kb"] for made in plan.cells]
    windows = [made.document.get("read_ahead_bytes") for made in plan.cells]
    assert (labels, windows) == (["as is", "0", "128", "4096"], [None, 0, 128 << 10, 4 << 20])
    assert plan.notes == []


def test_read_ahead_of_direct_jobs_is_one_note(expand: Expand) -> None:
    plan = expand(more="[sweep]\nread_ahead_kb = [128, 4096]\n")
    (note,) = plan.notes
    assert note.startswith("sweep.read_ahead_kb cannot act on any workload (direct I/O)")
    assert len(plan.cells) == 1


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        (('rw = "read"', 'rw = "randread"'), "direct: found false, which is fio's default: of the page cache only"),
        (('rw = "read"', 'rw = "rw"'), "and rw is 'rw': set direct to 1, or use --on host or --on lab"),
        (("direct", "ioengine = 'mmap'\ndirect"), "ioengine: 'mmap' without direct I/O is not simulated"),
        (("direct", "ioengine = 'io_uring'\niodepth = 8\ndirect"), "iodepth: found 8, expected 1 without direct I/O"),
        (('bs = "64k"', 'bs = "1000"'), "bs: found 1000 bytes: the simulator takes multiples of 512"),
        (("direct", "options = { invalidate = 0 }\ndirect"), "options.invalidate: a file in the page cache is not"),
        (("direct", "options = { fadvise_hint = 'random' }\ndirect"), "fadvise_hint: 'random' is not simulated"),
        (('rw = "read"', 'rw = "write"\nfsync = 8'), "fsync: is not simulated without direct I/O"),
        (("direct", "options = { fdatasync = 1 }\ndirect"), "fdatasync: is not simulated without direct I/O"),
        (("direct", "numjobs = 2\ndirect"), "numjobs: 2 jobs would share pages of the page cache"),
    ],
)
def test_other_uses_of_the_page_cache_are_refused(fails: Fails, changes: tuple[str, str], output: str) -> None:
    message = fails(RANDOM, BUFFERED.replace(*changes))
    assert message.startswith("exp.toml: workloads.reads.")
    assert output in message


def test_jobs_with_their_own_regions_are_taken(expand: Expand) -> None:
    document = job(expand, 'numjobs = 2\noffset_increment = "1GiB"\nsize = "1GiB"\n#')
    assert document["numjobs"] == 2


def test_limits_of_dirty_pages_are_settings_of_buffered_writes(expand: Expand) -> None:
    writes = SMALL.replace(RANDOM, BUFFERED.replace("read", "write"))
    settings = ("[settings]", '[settings]\ndirty_bytes = "64MiB"\nread_ahead = 4')
    (made,) = expand(*settings, text=writes).cells
    assert (made.document["dirty_bytes"], "read_ahead_bytes" in made.document) == (64 << 20, False)
    assert "fadvise_sequential" not in made.document["jobs"][0]
    (read,) = expand(*settings, text=SMALL.replace(RANDOM, BUFFERED)).cells
    assert "dirty_bytes" not in read.document
    plan = expand(text=writes, more="[sweep]\n'vm.dirty_background_bytes' = [1048576]\n")
    assert [made.document.get("dirty_background_bytes") for made in plan.cells] == [None, 1 << 20]
