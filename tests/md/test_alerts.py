"""Messages about what is new, worse or gone."""

import email
import email.policy
import json
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.md import alerts
from blklab.md.alerts import Alert, changes
from blklab.md.model import Array, Inventory, ListedArray
from blklab.text.printing import printable
from tests.conftest import Run

ENTRIES = Diagnostic(
    "bbl-entries", "critical", "md0", "has 1 bad block", ("blklab md audit --map-files",), "sda1",
    ranges=({"member_sector": 8, "sectors": 8, "array_ranges": []},),
)  # fmt: skip
DEGRADED = Diagnostic("degraded", "warning", "md1", "lacks a member", ("mdadm /dev/md1 --add DISK",))


UUID = "3156a3e6:4a433ea3:f425167f:2e6739fd"


def make_array(name: str, uuid: str = UUID, **facts: Any) -> Array:
    known: dict[str, Any] = {"state": "clean", "degraded": 0, "members": (), **facts}
    return Array(
        name, f"/dev/{name}", uuid, level="raid1", layout=0, chunk=0, raid_disks=2, metadata="1.2", live=True, **known
    )


MD0, MD1 = make_array("md0"), make_array("md1", "99999999:4a433ea3:f425167f:2e6739fd")


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
    monkeypatch.setattr(alerts, "read_inventory", lambda _: Inventory(arrays=(MD0, MD1)))
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
    assert json.loads(state.read_text())["findings"] == []


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
        assert json.loads(state.read_text())["findings"][0]["code"] == "degraded"
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
    monkeypatch.setattr(alerts, "read_inventory", lambda _: Inventory(arrays=(MD0, MD1)))
    alerts.watch(state, [sent])
    assert [alert.change for alert in sent.messages[-1]] == ["gone", "gone"]


class Host:
    """A host whose arrays and findings a test changes between calls of `md watch`."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = state
        self.inventory = Inventory(arrays=(MD0,))
        self.found: list[Diagnostic] = []
        self.now = 1709294400.0  # 2024-03-01 12:00
        monkeypatch.setattr(alerts, "find_problems", lambda _: list(self.found))
        monkeypatch.setattr(alerts, "read_inventory", lambda _: self.inventory)
        monkeypatch.setattr("os.geteuid", lambda: 0)

    def watch(self) -> list[tuple[str, str, str]]:
        """Returns what was sent: the change, the code and the subject."""
        told = alerts.watch(self.state, [], lambda: self.now)
        return [(alert.change, alert.finding.code, alert.finding.subject) for alert in told]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path / "alerts.json", monkeypatch)


def test_an_array_that_was_seen_and_is_not_there_is_critical(host: Host) -> None:
    host.inventory = Inventory(arrays=(replace(MD0, degraded=1),))
    host.found = [replace(DEGRADED, subject="md0")]
    assert host.watch() == [("new", "degraded", "md0")]
    host.found = []
    host.inventory = Inventory(arrays=())
    (alert,) = alerts.watch(host.state, [])
    assert (alert.change, alert.finding.code, alert.finding.severity) == ("new", "absent", "critical")
    assert alert.title.startswith("md0: critical, new: was seen on 2024-03-01 12:00 UTC (clean, degraded) and is not")
    assert UUID in alert.lines[1]
    # It is told once, and what was wrong with the array is not gone.
    assert host.watch() == []
    host.inventory = Inventory(arrays=(MD0,))
    assert sorted(host.watch()) == [("gone", "absent", "md0"), ("gone", "degraded", "md0")]
    assert host.watch() == []


def test_an_array_that_comes_back_under_another_name_is_there(host: Host) -> None:
    assert host.watch() == []
    host.inventory = Inventory(arrays=())
    assert host.watch() == [("new", "absent", "md0")]
    host.inventory = Inventory(arrays=(make_array("md127"),))
    assert host.watch() == [("gone", "absent", "md0")]


def test_the_finding_of_the_audit_about_it_gets_worse(host: Host) -> None:
    host.watch()
    parts = replace(make_array("host:0"), live=False)
    host.inventory = Inventory(arrays=(), unassembled=(parts,))
    host.found = [Diagnostic("not-assembled", "warning", "host:0", "is not assembled", ("# look",))]
    (alert,) = alerts.watch(host.state, [])
    assert (alert.finding.code, alert.finding.severity, alert.finding.subject) == ("absent", "critical", "md0")
    assert alert.finding.message.endswith("(clean), and now is not assembled")
    host.found = []
    host.inventory = Inventory(arrays=(MD0,))
    assert host.watch() == [("gone", "absent", "md0")]


def test_a_retired_array_is_forgotten(host: Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host.watch()
    host.inventory = Inventory(arrays=())
    assert host.watch() == [("new", "absent", "md0")]
    host.inventory = Inventory(arrays=(), listed=(ListedArray("<ignore>", UUID),))
    assert host.watch() == []
    host.inventory = Inventory(arrays=())
    monkeypatch.setattr("blklab.system.roots.Roots.state_of_root", host.state.parent)
    host.state.rename(host.state.parent / "md-alerts.json")
    host.state = host.state.parent / "md-alerts.json"
    done = run("md", "watch", "--forget", "99999999:4a433ea3:f425167f:2e6739fd")
    assert (done.status, f"expected {UUID} (md0)" in done.err) == (2, True)
    done = run("md", "watch", "--forget", UUID.replace(":", "").upper())
    assert (done.status, "md0: forgotten" in done.out) == (0, True)
    assert host.watch() == []
    assert run("md", "watch", "--forget", UUID, "--journal").status == 2


def test_nothing_is_gone_from_an_array_that_was_not_wholly_read(host: Host) -> None:
    host.found = [replace(ENTRIES, member="sda1")]
    host.watch()
    host.found = []
    host.inventory = Inventory(arrays=(replace(MD0, unseen=("/dev/sda1: not seen: input/output error",)),))
    assert host.watch() == []
    host.inventory = Inventory(arrays=(MD0,))
    assert host.watch() == [("gone", "bbl-entries", "md0")]


def test_a_host_that_cannot_be_read_has_no_absent_array(host: Host) -> None:
    host.watch()
    host.inventory = Inventory(arrays=(), unseen=("/sys/block does not exist: cannot read any array",))
    assert host.watch() == [("new", "unseen", "")]


def test_the_state_has_facts_and_an_old_one_is_read(host: Host) -> None:
    old = {"code": "degraded", "severity": "warning", "subject": "md0", "message": "lacks a member"}
    more = {"remedy": ["mdadm /dev/md0 --add /dev/sdx"], "member": "", "ranges": [], "runs": [], "weight": 0.0}
    host.state.write_text(json.dumps([{**old, **more}]))
    host.found = [replace(DEGRADED, subject="md0")]
    assert host.watch() == []
    assert "mdadm" not in host.state.read_text()
    document = json.loads(host.state.read_text())
    assert document["arrays"] == [{"uuid": UUID, "name": "md0", "seen": 1709294400, "state": "clean"}]
    assert [finding["code"] for finding in document["findings"]] == ["degraded"]


def test_arrays_are_remembered_even_if_the_message_was_not_sent(host: Host) -> None:
    sent = Sent()
    sent.broken = True
    host.found = [DEGRADED]
    with pytest.raises(BlklabError, match="away"):
        alerts.watch(host.state, [sent])
    host.found = []
    host.inventory = Inventory(arrays=())
    assert host.watch() == [("new", "absent", "md0")]


@pytest.mark.parametrize("name", ["web1\nBcc: all@example.org", "web\udcff", "web\r\n\r\nbody", "wéb"])
def test_a_host_name_does_not_break_the_mail(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "sendmail", f"cat > {tmp_path}/mail")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("platform.node", lambda: name)
    alerts.mail("root@example.org")([Alert("new", DEGRADED)])
    mail = email.message_from_bytes((tmp_path / "mail").read_bytes(), policy=email.policy.default)
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith(printable(name)[:3])
    assert "mdadm /dev/md1 --add DISK" in mail.get_content()


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
