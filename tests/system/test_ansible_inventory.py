"""Ansible's inventories: the hosts are those that Ansible finds."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.ansible_inventory import expand_hosts

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


REPLY = {
    "_meta": {"hostvars": {"a": {"ansible_host": "10.0.0.1", "ansible_port": 2222}, "v6": {"ansible_host": "::1"}}},
    "all": {"children": ["ungrouped", "outer"]},
    "outer": {"children": ["inner"]},
    "inner": {"hosts": ["a", "v6"]},
    "ungrouped": {"hosts": ["b"]},
}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "text"), [("hosts.ini", INI), ("hosts", INI), ("hosts.yml", YAML)])
def test_hosts_and_how_ssh_reaches_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    if shutil.which("ansible-inventory") is None:
        pytest.skip("ansible-inventory is not installed: apt-get install ansible-core")
    monkeypatch.setenv("ANSIBLE_CONFIG", str(written(tmp_path / "ansible.cfg", "")))
    written(tmp_path / name, text)
    assert expand_hosts([f"@{name}"], tmp_path) == EXPECTED
    assert expand_hosts([f"@{name}:web", "other"], tmp_path).keys() == {
        *(f"web0{number}.example.org" for number in (1, 2, 3)),
        "web9",
        "other",
    }


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `ansible-inventory` that prints `REPLY`; a test can replace it."""
    directory = tmp_path / "bin"
    directory.mkdir()
    written(directory / "reply.json", json.dumps(REPLY))
    program = written(directory / "ansible-inventory", f"#!/bin/sh\ncat {directory}/reply.json\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return program


@pytest.mark.usefixtures("ansible")
def test_groups_have_the_hosts_of_their_children(tmp_path: Path) -> None:
    inner = {"a": "ssh://10.0.0.1:2222", "v6": "::1"}
    written(tmp_path / "hosts", "")
    assert expand_hosts(["@hosts"], tmp_path) == {"b": "b", **inner}
    assert expand_hosts(["@hosts:outer"], tmp_path) == inner
    assert expand_hosts([f"@{tmp_path}:inner"], tmp_path / "elsewhere") == inner  # a directory


def test_the_output_of_ansible_needs_no_ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    written(tmp_path / "hosts.json", json.dumps(REPLY))
    assert expand_hosts(["@hosts.json:ungrouped"], tmp_path) == {"b": "b"}
    monkeypatch.setattr("blklab.system.child_process.shutil.which", lambda _name, **_: None)
    written(tmp_path / "hosts", "a\n")
    with pytest.raises(EnvironmentLacks, match="ansible-inventory is not installed; install it: apt-get"):
        expand_hosts(["@hosts"], tmp_path)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("exit 3", "ansible-inventory failed: exit status 3"),
        ("printf 'ERROR! one\ntwo' >&2; exit 1", "ansible-inventory failed: ERROR! one two"),
        ("echo '{}'", "no hosts in group 'all'; it has the groups "),
        ("echo '[1]'", "expected an inventory, or the output of `ansible-inventory --list`"),
        ("echo x", "expected an inventory, or the output of `ansible-inventory --list`"),
        (
            """echo '{"_meta": {"hostvars": {"x": {"ansible_host": "{{y}}"}}}, "all": {"hosts": ["x"]}}'""",
            "host 'x': found the template {{y}}, expected a name",
        ),
        (
            """echo '{"_meta": {"hostvars": {"x": {"ansible_connection": "local"}}}, "all": {"hosts": ["x"]}}'""",
            "found ansible_connection=local, expected ssh",
        ),
        ("""echo '{"_meta": {"hostvars": {}}, "all": {"children": ["all"]}}'""", "expected an inventory"),
    ],
)
def test_other_answers_are_refused_in_one_line(tmp_path: Path, ansible: Path, reply: str, message: str) -> None:
    written(ansible, f"#!/bin/sh\n{reply}\n")
    written(tmp_path / "h", "")
    with pytest.raises(UsageError) as error:
        expand_hosts(["@h"], tmp_path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'h'}: ")
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("ansible")
def test_missing_files_and_groups_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.ini: No such file"):
        expand_hosts(["@nothing.ini"], tmp_path)
    written(tmp_path / "h", "")
    with pytest.raises(UsageError, match="no hosts in group 'x'; it has the groups all, inner, outer, ungrouped"):
        expand_hosts(["@h:x"], tmp_path)


@given(st.text(max_size=200))
def test_any_output_of_ansible_has_hosts_or_one_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "hosts.json"
    path.write_text('{"_meta": ' + text, errors="replace")
    try:
        hosts = expand_hosts([f"@{path}"], path.parent)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert hosts
