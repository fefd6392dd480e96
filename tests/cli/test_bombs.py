"""Files that would take all memory or time: each ends in one line, within 1 GiB of address space."""

import gzip
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from blklab.errors import UsageError
from blklab.experiment import load
from blklab.text import user_file
from blklab.text.user_file import read_user_file
from blklab.toml_files.files import read_toml
from blklab.web.config import load_web_config

LIMIT = 1 << 30  # Bytes of address space
PROGRAM = "import sys; from blklab.cli import main; main()"

FIO = b'{"fio version": "fio-3.33", "jobs": '
KEYS = b",".join(b'"k%d": 1' % number for number in range(300_000))
JOBS = b",".join(b'{"jobname": "x%d"}' % number for number in range(30_000))
DOTS = b".".join(b"a%d" % number for number in range(20_000))
ALIASES = "".join(f"  {chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9))

BOMBS: dict[str, tuple[bytes, str]] = {  # By the name of the file: its content, and what the message says
    "deep.json": (FIO + b"[" * 200_000, "nested too deeply"),
    "digits.json": (
        FIO + b'[{"jobname": "x", "read": {"iops": ' + b"9" * 1_000_000 + b"}}]}",
        "more than 4,300 digits",
    ),
    "keys.json": (FIO + b'[{"jobname": "x", "read": {' + KEYS + b"}}]}", "x"),
    "jobs.json": (FIO + b"[" + JOBS + b"]}", "found 30,000 jobs, expected at most 20,000"),
    "row.csv": (b"a,b\n" + b"1" * 5_000_000 + b",2\n", "unknown format"),
    "lines.txt": (b"\n" * 20_000_000, "is empty"),
    "dots.toml": (DOTS + b" = 1", "a key has more than 1,000 parts"),
    "header.toml": (b"[" + DOTS + b"]", "a key has more than 1,000 parts"),
    "inside.toml": (b"a = {" + DOTS + b" = 1}", "a key has more than 1,000 parts"),
    "quoted.toml": (b".".join(b'"a.%d"' % number for number in range(20_000)) + b" = 1", "more than 1,000 parts"),
    "deep.toml": (b"a = " + b"[" * 20_000, "nested too deeply"),
    "digits.toml": (b"repeats = " + b"9" * 100_000, "too many digits"),
    "hexadecimal.toml": (b"repeats = 0x" + b"f" * 100_000, "too many digits"),
    "keys.toml": (b"".join(b"k%d = 1\n" % number for number in range(50_000)), "found 50,000 keys, expected at most"),
    "large.toml": (b"title = '" + b"x" * (17 << 20) + b"'", "larger than 16 MiB"),
    "deep.yml": (b"[" * 50_000, "nested"),
    "digits.yml": (b"basic_auth_users: {a: " + b"9" * 6_000 + b"}", "a number is too long"),
    "aliases.yml": (f"basic_auth_users:\n  a: &a [x,x,x,x,x,x,x,x,x]\n{ALIASES}".encode(), "expected a bcrypt hash"),
    "list.yml": (b"tls_server_config: {cert_file: a, key_file: b, min_version: [1]}", "expected TLS12 or TLS13"),
}
COMMANDS = {
    ".json": ["import", "--dry-run"],
    ".csv": ["import", "--dry-run"],
    ".txt": ["import", "--dry-run"],
    ".toml": ["run", "--dry-run"],
    ".yml": ["serve", "--listen", "127.0.0.1:0", "--web-config"],
}


def run_limited(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the command with a limit of memory. It has no time limit of its own: pytest's applies."""
    environment = {**os.environ, "BLKLAB_STORE": str(directory / "store.db"), "PYTHONPATH": os.pathsep.join(sys.path)}
    # numpy's threads alone reserve hundreds of MiB of addresses.
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
    )


def check_one_line(result: "subprocess.CompletedProcess[str]", expected: str) -> None:
    errors = [line for line in result.stderr.splitlines() if "warning" not in line]
    assert len(errors) == 1, result.stderr
    assert expected in errors[0]
    assert "set_int_max_str_digits" not in result.stderr
    assert result.returncode in {1, 2, 3}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_one_line(tmp_path: Path, name: str) -> None:
    content, expected = BOMBS[name]
    (tmp_path / name).write_bytes(content)
    if name.endswith(".yml"):
        (tmp_path / "store.db").touch()
    check_one_line(run_limited(tmp_path, *COMMANDS[Path(name).suffix], name), expected)


ENDLESS = {
    "import": (["import", "/dev/zero", "--dry-run"], "is larger than 256 MiB"),
    "devices": (["devices", "import", "/dev/zero", "--model", "nvme-consumer", "--name", "x"], "larger than 256 MiB"),
    "gzip": (["devices", "import", "bomb.json.gz", "--model", "nvme-consumer", "--name", "x"], "larger than 256 MiB"),
    "run": (["run", "/dev/zero", "--dry-run"], "is larger than 16 MiB"),
    "store": (["runs", "list", "--store", "/dev/zero"], "is a character device, expected a file"),
    "users": (["serve", "--listen", "127.0.0.1:0", "--web-config", "/dev/zero"], "is larger than 1 MiB"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_file_without_end_is_read_up_to_a_limit(tmp_path: Path, name: str) -> None:
    arguments, expected = ENDLESS[name]
    if name == "gzip":
        (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(bytes(300 << 20), 1))
    if name == "users":
        (tmp_path / "store.db").touch()
    check_one_line(run_limited(tmp_path, *arguments), expected)


@pytest.mark.parametrize("read", [read_user_file, read_toml, load_web_config, load.read])
def test_a_fifo_without_a_writer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(user_file, "FIFO_S", 0.01)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="fifo: cannot be read: it is a FIFO, and no program has opened it"):
        read(tmp_path / "fifo")


def test_a_fifo_with_a_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen([sys.executable, "-c", "open('fifo', 'w').write('{}')"], cwd=tmp_path):
        assert json.loads(read_user_file(tmp_path / "fifo")) == {}
