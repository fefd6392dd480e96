"""The Ansible role, by Ansible: what it fails for, and what hosts cannot do to the controller."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import blklab
from tests.md.conftest import Arrays
from tests.md.remote.conftest import probe

ROLE = Path(__file__).parents[2] / "packaging" / "ansible"


@pytest.fixture
def play(tmp_path: Path) -> "Play":
    program = shutil.which("ansible-playbook")
    if program is None:
        pytest.skip("ansible-playbook is not installed: apt-get install ansible-core")
    return Play(program, tmp_path)


class Play:
    """The example's playbook, of this machine as `here`, whose probe prints what a file holds."""

    def __init__(self, program: str, directory: Path) -> None:
        self.program, self.directory = program, directory
        self.printed = directory / "here.probe"
        command = directory / "blklab"
        python = Path(blklab.__file__).parents[1]
        command.write_text(
            "#!/bin/sh\n"
            f'[ "$2" = probe ] && exec echo "cat {self.printed}"\n'
            f'PYTHONPATH={python} exec {sys.executable} -m blklab.cli "$@"\n'
        )
        command.chmod(0o755)
        (directory / "inventory.ini").write_text("here ansible_connection=local\n")

    def __call__(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [self.program, "-i", str(self.directory / "inventory.ini"), str(ROLE / "audit.yml"),
             "-e", f"{{blklab_md_audit_command: ['{self.directory}/blklab']}}",
             "-e", "{blklab_md_audit_become: false}", *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
            env={"PATH": os.defpath, "HOME": str(self.directory), "LC_ALL": "C.UTF-8",
                 "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
            cwd=self.directory,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


def test_its_grammar(play: Play) -> None:
    status, output = play("--syntax-check")
    assert status == 0, output


def test_a_host_fails_for_its_findings(play: Play, machine: Arrays) -> None:
    machine.mirror("raid1-12-populated")
    play.printed.write_bytes(probe(machine.root))
    status, output = play("--check")
    assert status == 2, output
    assert "critical md0: DO NOT run `repair` on this array" in output
    assert "blklab md fix entries /dev/md0" in output
    assert "note md0" not in output
    assert "changed=0" in output
    status, output = play("-e", "{blklab_md_audit_fail: false}")
    assert status == 0, output
    assert "critical md0: DO NOT run `repair` on this array" in output


def test_what_a_host_says_is_no_template(play: Play, machine: Arrays) -> None:
    name = 'md_{{ lookup("pipe", "touch ran; echo ran-$((1+1))") }}'
    machine.disk("sda", "8:0", "raid1-12-populated.vda")
    machine.array(name, "9:0", {"sda": {}}, degraded="1")
    play.printed.write_bytes(probe(machine.root))
    status, output = play()
    assert status == 2, output
    assert "touch ran; echo ran-$((1+1))" in output
    assert "ran-2" not in output
    assert not list(play.directory.rglob("ran"))


def test_a_host_that_cannot_be_seen(play: Play) -> None:
    play.printed.write_text("nothing of the kind\n")
    status, output = play()
    assert status == 2, output
    assert "not the output of a probe" in output
