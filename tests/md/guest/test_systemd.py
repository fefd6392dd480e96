"""`blklab md fix` next to systemd, udev and mdadm's monitor, as Debian ships them."""

import json
import os
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks
from blklab.runners.lab.agent import ProgramExit
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import debian, payload
from tests.md.guest.rig import SystemRig
from tests.md.guest.test_power import background

EVERY = os.environ.get("BLKLAB_PROOF") == "every"

pytestmark = pytest.mark.guest

every = pytest.mark.skipif(not EVERY, reason="BLKLAB_PROOF=every has it")

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(6)]

CONFIG = "/etc/mdadm/mdadm.conf"
SHIPPED = "HOMEHOST <system>\nMAILADDR root\n"


@pytest.fixture(scope="module")
def machine(guest_image: GuestImage, python: Path) -> Iterator[SystemRig]:
    try:
        debian.make(guest_image)
    except EnvironmentLacks as error:
        pytest.skip(f"Debian's packages cannot be downloaded: {error}")
    with SystemRig(guest_image, python, SHAPES, memory=768 << 20) as booted:
        yield booted


@pytest.fixture
def disks(machine: SystemRig) -> Iterator[list[str]]:
    """Disks without anything on them, and mdadm.conf as Debian ships it."""
    result = machine.names(SHAPES)
    configure(machine)
    yield result
    machine.run("systemctl", "stop", "mdmonitor", check=False)
    machine.run("swapoff", "--all")
    machine.run("mdadm", "--stop", "--scan", check=False)
    machine.settle()
    machine.run("mdadm", "--zero-superblock", *machine.names(SHAPES), check=False)
    machine.settle()
    machine.run("sh", "-c", "rm -f /var/lib/blklab/md-fix-*")


def configure(machine: SystemRig, *lines: str) -> None:
    """Writes mdadm.conf."""
    machine.guest.agent.write(CONFIG, SHIPPED + "".join(f"{line}\n" for line in lines))


def start_monitor(machine: SystemRig) -> None:
    # The kernel tells its start in whole seconds: a file that is not clearly older counts as changed since.
    machine.run("sleep", "2")
    machine.run("systemctl", "restart", "mdmonitor")


def degraded(machine: SystemRig) -> str:
    return machine.read("/sys/block/md0/md/degraded")


def words(output: ProgramExit) -> str:
    return " ".join((output.stdout + output.stderr).split())


def commands(output: ProgramExit) -> list[list[str]]:
    """Returns the commands that are printed after a stop."""
    lines = [line.strip() for line in output.stdout.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("# "))
    return [shlex.split(line) for line in lines[at:] if line and not line.startswith("#")]


def follow(machine: SystemRig, output: ProgramExit) -> ProgramExit:
    """Runs the printed commands, the last of which is blklab, with md at full speed; returns its end."""
    *before, last = commands(output)
    machine.guest.agent.write("/sys/block/md0/md/sync_speed_max", "system")
    for command in before:
        # A person is slower: md may not have begun what --wait waits for.
        idle = "sleep 1; until [ $(cat /sys/block/md0/md/sync_action) = idle ]; do sleep 0.5; done"
        machine.run(*(["sh", "-c", idle] if "--wait" in command else command))
        machine.settle()
    asked = {"bbl", "replace", "restart"}.intersection(last)
    return machine.run(*last, *(["--yes"] if asked else []), check=False)


def mirrors(machine: SystemRig, disks: list[str]) -> None:
    """Makes md0, and md1 with a spare."""
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    machine.create("/dev/md1", disks[2:4], "--level=1", "--bitmap=internal")
    machine.run("mdadm", "/dev/md1", "--add", disks[4])
    machine.settle()


def test_mirror_with_the_monitor_as_shipped(machine: SystemRig, disks: list[str]) -> None:
    mirrors(machine, disks)
    start_monitor(machine)
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 0, output.stderr
    assert "leave its cgroup" not in words(output)
    assert machine.lists(disks[:2]) == ["none"] * 2
    assert degraded(machine) == "0"
    # A domain is enough to move a spare: it is refused, with the command that stops the monitor.
    configure(machine, "POLICY domain=d1", "POLICY action=re-add")
    start_monitor(machine)
    machine.run("mdadm", "--zero-superblock", disks[5], check=False)
    output = machine.blklab("md", "fix", "bbl", "/dev/md1", "--yes")
    assert output.status == 1
    assert "action=re-add: udev would re-add" in words(output)
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--plan")
    assert "move the spare of md1 into it" in words(output)
    assert "systemctl stop mdmonitor.service" in words(output)


@every
def test_spare_that_the_monitor_moves_is_named_and_leaves_again(machine: SystemRig, disks: list[str]) -> None:
    mirrors(machine, disks)
    configure(machine, "POLICY domain=d1")
    machine.run("systemctl", "stop", "mdmonitor")
    machine.guest.agent.write("/sys/block/md0/md/sync_speed_max", "10")
    came = f"systemctl start mdmonitor; until [ -e /sys/block/md0/md/dev-{disks[4][5:]} ]; do sleep 0.1; done"
    hurt = payload.command("inside.hurt")
    output = machine.run(*hurt, f"--remove {disks[0]}", "/dev/md0", "command", came, check=False)
    assert output.status == 1
    assert f"{disks[4]} is now in the slot of {disks[0]}" in words(output)
    machine.run("systemctl", "stop", "mdmonitor")
    audit = machine.blklab("md", "audit", "--json")
    (finding,) = [item for item in json.loads(audit.stdout)["findings"] if item["rule"] == "repair-unfinished"]
    assert finding["remedy"][1:] == ["mdadm --wait /dev/md0", "blklab md fix --resume"]
    output = follow(machine, output)  # md rebuilds the spare
    give_slot_back(machine, output, disks)


def give_slot_back(machine: SystemRig, output: ProgramExit, disks: list[str]) -> None:
    """The spare is in sync: the member replaces it, and the lists are removed."""
    assert output.status == 1
    assert commands(output) == [["blklab", "md", "fix", "replace", "/dev/md0", disks[4], disks[0]]]
    output = follow(machine, output)
    assert output.status == 0, output.stderr
    machine.settle()
    assert degraded(machine) == "0"
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 0, output.stdout + output.stderr
    assert machine.lists(disks[:2]) == ["none"] * 2


@every
def test_member_that_lost_its_slot_gets_it_again_without_loss_of_redundancy(
    machine: SystemRig, disks: list[str]
) -> None:
    mirrors(machine, disks)
    configure(machine, "POLICY domain=d1", "CREATE bbl=no")
    # udev has started it with the first array, and mdadm.conf has changed since: blklab would refuse.
    machine.run("systemctl", "stop", "mdmonitor")
    came = "systemctl start mdmonitor; until [ $(cat /sys/block/md0/md/degraded) = 0 ]; do sleep 0.1; done"
    hurt = payload.command("inside.hurt")
    output = machine.run(*hurt, f"--remove {disks[0]}", "/dev/md0", "command", came, check=False)
    machine.run("systemctl", "stop", "mdmonitor")
    machine.settle()
    give_slot_back(machine, output, disks)


@every
def test_check_that_begins_while_a_member_is_out_is_stopped(machine: SystemRig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=1", "--bitmap=internal")
    machine.guest.agent.write("/sys/block/md0/md/sync_speed_max", "10")
    check = "echo check > /sys/block/md0/md/sync_action"
    hurt = payload.command("inside.hurt")
    output = machine.run(*hurt, f"--re-add {disks[0]}", "/dev/md0", "command", check, check=False)
    assert output.status == 0, output.stderr
    assert "mdadm --action=idle /dev/md0" in output.stdout
    assert machine.lists(disks[:3]) == ["none"] * 3


@every
def test_second_repair_at_the_same_time_is_refused(machine: SystemRig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    second = "blklab md fix bbl /dev/md0 --yes; blklab md fix --resume"
    hurt = payload.command("inside.hurt")
    output = machine.run(*hurt, f"--remove {disks[0]}", "/dev/md0", "command", second, check=False)
    assert output.status == 0, output.stderr
    assert "an earlier repair is not finished" in output.stderr
    assert "another blklab process is repairing it" in output.stderr
    assert machine.lists(disks[:2]) == ["none"] * 2


LEVELS = [(["--level=6", "--chunk=64"], 5), (["--level=5", "--chunk=64", "--data-offset=variable"], 3)]
"""Options, and members; `variable`: their data begin at different offsets."""


@every
@pytest.mark.parametrize(("options", "members"), LEVELS)
def test_levels_under_a_load_that_verifies(
    machine: SystemRig, disks: list[str], options: list[str], members: int
) -> None:
    offsets = [f":{at + 1}M" if "--data-offset=variable" in options else "" for at in range(members)]
    named = [f"{disk}{offset}" for disk, offset in zip(disks, offsets, strict=False)]
    machine.create("/dev/md0", named, *options, "--bitmap=none")
    fio = [
        "fio", "--name=load", "--filename=/dev/md0", "--direct=1", "--ioengine=libaio", "--iodepth=2", "--rw=randwrite",
        "--bs=4k", "--size=8m", "--rate_iops=100", "--number_ios=2000", "--verify=crc32c", "--verify_fatal=1",
        "--verify_backlog=32",
    ]  # fmt: skip
    with machine.guest.agent.running(fio) as exits:
        output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--yes")
    assert output.status == 0, output.stderr
    (load,) = exits
    assert "verify" not in load.stderr
    assert machine.lists(disks[:members]) == ["none"] * members
    assert degraded(machine) == "0"


@every
def test_swap_and_a_bitmap_in_a_file_are_refused(machine: SystemRig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    machine.run("mkswap", "/dev/md0")
    machine.run("swapon", "/dev/md0")
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--plan")
    assert (output.status, "swapoff /dev/md0" in words(output)) == (1, True)
    machine.run("swapoff", "/dev/md0")
    machine.run("mdadm", "--grow", "--bitmap=none", "/dev/md0")
    machine.run("mdadm", "--grow", "--bitmap=/var/lib/bitmap", "--force", "/dev/md0")
    output = machine.blklab("md", "fix", "bbl", "/dev/md0", "--plan")
    assert (output.status, "its bitmap is in a file" in words(output)) == (1, True)


@every
def test_blklab_that_stands_still_for_a_minute_under_load(machine: SystemRig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=internal")
    # Writes resume after ten seconds, and md has to bring the member up to date later.
    load = "fio --name=l --filename=/dev/md0 --direct=1 --rw=randwrite --bs=4k --size=8m --number_ios=300"
    still = f"(sleep 60; kill -CONT $PPID) & {load} >&2; kill -STOP $PPID"
    hurt = payload.command("inside.hurt")
    output = machine.run(*hurt, f"--re-add {disks[0]}", "/dev/md0", "command", still, check=False)
    assert output.status == 0, output.stderr
    assert machine.lists(disks[:3]) == ["none"] * 3
    machine.guest.agent.write("/sys/block/md0/md/sync_action", "check")
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    assert machine.read("/sys/block/md0/md/mismatch_cnt") == "0"


@every
def test_units_of_the_exporter_are_started_scraped_restarted_and_stopped(machine: SystemRig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    for path in (Path(__file__).parents[3] / "packaging/systemd").iterdir():
        machine.guest.agent.write(f"/etc/systemd/system/{path.name}", path.read_text())
    machine.run("systemctl", "daemon-reload")
    for verb in ("start", "restart"):
        machine.run("systemctl", verb, "blklab-md-watch")
        metrics = machine.run(*payload.command("inside.scrape")).stdout
        assert re.search(r'^blklab_md_array_degraded_disks\{[^}]*array="md0"', metrics, re.M)
    machine.run("systemctl", "stop", "blklab-md-watch")
    result = machine.run("systemctl", "show", "-p", "Result,ActiveState", "blklab-md-watch").stdout
    assert sorted(result.split()) == ["ActiveState=inactive", "Result=success"]
    machine.run("mkdir", "-p", "/var/lib/prometheus/node-exporter")
    # Its first time, a minute after the start of the machine, has passed.
    machine.run("systemctl", "start", "blklab-md-textfile.timer")
    written = "/var/lib/prometheus/node-exporter/blklab_md.prom"
    machine.run("sh", "-c", f"until [ -e {written} ]; do sleep 0.5; done")
    assert 'array="md0"' in machine.read(written)
    machine.run("systemctl", "stop", "blklab-md-textfile.timer")
    assert "blklab" not in machine.run("systemctl", "--failed", "--plain").stdout


@every
def test_the_unit_of_alerts_tells_the_journal_and_mails_once(machine: SystemRig, disks: list[str]) -> None:
    machine.create("/dev/md0", disks[:2], "--level=1", "--bitmap=internal")
    for name in ("blklab-md-alerts.service", "blklab-md-alerts.timer"):
        text = (Path(__file__).parents[3] / "packaging/systemd" / name).read_text()
        machine.guest.agent.write(f"/etc/systemd/system/{name}", text)
    machine.guest.agent.write("/etc/default/blklab-md-alerts", 'ARGS="--mail root"\n')
    machine.guest.agent.write("/usr/sbin/sendmail", "#!/bin/sh\ncat >> /var/mail/root\n")
    machine.run("chmod", "755", "/usr/sbin/sendmail")
    machine.run("sh", "-c", "mkdir -p /var/mail; rm -f /var/mail/root /var/lib/blklab/md-alerts.json")
    machine.run("systemctl", "daemon-reload")

    def told() -> tuple[str, str]:
        machine.run("systemctl", "start", "blklab-md-alerts")
        machine.run("journalctl", "--sync")
        journal = machine.run("journalctl", "--boot", "--identifier=blklab", "--output=cat").stdout
        return journal, machine.run("sh", "-c", "cat /var/mail/root 2>/dev/null || true").stdout

    told()
    machine.run("mdadm", "/dev/md0", "--fail", disks[0])
    (journal, mail), again = told(), told()
    assert again == (journal, mail)
    assert len(re.findall(r"^md0: critical, new: 1 of 2 members is missing", journal, re.M)) == 1, journal
    assert "To: root" in mail
    assert "blklab md fix add /dev/md0 DISK" in mail
    machine.run("mdadm", "/dev/md0", "--remove", disks[0])
    machine.run("mdadm", "/dev/md0", "--re-add", disks[0])
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    journal, mail = told()
    assert re.search(r"^md0: gone: 1 of 2 members is missing", journal, re.M), journal
    assert "gone: " in mail


@every
@pytest.mark.parametrize(
    "words", ["--grow --bitmap=internal", "--fail", "--remove", "--re-add", "--grow --bitmap=none"]
)
def test_power_fails_and_udev_assembles_the_arrays(machine: SystemRig, disks: list[str], words: str) -> None:
    machine.create("/dev/md0", disks[:3], "--level=5", "--chunk=64", "--bitmap=none")
    # The guest is slow: as long as it stands still here, nothing may be written.
    still = "echo STILL; sleep 3600"
    hurt = [*payload.command("inside.hurt"), words, "/dev/md0", "command", still]
    stood = threading.Event()
    background(machine, hurt, stream=lambda _, text: stood.set() if "STILL" in text else None)
    assert stood.wait(300)
    machine.cut()
    machine.power()
    # Without all members, mdadm-last-resort@.timer starts it after half a minute.
    machine.run("sh", "-c", "until grep -q 'active raid5' /proc/mdstat; do sleep 0.5; done")
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, (output.stdout, output.stderr, machine.read("/proc/mdstat"))
    disks[:] = machine.names(SHAPES)
    assert machine.lists(disks[:3]) == ["none"] * 3
