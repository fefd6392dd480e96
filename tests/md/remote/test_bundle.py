"""`md audit --bundle`: one text with all outputs of a host, which `md audit` reads again."""

import os
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.md.pasted.inventory import read_texts
from blklab.md.remote import bundle
from tests.conftest import Run
from tests.md.conftest import Arrays

TEXTS = Path(__file__).parents[2] / "data/md/text"
LSBLK = 'NAME="sda" SIZE="8T" TYPE="disk" FSTYPE="" MODEL="ST8000" SERIAL="ZA1B2C3D" WWN="0x5000c500a1b2c3d4"\n'
SMART = "Device Model:     ST8000\nSerial Number:    ZA1B2C3D\nLU WWN Device Id: 5 000c50 0a1b2c3d4\n"
LOG = """\
[    2.1] usb 2-1: SerialNumber: ZA1B2C3D
[    3.1] md/raid1:md0: active with 2 out of 2 mirrors
[    4.1] eth0: up
"""


@pytest.fixture
def host(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """A machine with md0 of sda and sdb, and programs that print what mdadm and others print there."""
    machine.mirror("raid1-12-bitmap")
    detail, mdstat = (TEXTS / "raid1-12-bitmap.detail.txt").read_text().split("$ cat /proc/mdstat\n")
    detail = detail.partition("\n")[2].replace("(none)", "secretnas").replace("vd", "sd")
    examine = (TEXTS / "raid1-12-bitmap.examine.txt").read_text().split("$ mdadm --examine ")
    members = [text.partition("\n")[2].replace("/dev/vd", "/dev/sd") for text in examine[1:3]]
    machine.proc("mdstat", mdstat.replace("vd", "sd"))
    programs = machine.root / "programs"
    programs.mkdir()
    nested = members[0].replace("/dev/sda", "/dev/md1")
    for name, text in {"md1": nested, "detail": detail, "sda": members[0], "sdb": members[1]}.items():
        (programs / f"{name}.txt").write_text(text.replace("(none)", "secretnas"))
    scripts = {
        "mdadm": f'cd {programs}; case "$1" in --version) echo mdadm - v4.2;; --detail) cat detail.txt;; '
        '--examine) cat "${2##*/}.txt" 2>/dev/null || echo "mdadm: No md superblock detected on $2.";; esac',
        "lsblk": f"printf '%s' '{LSBLK}'",
        "smartctl": f"printf '%s' '{SMART}'",
        "dmesg": f"printf '%s' '{LOG}'",
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (machine.roots.sys / "class/block/sda/device").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return machine


def test_the_bundle_has_all_outputs_and_is_read_again(host: Arrays) -> None:
    text = bundle.collect(None, sudo=False, timeout=60, root=host.root)
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    assert commands[1:3] == ["$ mdadm --version", f"$ cat {host.root}/proc/mdstat"]
    assert commands[3:5] == ["$ mdadm --detail /dev/md0", "$ mdadm --examine /dev/sda"]
    assert "active with 2 out of 2 mirrors" in text
    assert "eth0" not in text
    inventory = read_texts([("bundle", text)])
    (array,) = inventory.arrays
    assert [member.superblock is not None for member in array.members] == [True, True]
    assert inventory.unseen == ()


def test_an_anonymous_bundle_says_the_same_without_names(host: Arrays) -> None:
    text = bundle.collect(None, sudo=False, timeout=60, root=host.root)
    hidden = bundle.make_anonymous(text)
    for name in ("secretnas", "ZA1B2C3D", "0x5000c500a1b2c3d4", "5 000c50 0a1b2c3d4"):
        assert name in text
        assert name not in hidden
    assert 'SERIAL="serial1"' in hidden
    assert "usb 2-1: SerialNumber: serial1" in hidden
    (array,) = read_texts([("bundle", text)]).arrays
    (other,) = read_texts([("bundle", hidden)]).arrays
    assert (other.uuid, other.degraded, other.label) == (array.uuid, array.degraded, "host1:0")


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("  Disk00 Serial : WD-WCC4E1234567", "WD-WCC4E1234567"),
        ("Namespace 1 IEEE EUI-64:            0025385b11b2a1c3", "0025385b11b2a1c3"),
        ("scsi 3:0:0:0: naa.5001405abcdef012", "5001405abcdef012"),
        ("           Name : nas:payroll  (local to host nas)", "payroll"),
        ('NAME="vg0-payroll" SIZE="8T" TYPE="lvm" FSTYPE="ext4"', "payroll"),
        ("md0: opened by /dev/mapper/payroll_crypt", "payroll"),
        ("[    0.1] Kernel command line: root=/dev/payroll/root", "payroll"),
        ("nfs: server 192.168.7.23 not responding, md0", "192.168.7.23"),
        ("mdadm: mail to admin@acme.example", "acme"),
    ],
)
def test_private_things_are_replaced(line: str, hidden: str) -> None:
    assert hidden in line
    assert hidden not in bundle.make_anonymous(f"{line}\n")


def test_an_output_that_ends_early_is_an_error(host: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = host.root / "cut.sh"
    cut.write_text("echo 'blklab-bundle 1'\necho 'sudo: a password is required' >&2\n")
    monkeypatch.setattr(bundle, "SCRIPT", cut)
    with pytest.raises(BlklabError, match="this host: sudo: a password is required"):
        bundle.collect(None, sudo=False, timeout=60)


def test_the_command(host: Arrays, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = bundle.collect
    monkeypatch.setattr(bundle, "collect", lambda address, **options: collect(address, **options, root=host.root))
    file = tmp_path / "md.txt"
    done = run("md", "audit", "--bundle", file, "--anonymous")
    assert (done.status, "Read it before you send it" in done.err) == (0, True)
    assert "secretnas" not in file.read_text()
    assert run("md", "audit", file).status in {0, 1}
    assert run("md", "audit", "--anonymous").status == 2
    assert run("md", "audit", "--bundle", file, "--array", "md0").status == 2


def test_members_of_nested_arrays_are_examined(host: Arrays) -> None:
    for name in ("md1", "md2"):
        host.write(host.roots.sys / f"class/block/{name}", {"size": "8"})
    text = bundle.collect(None, sudo=False, timeout=60, root=host.root)
    assert "$ mdadm --examine /dev/md1\n/dev/md1:\n" in text
    assert "/dev/md2" not in text  # It has no superblock


def test_over_a_real_ssh(host: Arrays, server: str, run: Run, tmp_path: Path) -> None:
    config = host.root / "openssh/sshd_config"
    assert "ForceCommand" in config.read_text()  # The script runs on the machine made of files
    file = tmp_path / "md.txt"
    done = run("md", "audit", "--host", server, "--bundle", file)
    assert done.status == 0, done.err
    assert f"$ cat {host.root}/proc/mdstat" in file.read_text()
    assert "blklab md audit" in done.err
    unreachable = run("md", "audit", "--host", "nobody.invalid", "--bundle", tmp_path / "other.txt")
    assert (unreachable.status, "nobody.invalid: " in unreachable.err) == (1, True)
    assert not (tmp_path / "other.txt").exists()


def test_a_plain_user_is_told_what_could_not_be_read(
    host: Arrays, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = host.root / "programs"
    (programs / "id").write_text("#!/bin/sh\necho 1000\n")
    denied = 'case "$1" in --examine) echo "mdadm: cannot open $2: Permission denied" >&2;; '
    denied += '--detail) echo "mdadm: must be super-user to perform this action" >&2;; esac'
    (programs / "mdadm").write_text(f"#!/bin/sh\n{denied}\n")
    (programs / "dmesg").write_text("#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2\n")
    (programs / "id").chmod(0o755)
    collect = bundle.collect
    monkeypatch.setattr(bundle, "collect", lambda address, **options: collect(address, **options, root=host.root))
    file = tmp_path / "md.txt"
    done = run("md", "audit", "--bundle", file)
    assert done.status == 0
    assert "not complete, because this user is not root" in done.err
    assert "superblocks of 2 disks (mdadm --examine), 1 array (mdadm --detail), the kernel's log (dmesg)" in done.err
    assert "run it with sudo" in done.err
    shown = run("md", "audit", file).out
    assert (
        "/dev/sda, /dev/sdb: not seen: permission denied: run mdadm as root: sudo mdadm --examine /dev/sda /dev/sdb"
        in (shown)
    )


def test_short_names_of_hosts_are_replaced_where_they_are_words() -> None:
    text = "           Name : pc:0  (local to host pc)\nmail from pc about pcie and pc-disk\n"
    assert bundle.make_anonymous(text) == (
        "           Name : host1:0  (local to host host1)\nmail from host1 about pcie and host1-disk\n"
    )
    kept = "           Name : md:0  (local to host md)\nmd: md0 stopped, sda1 of md\n"
    assert "md: md0 stopped" in bundle.make_anonymous(kept)  # A word of the kernel
