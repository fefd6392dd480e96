"""Command lines of fio in a text."""

import pytest

from blklab.fio.command_line import parse_command_lines
from blklab.fio.text import parse_runs

OUTPUT = """
seq: (groupid=0, jobs=1): err= 0: pid=51: Wed Jun  7 10:12:40 2023
  read: IOPS=40, BW=10.0MiB/s (10.5MB/s)(302MiB/30052msec)
     issued rwts: total=1210,0,0,0 short=0,0,0,0 dropped=0,0,0,0
Run status group 0 (all jobs):
"""


@pytest.mark.parametrize(
    "text",
    [
        "fio --name=seq --rw=read --bs=256k --direct=1",
        "fio -name seq -rw read -bs 256k -direct 1",
        "root@host:~# fio --rw=read --direct=1 --name=seq --bs=256k",
        "$ sudo /usr/local/bin/fio --name=seq --readwrite=read \\\n   --blocksize=256k --direct=1",
        "> $ fio --name=seq --rw=read\n> --bs=256k --direct=1",
        "I ran `fio --name=seq --rw=read --bs=256k --direct=1`",
        "fio --direct --name='seq' --rw=\"read\" --bs=256k",
    ],
)
def test_options_are_read_as_fio_reads_them(text: str) -> None:
    (command,) = parse_command_lines(f"first line\n{text}\nlast line")
    assert command.line == 2
    assert command.jobs == {"seq": {"rw": "read", "bs": "256k", "direct": "1"}}


def test_options_before_the_first_job_are_of_all_jobs() -> None:
    (command,) = parse_command_lines("fio --bs=4k --name=a --rw=read --name=b --rw=write --bs=8k")
    assert command.jobs == {"a": {"bs": "4k", "rw": "read"}, "b": {"bs": "8k", "rw": "write"}}


@pytest.mark.parametrize("text", ["fio is a program - we use it", "fio jobs.fio", "fio: note -name", "confio --name=a"])
def test_other_lines_are_no_commands(text: str) -> None:
    assert parse_command_lines(text) == []


def test_each_run_has_the_command_above_it() -> None:
    commands = [
        "fio --name=seq --rw=read --bs=256k",
        "fio --name=seq --rw=read --bs=128k",
        "fio --name=other --rw=write",
    ]
    first, second = parse_runs("\n".join([commands[0], OUTPUT, commands[1], commands[2], OUTPUT.replace("51", "52")]))
    assert [job.options["bs"] for job in (*first.jobs, *second.jobs)] == ["256k", "128k"]


def test_the_line_of_fio_decides() -> None:
    header = "seq: (g=0): rw=read, bs=(R) 64.0KiB-64.0KiB, ioengine=libaio, iodepth=4"
    (run,) = parse_runs("\n".join(["fio --name=seq --rw=write --bs=4k --direct=1", header, OUTPUT]))
    assert run.jobs[0].options == {
        "rw": "read",
        "bs": "65536",
        "ioengine": "libaio",
        "iodepth": "4",
        "direct": "1",
        "numjobs": "1",
    }
