"""Traces in shards: on an S3 server, on this machine, and one trace in pieces."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem

from blklab import _core
from blklab.cluster import Parallel
from blklab.errors import BlklabError
from blklab.trace.shards import remote
from blklab.trace.shards.listing import are_shards, list_shards
from blklab.trace.shards.merging import characterise_shards
from blklab.trace.shards.task import TraceOptions
from tests.cluster.conftest import PATIENCE_S
from tests.conftest import Run

TRACES = Path(__file__).parent.parent / "data" / "traces"
KEYS = {  # Three hosts: an array with its disks, the same array on another host, a disk
    **{
        f"{host}/2026-11-{day}/{file.name}": file
        for host, day in (("db-1", "01"), ("db-1", "02"), ("db-2", "01"))
        for file in sorted((TRACES / "check-raid1").glob("*.zst"))
    },
    **{f"web-1/2026-11-01/{file.name}": file for file in sorted((TRACES / "bfq").glob("*.zst"))},
}
PATTERN = "s3://traces/*/2026-11-*"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Starts an S3 server with the traces of three hosts, and a broken one in another bucket."""
    log = tmp_path_factory.mktemp("s3") / "log"
    server = Path(sys.executable).with_name("moto_server")
    with log.open("wb") as output:
        process = subprocess.Popen([server, "-p", "0"], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while (match := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())) is None:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        fill(match[0])
        yield match[0]
    finally:
        process.kill()
        process.wait()


def fill(url: str) -> None:
    whole = (TRACES / "scsi-errors" / "sda.blktrace.0.zst").read_bytes()
    objects = {f"traces/{key}": path.read_bytes() for key, path in KEYS.items()}
    objects |= {"broken/db-1/day/sda.blktrace.0.zst": whole[: len(whole) // 2], "broken/db-1/day/notes": b"hello\n"}
    objects |= {f"broken/db-2/{key}": path.read_bytes() for key, path in KEYS.items() if key.startswith("web")}
    storage = S3FileSystem(key="a", secret="b", endpoint_url=url)  # noqa: S106  # any
    storage.mkdir("traces")
    storage.mkdir("broken")
    storage.pipe(objects)


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has blklab use the server; a client of an earlier server of this process would still ask that one."""
    S3FileSystem.clear_instance_cache()
    settings = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for name, value in {**settings, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)


def document(run: Run, *words: str) -> dict[str, Any]:
    result = run("trace", "stat", "--json", *words)
    assert result.status == 0, result.err
    profile: dict[str, Any] = json.loads(result.out)
    return profile


def ios(device: dict[str, Any]) -> int:
    return sum(op["ios"] for op in device["load"]["ops"].values())


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("cluster", [[], ["--cluster", "local:2"]])
def test_hosts_of_a_bucket_are_distinguished_and_added_up(run_apart: Run, cluster: list[str]) -> None:
    total = document(run_apart, PATTERN, *cluster)
    hosts = {host["name"]: host for host in total["shards"]["hosts"]}
    single = json.loads(_core.characterise([str(TRACES / "check-raid1")], _core.Filter()))
    web = json.loads(_core.characterise([str(TRACES / "bfq")], _core.Filter()))
    assert [host["shards"] for host in hosts.values()] == [2, 1, 1]
    assert hosts["web-1"]["ios"] == ios(web["devices"][0])
    assert hosts["db-1"]["ios"] == 2 * hosts["db-2"]["ios"]
    # Both days have the same wall-clock times.
    assert hosts["db-1"]["observed_ns"] == hosts["db-2"]["observed_ns"]
    assert [group["name"] for group in total["shards"]["groups"]] == ["db", "web"]
    assert total["events"] == 3 * single["events"] + web["events"]
    assert [ios(device) for device in total["devices"]] == [sum(host["ios"] for host in hosts.values())]
    latencies = web["devices"][0]["life"]["write"]["latency_ns"]["q2c"]
    assert hosts["web-1"]["write_p99_ns"] == latencies["p99"]


@pytest.mark.usefixtures("s3")
def test_one_host_keeps_its_devices(run: Run) -> None:
    merged = document(run, "s3://traces/db-[2]/2026-11-*")
    single = json.loads(_core.characterise([str(TRACES / "check-raid1")], _core.Filter()))
    for mine, theirs in zip(merged["devices"], single["devices"], strict=True):
        for exact in ("name", "load", "life", "pattern", "slow", "events"):
            assert mine[exact] == theirs[exact]
    assert merged["trace"]["inputs"][0]["files"][0].startswith("s3://traces/db-2/2026-11-01/")


@pytest.mark.usefixtures("s3")
def test_tables_show_groups_and_hosts(run: Run) -> None:
    shown = run("trace", "stat", PATTERN).out
    assert "Groups" in shown
    assert "Hosts" in shown
    assert "db-1" in shown


@pytest.mark.usefixtures("s3")
def test_report_shows_hosts(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("trace", "report", PATTERN, "-o", str(page))
    assert result.status == 0, result.err
    assert "web-1" in page.read_text()


@pytest.mark.usefixtures("s3")
def test_broken_shard_is_named_and_skipped_only_on_request(run: Run) -> None:
    refused = run("trace", "stat", "s3://broken/*/day/*", "s3://broken/*/*/2026-11-01")
    assert refused.status == 1
    assert refused.err.count("\n") == 1
    assert "s3://broken/db-1/day/" in refused.err
    assert "--skip-broken" in refused.err
    skipped = run("trace", "stat", "--json", "--skip-broken", "s3://broken/*/day/*", "s3://broken/*/*/2026-11-01")
    assert skipped.status == 0, skipped.err
    broken = {shard["shard"]: shard["reason"] for shard in json.loads(skipped.out)["shards"]["broken"]}
    assert set(broken) == {"s3://broken/db-1/day/sda", "s3://broken/db-1/day/notes"}
    assert "cut off" in broken["s3://broken/db-1/day/sda"]
    assert all(name in skipped.err for name in broken)
    assert tempfile.gettempdir() not in skipped.err


@pytest.mark.usefixtures("s3")
def test_all_broken_is_an_error(run: Run) -> None:
    result = run("trace", "stat", "--skip-broken", "s3://broken/*/day/*")
    assert result.status == 1
    assert "no shard can be read" in result.err


@pytest.mark.usefixtures("s3")
def test_worker_holds_one_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held: list[int] = []
    download: Callable[[Sequence[str], Path], list[str]] = remote.download

    def counted(urls: Sequence[str], directory: Path) -> list[str]:
        paths = download(urls, directory)
        held.append(sum(path.is_file() for path in tmp_path.rglob("*")))
        return paths

    monkeypatch.setattr(remote, "download", counted)
    shards = list_shards([PATTERN])
    characterise_shards(shards, TraceOptions(_core.Filter()), Parallel(1))
    assert held == [len(shard.files) for shard in shards]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://nowhere/*/x", "s3://nowhere/*/x: "),
        ("s3://traces/db-1/none.zst", "s3://traces/db-1/none.zst: no shard matches"),
        ("s3://traces/none-*/x", "s3://traces/none-*/x: no shard matches"),
        ("gs://bucket/*", "pip install gcsfs"),
        ("nothing://host/trace", "unknown protocol"),
    ],
)
def test_errors_are_one_line(run: Run, url: str, message: str) -> None:
    result = run("trace", "stat", url)
    assert result.status in {1, 2, 3}
    assert result.err.count("\n") == 1
    assert message in result.err


def test_unreachable_server_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    S3FileSystem.clear_instance_cache()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        result = run("trace", "stat", "s3://bucket/*/x")
    S3FileSystem.clear_instance_cache()
    assert result.status == 1
    assert "cannot be reached" in result.err
    assert result.err.count("\n") == 1


def place(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()


def test_hosts_and_groups_of_patterns(tmp_path: Path) -> None:
    place(tmp_path, *(f"{rack}/{host}/{day}.zst" for rack in "ab" for host in ("h1", "h2") for day in ("1", "2")))
    shown = [
        {(shard.group, shard.host) for shard in list_shards([f"{tmp_path}/{pattern}"])}
        for pattern in ("*/h*/*.zst", "a/h*/*.zst", "a/h1/*.zst", "a/h1/1.zst")
    ]
    assert shown[0] == {(rack, f"{rack}/{host}") for rack in "ab" for host in ("h1", "h2")}
    assert shown[1] == {("h", "h1"), ("h", "h2")}
    assert shown[2] == {("1.zst", "1.zst"), ("2.zst", "2.zst")}
    assert len(shown[3]) == 1


def test_files_of_one_recording_are_one_shard(tmp_path: Path) -> None:
    place(tmp_path, *(f"h1/{name}" for name in ("sda.blktrace.0", "sda.blktrace.1.zst", "sdb.blktrace.0")))
    place(tmp_path, "h1/blklab.json")
    shards = list_shards([f"{tmp_path}/*/*"])
    assert [Path(shard.name).name for shard in shards] == ["sda", "sdb"]
    assert [len(shard.files) for shard in shards] == [2, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--skip-broken", "trace"], "--skip-broken: this is one trace, not shards"),
        (["--cluster", "local:1", "trace"], "--cluster: this is one trace, not shards"),
        (["--cluster", "local:1", "-"], "--cluster: this is one trace, not shards"),
        (["--exact", "s3://bucket/*"], "--exact and --files need a trace on this machine"),
    ],
)
def test_options_that_exclude_each_other(run: Run, words: list[str], message: str) -> None:
    result = run("trace", "stat", *words)
    assert result.status == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_partial_profiles_of_other_versions_are_refused() -> None:
    partial, warnings = _core.characterise_partial([str(TRACES / "bfq")], _core.Filter())
    assert not warnings
    (stored,) = partial.__getnewargs__()
    first, content = stored.split(b"\n", 1)
    with pytest.raises(BlklabError, match="use one version"):
        _core.PartialProfile(re.sub(rb" \d+ ", b" 99 ", first, count=1) + b"\n" + content)
    with pytest.raises(BlklabError, match="damaged"):
        _core.PartialProfile(stored[:-10])


def test_partial_profile_is_merged_once() -> None:
    partial, other = (_core.characterise_partial([str(TRACES / "bfq")], _core.Filter())[0] for _ in range(2))
    partial.merge(other)
    for again in (other, partial):
        with pytest.raises(BlklabError, match="it was merged into another one"):
            again.merge(again)
        with pytest.raises(BlklabError, match="it was merged into another one"):
            again.sum()


def test_local_recording_below_a_directory_with_brackets_is_no_pattern(tmp_path: Path) -> None:
    directory = tmp_path / "a[1]"
    directory.mkdir()
    (directory / "md0.blktrace.0").touch()
    assert not are_shards([str(directory / "md0")])
    assert are_shards([str(tmp_path / "a[2]/md0")])


def test_recording_named_twice_is_refused(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "db-1"
    directory.mkdir()
    (directory / "md0.blktrace.0").touch()
    done = run("trace", "stat", f"{tmp_path}/db-*/*", directory)
    assert done.status == 2
    assert "belongs to two shards" in done.err


@pytest.mark.usefixtures("s3")
def test_per_cpu_files_are_named_by_their_beginning(run: Run) -> None:
    by_name, by_files = (document(run, f"s3://traces/{name}") for name in ("web-1/*/vdc", "web-1/*/vdc.blktrace.*"))
    assert by_name["shards"] == by_files["shards"]
    assert by_name["shards"]["shards"] == 1
    assert document(run, "s3://traces/web-1/2026-11-01/vdc")["events"] == by_name["events"]


def test_shards_are_read_over_http(run_apart: Run) -> None:
    handler = partial(QuietHandler, directory=str(TRACES))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            shown = document(run_apart, f"http://127.0.0.1:{server.server_port}/bfq/*.zst")
        finally:
            server.shutdown()
            thread.join()
    assert shown["events"] == json.loads(_core.characterise([str(TRACES / "bfq")], _core.Filter()))["events"]


SSHD = """
ListenAddress 127.0.0.1
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
Subsystem sftp internal-sftp
"""


@pytest.fixture(scope="module")
def sftp(short_directory: Path) -> Iterator[str]:
    """Starts sshd, and an agent with the key of the user; returns the URL of its root."""
    if shutil.which("sshd") is None or os.geteuid() != 0:
        pytest.skip("needs sshd (scripts/setup test) and root")
    keys = short_directory
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    (keys / "sshd_config").write_text(SSHD.format(keys=keys))
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([str(shutil.which("sshd")), "-D", "-e", "-p", str(port), "-f", keys / "sshd_config"])
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", keys / "agent"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (keys / "agent").exists() or not answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        environment = {**os.environ, "SSH_AUTH_SOCK": str(keys / "agent")}
        subprocess.run(["ssh-add", "-q", keys / "user"], env=environment, check=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSH_AUTH_SOCK", str(keys / "agent"))
            yield f"sftp://root@127.0.0.1:{port}"
    finally:
        for process in (agent, server):
            process.terminate()
            process.wait()


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("cluster", [[], ["--cluster", "local:1"]])
def test_shards_are_read_over_ssh(run_apart: Run, sftp: str, cluster: list[str]) -> None:
    shown = document(run_apart, f"{sftp}{TRACES}/bfq/*.zst", *cluster)
    assert shown["events"] == json.loads(_core.characterise([str(TRACES / "bfq")], _core.Filter()))["events"]


def test_errors_of_ssh_are_one_line(run_apart: Run, sftp: str) -> None:
    address = sftp.rpartition(":")[0]
    for url, message in {
        f"{sftp.replace('root', 'daemon')}{TRACES}/bfq/*": "no permission (Authentication failed.): check the cred",
        f"{address}:1{TRACES}/bfq/*": "cannot be reached (",
        f"{sftp}{TRACES}/none/*": "no shard matches",
    }.items():
        result = run_apart("trace", "stat", url)
        assert result.status != 0
        assert f"error: {url}: {message}" in result.err
        assert result.err.count("\n") == 1


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
