"""Messages about what is new, worse or gone."""

import email
import json
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.md import alerts
from blklab.md.alerts import Alert, changes
from blklab.md.model import Inventory
from tests.conftest import Run

ENTRIES = Diagnostic(
    "bbl-entries", "critical", "md0", "has 1 bad block", ("blklab md audit --map-files",), "sda1",
    ranges=({"member_sector": 8, "sectors": 8, "array_ranges": []},),
)  # fmt: skip
DEGRADED = Diagnostic("degraded", "warning", "md1", "lacks a member", ("mdadm /dev/md1 --add DISK",))


def test_what_is_new_worse_or_gone_is_told_once() -> None:
    assert changes([], [ENTRIES, DEGRADED]) == [Alert("new", ENTRIES), Alert("new", DEGRADED)]
    assert changes([ENTRIES, DEGRADED], [DEGRADED, ENTRIES]) == []
    more = replace(ENTRIES, ranges=(*ENTRIES.ranges, {"member_sector": 64, "sectors": 1, "array_ranges": []}))
    assert changes([ENTRIES], [more]) == [Alert("worse", more)]
    assert changes([more], [ENTRIES]) == []
    worse = replace(DEGRADED, severity="critical")
    assert changes([DEGRADED], [worse]) == [Alert("worse", worse)]
    assert changes([worse], [DEGRADED]) == []
    assert changes([ENTRIES, DEGRADED], [ENTRIES]) == [Alert("gone", DEGRADED)]
    other = replace(ENTRIES, member="sdb1")
    assert changes([ENTRIES], [other]) == [Alert("new", other), Alert("gone", ENTRIES)]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Diagnostic]:
    """What the audit finds, and `unseen` what it could not read."""
    found: list[Diagnostic] = []
    monkeypatch.setattr(alerts, "find_problems", lambda _: found)
    monkeypatch.setattr(alerts, "read_inventory", lambda _: Inventory(arrays=()))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


class Sent:
    """Collects what is sent; fails as long as `broken`."""

    def __init__(self) -> None:
        self.messages: list[Sequence[Alert]] = []
        self.broken = False

    def __call__(self, told: Sequence[Alert]) -> None:
        if self.broken:
            raise BlklabError("mail server is away")
        self.messages.append(told)


def test_a_message_that_was_not_sent_is_sent_later(found: list[Diagnostic], tmp_path: Path) -> None:
    sent, state = Sent(), tmp_path / "state/alerts.json"
    assert alerts.watch(state, [sent]) == []
    assert not state.exists()
    found.append(ENTRIES)
    sent.broken = True
    with pytest.raises(BlklabError, match="away"):
        alerts.watch(state, [sent])
    sent.broken = False
    alerts.watch(state, [sent])
    alerts.watch(state, [sent])
    assert [[alert.change for alert in message] for message in sent.messages] == [["new"]]
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    found.clear()
    alerts.watch(state, [sent])
    assert [(alert.change, alert.title) for alert in sent.messages[-1]] == [("gone", "md0 sda1: gone: has 1 bad block")]
    assert json.loads(state.read_text()) == []


def test_what_was_less_bad_for_a_time_is_told_when_it_is_worse_again(found: list[Diagnostic], tmp_path: Path) -> None:
    sent, state = Sent(), tmp_path / "alerts.json"
    for severity in ("critical", "warning", "critical"):
        found[:] = [replace(DEGRADED, severity=severity)]
        alerts.watch(state, [sent])
    assert [[alert.change for alert in message] for message in sent.messages] == [["new"], ["worse"]]


def test_a_damaged_file_sends_everything_again(found: list[Diagnostic], tmp_path: Path) -> None:
    sent, state = Sent(), tmp_path / "alerts.json"
    found.append(DEGRADED)
    for content in (b"", b"[1]", b'[{"code": "x"}]', b"\xff\x00", b"{}"):
        state.write_bytes(content)
        alerts.watch(state, [sent])
        assert json.loads(state.read_text())[0]["code"] == "degraded"
    assert len(sent.messages) == 5


def test_what_cannot_be_read_is_told_and_nothing_is_gone(
    found: list[Diagnostic], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, state = Sent(), tmp_path / "alerts.json"
    found.append(ENTRIES)
    alerts.watch(state, [sent])
    found.clear()
    dead = Inventory(arrays=(), unseen=("/dev/sda1: Input/output error",))
    monkeypatch.setattr(alerts, "read_inventory", lambda _: dead)
    alerts.watch(state, [sent])
    assert [(alert.change, alert.finding.member) for alert in sent.messages[-1]] == [("new", "/dev/sda1")]
    monkeypatch.setattr(alerts, "read_inventory", lambda _: Inventory(arrays=()))
    alerts.watch(state, [sent])
    assert [alert.change for alert in sent.messages[-1]] == ["gone", "gone"]


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_mail_goes_to_the_mail_server_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "sendmail", f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/mail')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    hostile = replace(DEGRADED, message="lacks\r\nBcc: all@example.org\n\n\x1b[31ma member")
    alerts.mail("root@example.org\nBcc: all@example.org")([Alert("new", DEGRADED)])
    assert email.message_from_bytes((tmp_path / "mail").read_bytes())["Bcc"] is None
    alerts.mail("root@example.org")([Alert("new", hostile), Alert("gone", ENTRIES)])
    mail = email.message_from_bytes((tmp_path / "mail").read_bytes())
    assert (tmp_path / "arguments").read_text() == "-oi -t\n"
    assert mail["To"] == "root@example.org"
    assert mail["Bcc"] is None
    assert "md1: warning, new: lacks" in mail["Subject"]
    assert mail["Subject"].endswith("and 1 more")
    body = str(mail.get_payload())
    assert "mdadm /dev/md1 --add DISK" in body
    assert "md0 sda1: gone: has 1 bad block" in body
    assert "\x1b" not in body


def test_a_program_gets_the_message_without_a_shell(tmp_path: Path) -> None:
    notify = script(tmp_path / "notify", f'printf "%s|" "$@" > {tmp_path}/arguments; cat > {tmp_path}/message')
    alerts.program([str(notify), "$(id)", "a b"])([Alert("new", ENTRIES)])
    assert (tmp_path / "arguments").read_text() == "$(id)|a b|"
    assert "blklab md audit --map-files" in (tmp_path / "message").read_text()
    failing = script(tmp_path / "failing", "echo no route >&2; exit 7")
    with pytest.raises(BlklabError, match="exit status 7: no route: no message was sent"):
        alerts.program([str(failing)])([Alert("new", ENTRIES)])
    with pytest.raises(BlklabError, match="No such file"):
        alerts.program([str(tmp_path / "absent")])([Alert("new", ENTRIES)])


def test_the_command_sends_and_says_what_it_sent(
    run: Run, found: list[Diagnostic], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blklab.system.roots.Roots.state_of_root", tmp_path)
    found.append(ENTRIES)
    notify = script(tmp_path / "notify", f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/message')
    done = run("md", "watch", "--command", notify, "--", "--priority", "high")
    assert (done.status, done.out) == (0, "")
    assert (tmp_path / "arguments").read_text() == "--priority high\n"
    assert "md0 sda1: critical, new: has 1 bad block" in (tmp_path / "message").read_text()
    for words, message in (
        (("--mail", "root", "--listen", ":1"), "remove --listen"),
        (("--journal", "--textfile", "x"), "--textfile"),
        (("high",), "high: unexpected"),
    ):
        done = run("md", "watch", *words)
        assert done.status == 2
        assert message in done.err
    monkeypatch.setattr("os.geteuid", lambda: 1)
    done = run("md", "watch", "--journal")
    assert (done.status, "run it as root" in done.err) == (3, True)
