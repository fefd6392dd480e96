"""The client with the real agent, which is an ordinary process here."""

import os
import platform
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.agent import Agent, ExportedFile, GuestFailed, GuestGone, encode, receive

Serving = Callable[[], tuple[subprocess.Popen[bytes], socket.socket]]


def test_hello(agent: Agent) -> None:
    hello = agent.hello(1)
    assert (hello.protocol, hello.notes) == (1, ())
    assert (hello.kernel, hello.machine) == (platform.release(), platform.machine())
    assert agent.alive(30)


def test_run(agent: Agent, tmp_path: Path) -> None:
    ran = agent.run(["sh", "-c", "cat; pwd; echo err >&2"], stdin="in\n", cwd=str(tmp_path))
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"in\n{tmp_path}\n", "err\n")
    assert not ran.truncated
    assert ran.wall_ns > 0


def test_run_without_input_reads_nothing_and_needs_no_reader(agent: Agent) -> None:
    assert agent.run(["cat"]).stdout == ""
    assert agent.run(["true"], stdin="x" * 1_000_000).status == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sh", "-c", "echo one >&2; echo two >&2; exit 3"], "ended with status 3: two"),
        (["sh", "-c", "kill -TERM $$"], r"sh -c 'kill -TERM \$\$' was killed by SIGTERM"),
        (["sh", "-c", "printf '\\033[2J' >&2; exit 1"], r"status 1: \\x1b\[2J"),
        (["no such program"], "in the guest: no such program: No such file or directory"),
        (["/"], "in the guest: /: Permission denied"),
        ([], "in the guest: argv: expected a program"),
        (["a\0b"], "nul byte"),
    ],
)
def test_run_fails(agent: Agent, argv: list[str], message: str) -> None:
    with pytest.raises(GuestFailed, match=message) as caught:
        agent.run(argv)
    assert str(caught.value).isprintable()


def test_run_unchecked(agent: Agent) -> None:
    assert agent.run(["false"], check=False).status == 1
    ran = agent.run(["sh", "-c", "kill -KILL $$"], check=False)
    assert ran.status == -signal.SIGKILL
    with pytest.raises(BlklabError, match="/nowhere: does not exist: expected a directory to run true in"):
        agent.run(["true"], cwd="/nowhere", check=False)


def test_run_keeps_the_head_of_much(agent: Agent) -> None:
    ran = agent.run(["sh", "-c", "yes | head -c 5000000; echo done >&2"])
    assert (ran.truncated, len(ran.stdout), ran.stderr) == (True, 4 << 20, "done\n")


def test_run_takes_any_bytes(agent: Agent) -> None:
    assert agent.run(["printf", r"a\377b\000c"]).stdout == "a\ufffdb\0c"


def test_an_answer_that_is_too_long_is_an_error(agent: Agent) -> None:
    with pytest.raises(BlklabError, match="expected at most 16777216"):
        agent.run(["head", "-c", "4000000", "/dev/zero"])
    assert agent.alive(30)


def test_run_times_out_and_takes_its_group_along(agent: Agent, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(GuestFailed, match="sh: timed out after 1000 ms"):
        agent.run(["sh", "-c", script], timeout=1)
    assert_ends(int((tmp_path / "pid").read_text()))


def assert_ends(pid: int) -> None:
    """Waits until a process has ended, for as long as pytest lets it."""
    status = Path(f"/proc/{pid}/stat")
    while True:
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return


def test_run_returns_though_a_daemon_holds_its_output(agent: Agent) -> None:
    ran = agent.run(["sh", "-c", "sleep 1000 & echo $!"])
    os.kill(int(ran.stdout), signal.SIGKILL)


def test_stream(agent: Agent) -> None:
    seen: list[tuple[str, str]] = []
    script = r"printf '1\r'; printf '\303'; sleep 0.1; printf '\251'; echo e >&2"
    ran = agent.run(["sh", "-c", script], stream=lambda *event: seen.append(event))
    assert "".join(text for name, text in seen if name == "stdout") == "1\ré" == ran.stdout
    assert ("stderr", "e\n") in seen


def test_what_is_interrupted_is_killed(agent: Agent) -> None:
    pids: list[int] = []

    def interrupt(_: str, text: str) -> None:
        pids.append(int(text))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.run(["sh", "-c", "echo $$; exec sleep 1000"], stream=interrupt)
    assert_ends(pids[0])
    assert agent.alive(30)


def test_read(agent: Agent, tmp_path: Path) -> None:
    for name in ("b1", "b2", "c1", ".b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "b3").mkdir()
    os.mkfifo(tmp_path / "b4")
    (tmp_path / "big").write_bytes(b"x" * (5 << 20))
    files = agent.read([f"{tmp_path}/b*", "/nowhere", "/nowhere*", "/proc/sel*/comm"])
    assert len(files.pop(f"{tmp_path}/big") or "") == 4 << 20
    assert files == {
        f"{tmp_path}/b1": "b1",
        f"{tmp_path}/b2": "b2",
        f"{tmp_path}/b3": None,
        f"{tmp_path}/b4": None,
        "/nowhere": None,
        "/proc/self/comm": "_agent\n",
    }


def test_write(agent: Agent, tmp_path: Path) -> None:
    agent.write(f"{tmp_path}/new", "text")
    agent.write(f"{tmp_path}/new", "1")
    assert (tmp_path / "new").read_text() == "1"
    for path in ("/nowhere/file", "/sys/nowhere"):
        with pytest.raises(BlklabError, match=f"{path}: No such file or directory"):
            agent.write(path, "text")
    with pytest.raises(BlklabError, match=f"in the guest: {tmp_path}: Is a directory"):
        agent.write(str(tmp_path), "text")


def test_sampling(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before")
    with agent.sampling(3_600_000, [str(file), "/nowhere"]) as samples:
        file.write_text("after")
    first, last = samples
    assert first.files == {str(file): "before", "/nowhere": None}
    assert last.files == {str(file): "after", "/nowhere": None}
    assert last.t_ns > first.t_ns


def test_sampling_keeps_its_interval(agent: Agent) -> None:
    with agent.sampling(20, ["/proc/self/comm"]) as samples:
        agent.run(["sleep", "0.5"])
    times = [sample.t_ns for sample in samples]
    assert times == sorted(times)
    # However late: no two within the interval's number, but the last.
    numbers = [round((time - times[0]) / 20e6 - 0.49) for time in times[:-1]]
    assert len(set(numbers)) >= len(numbers) - 1
    assert 3 <= len(times) <= 2 + (times[-1] - times[0]) / 20e6 + 1


def test_many_samples_come_in_parts(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x" * 1_000_000)
    with agent.sampling(50, [f"{tmp_path}/file"]) as samples:
        agent.run(["sleep", "0.5"])
    assert len(samples) >= 2
    assert {len(sample.files[f"{tmp_path}/file"] or "") for sample in samples} == {10**6}


def test_sampling_ends_with_its_block(agent: Agent) -> None:
    with pytest.raises(ZeroDivisionError), agent.sampling(10, ["/proc/self/comm"]):
        raise ZeroDivisionError
    with pytest.raises(BlklabError, match="interval_ms: expected at least 1"), agent.sampling(0, ["/proc/self/comm"]):
        pytest.fail("it has not begun")
    with agent.sampling(2**64 - 1, ["/proc/self/comm"]) as samples:
        pass
    assert len(samples) == 2
    assert agent.alive(30)


def test_export(agent: Agent, tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.write_bytes(bytes(16384))
    (tmp_path / "a1").write_bytes(b"1" * 5000)
    (tmp_path / "a2").write_bytes(b"")
    (tmp_path / "a3").write_bytes(b"3")
    exported = agent.export([f"{tmp_path}/a*", "/nowhere*"], str(device))
    assert exported == (
        ExportedFile(f"{tmp_path}/a1", 0, 5000),
        ExportedFile(f"{tmp_path}/a2", 8192, 0),
        ExportedFile(f"{tmp_path}/a3", 8192, 1),
    )
    content = device.read_bytes()
    assert (content[:5000], content[8192:8193], len(content)) == (b"1" * 5000, b"3", 16384)
    with pytest.raises(BlklabError, match=r"does not fit on .*, which has 16384 bytes"):
        agent.export([f"{tmp_path}/a1"] * 3, str(device))
    assert device.stat().st_size == 16384
    with pytest.raises(BlklabError, match="/nowhere: No such file or directory"):
        agent.export(["/nowhere"], str(device))
    with pytest.raises(BlklabError, match="expected a regular file"):
        agent.export([str(tmp_path)], str(device))


def test_calls_go_on_side_by_side(agent: Agent) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda number: agent.run(["echo", str(number)]).stdout, range(64))
        assert list(answers) == [f"{number}\n" for number in range(64)]


def test_no_more_than_64_at_once(serving: Serving) -> None:
    process, connection = serving()
    receive(connection)
    for number in range(64):
        connection.sendall(encode({"id": number, "call": "sample", "interval_ms": 10**6, "paths": []}))
    connection.sendall(encode({"id": 64, "call": "read", "paths": []}))
    while "event" in (answer := receive(connection) or {}):
        pass
    assert answer == {"id": 64, "error": "64 requests are running: wait until one ends"}
    connection.sendall(encode({"id": 65, "call": "ping"}))
    while "event" in (answer := receive(connection) or {}):
        pass
    assert answer == {"id": 65, "ok": {}}
    process.kill()


def test_signal(serving: Serving) -> None:
    _, connection = serving()
    receive(connection)
    connection.sendall(encode({"id": 1, "call": "run", "argv": ["sleep", "1000"]}))
    # At once: the program need not have been started.
    connection.sendall(encode({"id": 2, "call": "signal", "target": 1, "signal": 15}))
    answers = [receive(connection) or {}, receive(connection) or {}]
    ran, signalled = sorted(answers, key=lambda answer: str(answer["id"]))
    assert signalled == {"id": 2, "ok": {}}
    assert isinstance(ran["ok"], dict)
    assert ran["ok"]["status"] == -signal.SIGTERM
    connection.sendall(encode({"id": 3, "call": "signal", "target": 1, "signal": 15}))
    assert receive(connection) == {"id": 3, "error": "no run 1 is running"}
    connection.sendall(encode({"id": 4, "call": "finish", "target": 1}))
    assert receive(connection) == {"id": 4, "error": "no sample 1 is running"}


@pytest.mark.parametrize(
    ("content", "number", "message"),
    [
        (b"no JSON", None, "expected a request in JSON"),
        (b'{"call": "ping"}', None, "expected a request with an id"),
        (b'{"id": 5, "call": "shell"}', 5, "unknown variant `shell`"),
        (b'{"id": 5, "call": "read", "paths": [1]}', 5, "expected a string"),
    ],
)
def test_a_bad_request_is_answered(serving: Serving, content: bytes, number: int | None, message: str) -> None:
    _, connection = serving()
    receive(connection)
    connection.sendall(struct.pack("<I", len(content)) + content)
    answer = receive(connection) or {}
    assert answer["id"] == number
    assert message in str(answer["error"])
    connection.sendall(encode({"id": 6, "call": "ping"}))
    assert receive(connection) == {"id": 6, "ok": {}}


def test_lost_framing_ends_it(serving: Serving) -> None:
    process, connection = serving()
    receive(connection)
    connection.sendall(b"\xff\xff\xff\xff")
    assert "at most" in str((receive(connection) or {})["error"])
    assert receive(connection) is None
    assert process.wait(30) == 1
    assert process.stderr is not None
    output = process.stderr.read().decode()
    assert output == "blklab-agent: a frame of 4294967295 bytes: expected at most 16777216\n"


def test_a_dead_guest_wakes_who_waits(serving: Serving) -> None:
    process, connection = serving()
    with closing(Agent(connection)) as client, ThreadPoolExecutor(2) as pool:
        client.hello(30)
        begun = threading.Barrier(3)

        def run() -> None:
            client.run(["sh", "-c", "echo; exec sleep 2"], stream=lambda *_: begun.wait())

        waiting = [pool.submit(run) for _ in range(2)]
        begun.wait()
        process.kill()
        for each in waiting:
            with pytest.raises(GuestGone, match="the guest closed its connection"):
                each.result()
        assert not client.alive(30)


def test_what_a_program_says_that_is_interrupted(agent: Agent) -> None:
    output = 'trap "echo lost 7 >&2; exit 0" INT; echo there; while :; do sleep 0.05; done'
    with agent.running(["sh", "-c", output]) as exits:
        agent.run(["sleep", "0.5"])  # until the trap is set
    (ran,) = exits
    assert ran.status in {0, -signal.SIGINT}
    with pytest.raises(GuestFailed, match="in the guest: sh: wrong"):  # noqa: SIM117
        with agent.running(["sh", "-c", "echo wrong >&2; exit 3"]):
            agent.run(["sleep", "0.5"])
