"""Hosts of Ansible's inventories, as `ansible-inventory --list` finds them: files, directories, programs and plugins.

Its JSON can be named as well, where Ansible is not installed.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.system import child_process
from blklab.text.user_file import read_user_file

SSH = frozenset({"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh"})
STRICT = {"ANSIBLE_INVENTORY_UNPARSED_FAILED": "1", "ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_NOCOLOR": "1"}
LARGEST = 64 << 20  # Bytes of an inventory
_LIST = re.compile(r'\s*\{.*"_meta"', re.S)  # Begins the output of `ansible-inventory --list`


class _Group(TypedDict, total=False):
    """A group in the output of `ansible-inventory --list`."""

    hosts: list[str]
    children: list[str]
    hostvars: dict[str, dict[str, object]]  # In `_meta`: the variables of each host


def expand_hosts(names: list[str], directory: Path) -> dict[str, str]:
    """Returns what ssh calls each host, by name: `@FILE` and `@FILE:GROUP` are the hosts of inventories.

    Files are relative to `directory`. Raises UsageError, and EnvironmentLacks without Ansible.
    """
    hosts: dict[str, str] = {}
    for name in names:
        hosts |= _read_hosts(name[1:], directory) if name.startswith("@") else {name: name}
    return hosts


def _read_hosts(text: str, directory: Path) -> dict[str, str]:
    path = directory / Path(text).expanduser()
    group = "all"
    if not path.exists() and ":" in text:
        file, _, group = text.rpartition(":")
        path = directory / Path(file).expanduser()
    try:
        inventory = _read(path)
        names = dict.fromkeys(_members(inventory, group))
        if not names:
            group_names = ", ".join(sorted(inventory.keys() - {"_meta"}))
            raise BlklabError(f"no hosts in group {group!r}; it has the groups {group_names}")
        return {name: _address(name, inventory["_meta"]["hostvars"].get(name, {})) for name in names}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: expected an inventory of Ansible") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise UsageError(f"{path}: expected an inventory, or the output of `ansible-inventory --list`") from None
    except EnvironmentLacks:
        raise
    except BlklabError as error:
        raise UsageError(f"{path}: {error}") from None


def _read(path: Path) -> dict[str, _Group]:
    """Returns the JSON of `ansible-inventory --list`, which the file may be."""
    path.stat()  # Raises OSError if there is none
    if not path.is_dir() and _LIST.match(text := read_user_file(path, LARGEST).decode(errors="replace")):
        return dict(json.loads(text))
    program = child_process.find("ansible-inventory", "ansible-core")
    command = child_process.command([program, "-i", str(path.absolute()), "--list"])
    result = child_process.run(command, env={**os.environ, **STRICT})
    if result.returncode:
        message = " ".join(result.stderr.split()) or f"exit status {result.returncode}"
        raise BlklabError(f"ansible-inventory failed: {message[:300]}")
    return dict(json.loads(result.stdout))


def _members(inventory: Mapping[str, _Group], group: str) -> Iterator[str]:
    """Yields the hosts of a group and of its children."""
    table = inventory.get(group, {})
    yield from table.get("hosts", ())
    for child in table.get("children", ()):
        yield from _members(inventory, child)


def _address(host: str, variables: Mapping[str, object]) -> str:
    """Returns what ssh calls a host. `ansible_ssh_*` are former names, which win (Ansible's plugin ssh)."""

    def value(key: str) -> object:
        return variables.get(f"ansible_ssh_{key}", variables.get(f"ansible_{key}"))

    if (connection := value("connection") or "ssh") not in SSH:
        raise BlklabError(f"host {host!r}: found ansible_connection={connection}, expected ssh: name another group")
    user = f"{value('user')}@" if value("user") else ""
    address = str(value("host") or host)
    if "{{" in user + address:
        raise BlklabError(f"host {host!r}: found the template {user}{address}, expected a name")
    if not value("port"):
        return user + address
    if ":" in address:  # IPv6
        address = f"[{address}]"
    return f"ssh://{user}{address}:{value('port')}"
