"""What is wrong with an experiment is said in one line, before anything runs."""

from pathlib import Path

import pytest

from blklab.errors import UsageError
from blklab.experiment.cells import plan
from tests.experiment.conftest import Fails

PGBENCH = Path(__file__).parents[1] / "data" / "traces" / "pgbench-raid1"

MEMBERS = 'members = ["nvme", "ssd"]'
SIZE = 'size = "8GiB"'
STACK = '[stacks.near]\nlevel = 10\nlayout = "n2"\nchunk = "512K"\n'

CASES = [
    # Issue, section 6.
    (MEMBERS, 'members = ["nvme", "nvme"]', "stacks.near.members: 'nvme' is used twice"),
    (
        MEMBERS,
        MEMBERS + '\n[stacks.top]\nlevel = 1\nmembers = ["near", "ssd"]',
        "stacks.top.members: 'ssd' is used twice: in 'near' and in 'top'",
    ),
    (
        MEMBERS,
        MEMBERS + '\n[stacks.top]\nlevel = 1\nmembers = ["near", "near"]',
        "stacks.top.members: 'near' is used twice",
    ),
    (
        'layout = "n2"',
        'layout = "n2"\nkind = []',
        "stacks.near.kind: found a list, expected one of lvm, lvmcache, bcache, writecache, delay; for an md array, set"
        " level",
    ),
    ('layout = "n2"', 'layout = "n3"', "stacks.near.layout: found 2 members, 3 copies need at least 3"),
    ('"512K"', '"6K"', "stacks.near.chunk: 6 KiB is not a multiple of 4 KiB"),
    ('"512K"', '"12K"', "stacks.near.chunk: 12 KiB is not a power of two, as level 10 needs"),
    (
        SIZE,
        'size = "12GiB"',
        "workloads.reads.size: 12 GiB at offset 0 B do not fit on stack 'near', whose capacity is 10 GiB",
    ),
    (
        SIZE,
        SIZE + '\noffset = "3GiB"',
        "workloads.reads.size: 8 GiB at offset 3 GiB do not fit on stack 'near', whose capacity is 10 GiB",
    ),
    (
        SIZE,
        SIZE + '\nnumjobs = 4\noffset_increment = "1GiB"',
        "workloads.reads.size: 8 GiB at offset 3 GiB do not fit on stack 'near', whose capacity is 10 GiB",
    ),
    (
        '"4.19"',
        '"4.31"',
        "settings.kernel: unknown kernel '4.31': expected MAJOR.MINOR, from 2.6 to 7.x, such as 4.19 or 6.1",
    ),
    (
        '"4.19"',
        '"linux"',
        "settings.kernel: invalid kernel 'linux': expected MAJOR.MINOR, from 2.6 to 7.x, such as 4.19 or 6.1",
    ),
    ('"4.19"', "4.19", 'settings.kernel: found 4.19: write it in quotes, such as "4.19"'),
    ("kernel =", "kernal =", "settings.kernal: no such key; did you mean 'kernel'?"),
    # Devices.
    ('"pm983"', '"pm984"', "devices.nvme.model: there is no stock model 'pm984'; did you mean 'pm983'?"),
    ('model = "pm983"', 'modle = "pm983"', "devices.nvme.modle: no such key; did you mean 'model'?"),
    ('model = "pm983"\n', "", "devices.nvme: found neither model, calibrated nor kind: set one of them"),
    (
        'model = "pm983"',
        'model = "pm983"\nkind = "nvme"',
        "devices.nvme.kind: model is given as well: use one of the two",
    ),
    (
        'model = "pm983"',
        'kind = "floppy"',
        "devices.nvme: unknown kind 'floppy': expected one of 'ssd', 'nvme', 'hdd', 'throttled'",
    ),
    (
        'model = "pm983"',
        'kind = "throttled"\niops_totl = 3',
        "devices.nvme.iops_totl: no such key; did you mean 'iops_total'?",
    ),
    (
        'model = "pm983"\nsize = "10GiB"',
        'kind = "throttled"',
        "devices.nvme.size: is missing here and in the device: set one of them",
    ),
    (
        'size = "10GiB"',
        'size = "10TiB"',
        "devices.nvme.size: 10 TiB at 0 B reaches beyond the device's end at 3.49 TiB",
    ),
    ('size = "10GiB"', "size = 1000", "devices.nvme.size: found 1000 B, expected a multiple of the sector size, 512 B"),
    (
        'size = "10GiB"',
        'size = "10GB"',
        "devices.nvme.size: '10GB' could mean powers of 1000 or of 1024: write 10GiB (or 10g) for 1024, or plain bytes",
    ),
    (
        'size = "10GiB"',
        'size = "10GiB"\nqueue_depth = 0',
        "devices.nvme.queue_depth: found 0, expected greater than or equal to 1",
    ),
    (
        'size = "10GiB"',
        'size = "10GiB"\nscheduler = "cfq"',
        "devices.nvme.scheduler: kernel 4.19 has no 'cfq' for 'nvme' devices, expected one of none, mq-deadline",
    ),
    (
        'kernel = "4.19"',
        'kernel = "6.1"\nscheduler = "deadline"',
        "settings.scheduler: kernel 6.1 has no 'deadline' for 'nvme' devices, expected one of none, mq-deadline",
    ),
    (
        'kernel = "4.19"',
        'scheduler = "bfq"',
        "settings.scheduler: found 'bfq', expected 'none', 'noop', 'mq-deadline', 'deadline', 'cfq'",
    ),
    (
        'size = "10GiB"',
        'size = "10GiB"\nmax_sectors_kb = 4096',
        "devices.nvme.max_sectors_kb: found 4096, the device takes at most 2048",
    ),
    # Stacks.
    (
        MEMBERS,
        'members = ["nvme", "sdd"]',
        "stacks.near.members: there is no device or stack 'sdd'; did you mean 'ssd'?",
    ),
    (MEMBERS, 'members = ["nvme"]', "stacks.near.members: found 1, level 10 needs at least 2"),
    (MEMBERS, "members = []", "stacks.near.members: is empty: expected at least one"),
    (MEMBERS, 'members = ["near", "ssd"]', "stacks.near.members: 'near' would contain itself: near → near"),
    (
        MEMBERS,
        'members = ["missing", "missing"]',
        "stacks.near.members: level 10 cannot run with 2 of 2 members missing or rebuilding",
    ),
    (
        MEMBERS,
        MEMBERS + '\nrebuilding = ["hdd"]',
        "stacks.near.rebuilding: there is no device or stack 'hdd'; allowed: nvme, ssd, near",
    ),
    (
        MEMBERS,
        MEMBERS + '\nwrite_mostly = ["ssd"]',
        "stacks.near.write_mostly: only level 1 has write-mostly members, not level 10",
    ),
    (
        MEMBERS,
        MEMBERS + '\nsync = "recover"',
        "stacks.near.sync: found 'recover' and no rebuilding member: 'recover' and rebuilding = "
        '["…"] must be used together',
    ),
    ("level = 10", "level = 7", "stacks.near.level: unknown level 7: expected one of linear, 0, 1, 10, 4, 5, 6"),
    (
        'layout = "n2"',
        'layout = "x2"',
        "stacks.near.layout: 'x2': expected n, f or o and the number of copies, such as n2",
    ),
    (STACK, "[stacks.near]\nlevel = 1\nchunk = 4096\n", "stacks.near.chunk: level 1 has no chunk"),
    (
        STACK,
        "[stacks.near]\nlevel = 1\ngroup_thread_cnt = 4\n",
        "stacks.near.group_thread_cnt: level 1 has no stripe cache: only 4, 5 and 6 do",
    ),
    (
        STACK,
        '[stacks.near]\nlevel = 1\nbitmap = "lockless"\nbitmap_chunk = "64M"\n',
        "stacks.near.bitmap_chunk: a lockless bitmap chooses its chunk: leave the key out",
    ),
    (STACK, "[stacks.near]\nlevel = 6\n", "stacks.near.members: found 2, level 6 needs at least 4"),
    (
        STACK + MEMBERS,
        '[stacks.near]\ndevice = "sda"',
        "stacks.near.device: there is no device or stack 'sda'; did you mean 'ssd'?",
    ),
    (
        "[stacks.near]",
        "[stacks.ssd]",
        "stacks.ssd: is also the name of a device: only a stack with `device` may be called like one",
    ),
    # Workloads.
    ("bs =", "blocksize =", "workloads.reads.blocksize: no such key; use 'bs'"),
    ("bs =", "bz =", "workloads.reads.bz: no such key; did you mean 'bs'?"),
    (
        '"randread"',
        '"random"',
        "workloads.reads.rw: found 'random', expected one of read, write, randread, randwrite, rw, readwrite, randrw",
    ),
    ('"4k"', '"4x"', "workloads.reads.bs: '4x' is not a size: write bytes (512) or 4k, 1.5M, 10GiB"),
    (
        '"4k"',
        '"5"',
        "workloads.reads.bs: block size 5: expected a multiple of 512, because of direct I/O"
        " (direct = false allows other sizes)",
    ),
    (
        SIZE,
        SIZE + '\nrandom_distribution = "zipf:1"',
        "workloads.reads.random_distribution: zipf:1 is not defined: use a theta other than 1",
    ),
    (
        SIZE,
        SIZE + '\nbssplit = "4k/50:64k/40"',
        "workloads.reads.bssplit: bssplit '4k/50:64k/40': the shares add up to 90 %, expected 100 %",
    ),
    (SIZE, SIZE + "\ntime_based = true", "workloads.reads.time_based: needs a runtime"),
    (SIZE, 'size = "2k"\n', "workloads.reads.size: 2 KiB is less than a block of 4 KiB"),
    # Settings.
    (
        'kernel = "4.19"',
        'filesystem = "zfs"',
        "settings.filesystem: found 'zfs', expected 'none', 'ext3', 'ext4', 'xfs'",
    ),
    (
        'kernel = "4.19"',
        'filesystem = { type = "ext4", comit = 3 }',
        "settings.filesystem.comit: no such key; did you mean 'commit'?",
    ),
    (
        'kernel = "4.19"',
        'filesystem = { type = "ext4", journal = "nvm" }',
        "settings.filesystem.journal: there is no device or stack 'nvm'; did you mean 'nvme'?",
    ),
    (
        'kernel = "4.19"',
        'filesystem = { type = "ext4", journal = "nvme" }',
        "settings.filesystem.journal: 'nvme' is used twice: in 'near' and in 'journal'",
    ),
    (
        'kernel = "4.19"',
        'filesystem = { type = "xfs", journal = "near" }',
        "settings.filesystem.journal: 'near' is the stack with the filesystem itself: write 'internal'",
    ),
    (
        'kernel = "4.19"',
        'filesystem = { type = "xfs", journal = "" }',
        "settings.filesystem.journal: found '', expected 'internal', or the name of a device or a stack",
    ),
    (
        STACK,
        f'[devices.log]\nmodel = "pm983"\nsize = "8MiB"\n[settings.filesystem]\ntype = "xfs"\njournal = "log"\n{STACK}',
        "settings.filesystem.journal: 'log' has 8 MiB, expected at least 64 MiB",
    ),
    (
        'kernel = "4.19"',
        'runtime = "1 fortnight"',
        "settings.runtime: '1 fortnight' is not a duration: write 1.5s, 200ms, 10us, 1h30m or seconds",
    ),
    # The matrix.
    (
        "[matrix]",
        '[matrix]\nbs = ["4k", "5"]',
        "matrix.bs[1]: block size 5: expected a multiple of 512, because of direct I/O"
        " (direct = false allows other sizes)",
    ),
    ("[matrix]", '[matrix]\n"near.chunk" = ["4k", "6k"]', "matrix.near.chunk[1]: 6 KiB is not a multiple of 4 KiB"),
    ("[matrix]", '[matrix]\nkernl = ["4.19"]', "matrix.kernl[0]: no such key; did you mean 'kernel'?"),
    (
        "[matrix]",
        '[matrix]\n"nvm.size" = ["4k"]',
        "matrix.nvm.size[0]: there is no device, stack or workload 'nvm'; did you mean 'nvme'?",
    ),
    ("[matrix]", '[matrix]\nstack = ["nearr"]', "matrix.stack[0]: there is no stack 'nearr'; did you mean 'near'?"),
    ("[matrix]", "[matrix]\nkernel = []", "matrix.kernel: is empty: expected at least one"),
    ("[matrix]", "[matrix]\niodepth = [1, 1]", "matrix.iodepth[1]: found '1' twice"),
    # The file.
    ("[stacks.near]", "[stacks]\nx = 3\n[stacks.near]", "stacks.x: found 3, expected a table"),
    ("level = 10", 'level = 10\nbitmap = "x"', "stacks.near.bitmap: found 'x', expected true, false, 'lockless'"),
    (SIZE, SIZE + '\niodepth = "x"', "workloads.reads.iodepth: found 'x', expected a whole number"),
    (MEMBERS, 'members = "nvme"', "stacks.near.members: found 'nvme', expected a list"),
    (
        SIZE,
        SIZE + '\nrandom_distribution = "zoned:50/10:40/90"',
        "workloads.reads.random_distribution: zoned: accesses: the shares add up to 90 %, expected 100 %",
    ),
    ("[devices.nvme]", "title = 3\n[devices.nvme]", "title: found 3, expected text"),
    ("[matrix]", "[matrx]", "matrx: no such key; did you mean 'matrix'?"),
]


@pytest.mark.parametrize(("old", "new", "output"), CASES, ids=[case[2] for case in CASES])
def test_a_mistake_is_one_line(fails: Fails, old: str, new: str, output: str) -> None:
    assert fails(old, new) == f"exp.toml: {output}"


def test_several_mistakes_are_named(fails: Fails) -> None:
    assert fails("level = 10", 'level = 7\nchnk = "x"') == (
        "exp.toml: stacks.near.level: unknown level 7: expected one of linear, 0, 1, 10, 4, 5, "
        "6; stacks.near.chnk: no such key; did you mean 'chunk'?"
    )


def test_no_more_than_five_are_named(fails: Fails) -> None:
    output = fails("[settings]", "[settings]\n" + "".join(f"zz{n} = 1\n" for n in range(8)))
    assert output.count("no such key") == 5
    assert output.endswith("; and 3 more")


def test_all_allowed_keys_are_named(fails: Fails) -> None:
    output = fails('model = "pm983"', 'model = "pm983"\nzzzz = 1')
    assert output.startswith("exp.toml: devices.nvme.zzzz: no such key; allowed: scheduler, nr_requests,")
    assert output.endswith(", sustained_write_bandwidth, sustained_write_command_ns, turnaround_ns, slc_fill, pcie")


def test_one_mistake_of_many_jobs_is_one_message(fails: Fails, tmp_path: Path) -> None:
    jobs = "".join(f"[j{number}]\nstonewall\n" for number in range(16))
    (tmp_path / "jobs.fio").write_text(f"[global]\nrw=randread\nsize=1g\ndirect=0\n{jobs}")
    output = fails(more='[workloads.f]\njob_file = "jobs.fio"\n')
    assert output.count("only sequential I/O is simulated") == 1
    assert "workloads.f/j0.jobs.j0.direct: found false" in output
    assert output.endswith("(also workloads.f/j1.jobs.j1.direct and 14 more)")


def test_one_mistake_in_many_cells_is_one_message(fails: Fails) -> None:
    more = 'kernel = ["5.3", "5.4", "6.1"]\n[workloads.other]\nsize = "1GiB"\n'
    output = fails("[settings]", '[settings]\nscheduler = "deadline"', more=more)
    assert output == (
        "exp.toml: settings.scheduler: kernel 5.3 has no 'deadline' for 'nvme' devices, expected one of none, "
        "mq-deadline"
    )


def test_toml_that_cannot_be_read_names_line_and_column(fails: Fails) -> None:
    assert fails("level = 10", "level : 10") == (
        "exp.toml: line 11, column 7: expected '=' after a key in a key/value pair"
    )


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError) as caught:
        plan(Path("nowhere.toml"))
    assert str(caught.value) == "nowhere.toml: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("trace", "device", "output"),
    [
        (PGBENCH, "md127", "the trace of 'md127' reaches to 1.88 GiB, beyond the end of stack 'alone' at 1 GiB"),
        (
            "nowhere",
            "md127",
            "DIRECTORY/nowhere: does not exist: expected a file, a directory, or files"
            " DIRECTORY/nowhere.blktrace.0, .1, …",
        ),
    ],
)
def test_a_trace_that_cannot_be_replayed(tmp_path: Path, trace: object, device: str, output: str) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(
        f"""
        devices.disk = {{ model = "sm883", size = "1GiB" }}
        stacks.alone = {{ device = "disk" }}
        workloads.trace = {{ replay = '{trace}', device = "{device}" }}
        """
    )
    with pytest.raises(UsageError) as caught:
        plan(path)
    assert str(caught.value) == (f"{path}: workloads.trace.replay: {output.replace('DIRECTORY', str(tmp_path))}")


def test_a_key_of_very_many_parts(fails: Fails) -> None:
    output = fails("[matrix]", "[settings.host" + ".a" * 20_000 + "]\nb = 1\n[matrix]")
    assert output == "exp.toml: line 24: a key has more than 1,000 parts"
