"""Ansible's inventories: the hosts are those that Ansible finds."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.ansible_inventory import expanded
from blklab.errors import UsageError

INI = """
; an example
lone ansible_host=10.0.0.9   # alone
[web]
web[01:03].example.org:2222 ansible_user=deploy
web9

[db]
db-[a:c] ansible_host="10.1.0.1"
odd[1:9:4]

[europe:children]
web
db

[europe:vars]
ansible_user = europe
ansible_port=2200

[all:vars]
ansible_user=everyone

[db:vars]
ansible_ssh_user = 'dba'
"""

YAML = """
all:
  hosts:
    lone: {ansible_host: 10.0.0.9}
  vars: {ansible_user: everyone}
  children:
    europe:
      vars: {ansible_user: europe, ansible_port: 2200}
      children:
        web:
          hosts:
            web[01:03].example.org: {ansible_user: deploy, ansible_port: 2222}
            web9:
        db:
          hosts:
            db-[a:c]: {ansible_host: 10.1.0.1}
            odd[1:9:4]:
          vars: {ansible_ssh_user: dba}
"""

EXPECTED = {
    "lone": "everyone@10.0.0.9",
    **{f"web0{number}.example.org": f"ssh://deploy@web0{number}.example.org:2222" for number in (1, 2, 3)},
    "web9": "ssh://europe@web9:2200",
    **{f"db-{letter}": "ssh://dba@10.1.0.1:2200" for letter in "abc"},
    **{f"odd{number}": f"ssh://dba@odd{number}:2200" for number in (1, 5, 9)},
}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def listed(path: Path) -> str:
    """Returns what Ansible reads, without plugins and variables of this machine."""
    if shutil.which("ansible-inventory") is None:
        pytest.skip("ansible-inventory is not installed: apt-get install ansible-core")
    config = written(path.parent / "ansible.cfg", "")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(config), "LC_ALL": "C.UTF-8"}
    command = ["ansible-inventory", "-i", str(path), "--list"]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.parametrize(("name", "text"), [("hosts.ini", INI), ("hosts", INI), ("hosts.yml", YAML)])
def test_hosts_and_how_ssh_reaches_them(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path / name, text)
    assert expanded([f"@{name}"], tmp_path) == EXPECTED
    assert expanded([f"@{name}:web", "other"], tmp_path).keys() == {
        *(f"web0{number}.example.org" for number in (1, 2, 3)),
        "web9",
        "other",
    }


@pytest.mark.parametrize(("name", "text"), [("hosts.ini", INI), ("hosts.yml", YAML)])
def test_ansible_finds_the_same(tmp_path: Path, name: str, text: str) -> None:
    theirs = written(tmp_path / "list.json", listed(written(tmp_path / name, text)))
    assert expanded([f"@{theirs}"], tmp_path) == expanded([f"@{name}"], tmp_path)
    for group in json.loads(theirs.read_text()):
        if group not in {"_meta", "ungrouped"}:
            ours = expanded([f"@{name}:{group}"], tmp_path)
            assert ours == expanded([f"@{theirs}:{group}"], tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("h.yml", "plugin: aws_ec2\n", "a plugin asks for the hosts: run `ansible-inventory -i h.yml --list > "),
        ("h", "#!/usr/bin/env python3\n", "a program (or executable), expected a file of hosts: run"),
        ("h", "a ansible_host={{x}}\n", "found the template '{{x}}'"),
        ("h", "localhost ansible_connection=local\n", "found ansible_connection=local, expected ssh"),
        ("h", "[a:children]\nb\n[b:children]\na\n[c]\nx\n", "contains itself"),
        ("h", "[a:hosts]\n", "group 'all' has no hosts"),
        ("h", "[a:b]\nx\n", "line 2: found [a:b], expected children or vars"),
        ("h", "a b\n", "line 1: found 'b', expected KEY=VALUE"),
        ("h", "a[01:100]\n", "expected the same number of digits"),
        ("h", "a[1:99999999]\n", "more than 10,000 hosts"),
        ("h.yml", "all: [1]\n", "all: found [1], expected groups with hosts, vars and children"),
        ("h.yml", "all: {hosts: !vault x}\n", "cannot be read: "),
        ("h.yml", "[1]\n", "expected groups with hosts"),
        ("h", "a 'b\n", "line 1: No closing quotation"),
        ("h", "", "has no hosts"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    written(tmp_path / name, text)
    with pytest.raises(UsageError) as error:
        expanded([f"@{name}"], tmp_path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(error.value)


def test_missing_files_and_groups_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.ini: No such file"):
        expanded(["@nothing.ini"], tmp_path)
    written(tmp_path / "h", "a\n[g]\nb\n")
    with pytest.raises(UsageError, match="there is no group 'x'; it has g, ungrouped"):
        expanded(["@h:x"], tmp_path)
    (tmp_path / "directory").mkdir()
    with pytest.raises(UsageError, match="a directory, expected a file"):
        expanded(["@directory"], tmp_path)
    executable = written(tmp_path / "executable", "a\n")
    executable.chmod(0o755)
    with pytest.raises(UsageError, match="a program"):
        expanded(["@executable"], tmp_path)


@given(st.text(max_size=200), st.sampled_from(["h", "h.yml", "h.json"]))
def test_any_text_has_hosts_or_one_error(tmp_path_factory: pytest.TempPathFactory, text: str, name: str) -> None:
    path = tmp_path_factory.mktemp("any") / name
    path.write_text(text, errors="replace")
    try:
        hosts = expanded([f"@{path}"], path.parent)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert hosts
