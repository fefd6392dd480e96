"""Hosts of Ansible's inventories: files in INI or YAML, and the JSON of `ansible-inventory --list`.

Only what tells how to reach a host is read: groups, children, ranges, and the variables in `REACHES`, with Ansible's
precedence ("How variables are merged", Ansible's "Building an inventory"). Directories `group_vars` and `host_vars`,
templates and programs are not: `ansible-inventory --list` reads these.
"""

import ast
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, UsageError

REACHES = frozenset(f"ansible_{key}" for key in ("host", "user", "port", "connection")) | frozenset(
    f"ansible_ssh_{key}" for key in ("host", "user", "port")
)
"""Variables. `ansible_ssh_*` are their former names, which win (documentation of Ansible's plugin ssh)."""

SSH = frozenset({"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh"})
MOST = 10_000  # Hosts of a file
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_RANGE = re.compile(r"\[(?:(\d*):(\d+)|([A-Za-z]):([A-Za-z]))(?::(\d+))?\]", re.A)


@dataclass
class _Group:
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class _Inventory:
    groups: dict[str, _Group] = field(default_factory=dict)
    variables: dict[str, dict[str, str]] = field(default_factory=dict)  # Of hosts

    def group(self, name: str) -> _Group:
        return self.groups.setdefault(name, _Group())

    def add(self, group: str, pattern: str, variables: Mapping[str, object]) -> None:
        """Adds the hosts of a pattern, `web[01:10]:2222`, to a group."""
        bare = _RANGE.sub("", pattern)
        port = re.fullmatch(r"(.+):(\d+)", pattern) if bare.count(":") == 1 or "]:" in bare else None
        for written in _expanded(port[1] if port else pattern):
            name = written.removeprefix("[").removesuffix("]")
            self.group(group).hosts[name] = None
            own = self.variables.setdefault(name, {})
            own.update({**({"ansible_port": port[2]} if port else {}), **_reaching(variables)})
            if len(self.variables) > MOST:
                raise BlklabError(f"more than {MOST:,} hosts")

    def members(self, group: str, path: tuple[str, ...] = ()) -> Iterator[str]:
        """Yields the hosts of a group and of its children."""
        if group in path:
            raise BlklabError(f"group {group!r} contains itself")
        yield from self.group(group).hosts
        for child in list(self.group(group).children):
            yield from self.members(child, (*path, group))

    def addresses(self, hosts: Iterable[str]) -> dict[str, str]:
        """Returns what ssh calls each host."""
        within = {name: set(self.members(name)) for name in self.groups}
        # `all` first, then parents before their children, groups of the same depth by name.
        ranked = sorted(self.groups, key=lambda name: (name != "all", self._depth(name), name))
        result = {}
        for host in hosts:
            known: dict[str, str] = {}
            for name in ranked:
                if name == "all" or host in within[name]:
                    known |= self.groups[name].variables
            result[host] = _address(host, known | self.variables.get(host, {}))
        return result

    def _depth(self, group: str) -> int:
        parents = [name for name, each in self.groups.items() if group in each.children]
        return 1 + max(map(self._depth, parents), default=0)


def _address(host: str, known: Mapping[str, str]) -> str:
    def value(key: str) -> str | None:
        return known.get(f"ansible_ssh_{key}", known.get(f"ansible_{key}"))

    if (connection := value("connection") or "ssh") not in SSH:
        raise BlklabError(f"host {host!r}: found ansible_connection={connection}, expected ssh: name another group")
    if template := next((text for text in known.values() if "{{" in text), None):
        raise BlklabError(f"host {host!r}: found the template {template!r}: {_remedy('FILE')}")
    user, where = f"{value('user')}@" if value("user") else "", value("host") or host
    if not value("port"):
        return user + where
    return f"ssh://{user}{f'[{where}]' if ':' in where else where}:{value('port')}"


def expanded(names: list[str], directory: Path) -> dict[str, str]:
    """Returns what ssh calls each host, by name: `@FILE` and `@FILE:GROUP` are the hosts of inventories.

    Files are relative to `directory`. Raises UsageError.
    """
    hosts: dict[str, str] = {}
    for name in names:
        hosts |= _hosts(name[1:], directory) if name.startswith("@") else {name: name}
    return hosts


def _hosts(text: str, directory: Path) -> dict[str, str]:
    path, group = directory / Path(text).expanduser(), "all"
    if not path.exists() and ":" in text:
        file, _, group = text.rpartition(":")
        path = directory / Path(file).expanduser()
    try:
        inventory = _read(path)
        if group != "all" and group not in inventory.groups:
            raise BlklabError(f"there is no group {group!r}; it has {', '.join(sorted(inventory.groups))}")
        names = inventory.variables if group == "all" else dict.fromkeys(inventory.members(group))
        if not names:
            raise BlklabError(f"group {group!r} has no hosts")
        return inventory.addresses(names)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: expected an inventory of Ansible") from None
    except (BlklabError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _remedy(path: str) -> str:
    return f"run `ansible-inventory -i {path} --list > hosts.json`, and name hosts.json"


def _read(path: Path) -> _Inventory:
    if path.is_dir():
        raise BlklabError(f"a directory, expected a file: {_remedy(path.name)}")
    text = path.read_text()
    if text.startswith("#!") or path.stat().st_mode & 0o111:
        raise BlklabError(f"a program (or executable), expected a file of hosts: {_remedy(path.name)}")
    document = None
    with suppress(ValueError):
        document = json.loads(text)
    if isinstance(document, dict) and "_meta" in document:
        return _of_list(document)
    if document is None and path.suffix not in {".yml", ".yaml"}:
        return _of_ini(text)
    return _of_yaml(text if document is None else document, path)


def _of_list(document: Mapping[str, object]) -> _Inventory:
    """Reads the output of `ansible-inventory --list`."""
    inventory = _Inventory()
    for name, table in document.items():
        if name != "_meta":
            inventory.group(name).hosts |= dict.fromkeys(_table(table, name, list, "hosts"))
            inventory.group(name).children |= dict.fromkeys(_table(table, name, list, "children"))
    variables = _table(document["_meta"], "_meta", dict, "hostvars")
    for name in dict.fromkeys(inventory.members("all")):
        inventory.variables[str(name)] = _reaching(variables.get(name) or {})
    return inventory


def _of_yaml(content: Any, path: Path) -> _Inventory:
    import yaml

    try:
        document = yaml.safe_load(content) if isinstance(content, str) else content
    except yaml.YAMLError as error:
        raise BlklabError(f"cannot be read: {' '.join(str(error).split())[:200]}; {_remedy(path.name)}") from None
    inventory = _Inventory()
    groups = _table({"": document}, "the file", dict, "")
    if "plugin" in groups:
        raise BlklabError(f"a plugin asks for the hosts: {_remedy(path.name)}")

    def add(name: str, table: object) -> None:
        group = inventory.group(name)
        for pattern, variables in _table(table, name, dict, "hosts").items():
            inventory.add(name, str(pattern), variables or {})
        group.variables |= _reaching(_table(table, name, dict, "vars"))
        for child, inner in _table(table, name, dict, "children").items():
            group.children[str(child)] = None
            add(str(child), inner)

    for name, table in groups.items():
        add(str(name), table)
    return inventory


def _table(table: object, where: str, kind: type, key: str) -> Any:
    """Returns a table or a list of a group; empty without it."""
    value = table.get(key) if isinstance(table, dict) else None
    if (table is not None and not isinstance(table, dict)) or (value is not None and not isinstance(value, kind)):
        raise BlklabError(f"{where}: found {value or table!r}, expected groups with hosts, vars and children"[:300])
    return value or kind()


def _of_ini(text: str) -> _Inventory:
    inventory, group, kind = _Inventory(), "ungrouped", "hosts"
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and (section := _SECTION.fullmatch(line)):
            group, kind = section[1], section[2] or "hosts"
            inventory.group(group)
            continue
        try:
            if kind == "hosts":
                pattern, *words = shlex.split(line, comments=True)
                inventory.add(group, pattern, {key: _value(value) for key, value in (_pair(word) for word in words)})
            elif kind == "children":
                inventory.group(group).children[line.split()[0]] = None
            elif kind == "vars":
                key, value = _pair(line)
                inventory.group(group).variables |= _reaching({key: _value(value)})
            else:
                raise BlklabError(f"found [{group}:{kind}], expected children or vars")
        except (ValueError, BlklabError) as error:
            raise BlklabError(f"line {number}: {error}") from None
    return inventory


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise BlklabError(f"found {word!r}, expected KEY=VALUE")
    return key.strip(), value.strip()


def _value(text: str) -> object:
    """Returns a value as Ansible's reader of INI files does: a literal of Python, otherwise text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _reaching(variables: Mapping[str, object]) -> dict[str, str]:
    if not isinstance(variables, dict):
        raise BlklabError(f"found {variables!r}, expected a table of variables"[:300])
    return {key: str(value) for key, value in variables.items() if key in REACHES and value is not None}


def _expanded(pattern: str) -> Iterator[str]:
    """Yields the names of a pattern with ranges: `web[01:10]`, `db[a:f]`, `x[0:8:2]`."""
    match = _RANGE.search(pattern)
    if match is None:
        yield pattern
        return
    first, last, letter, end, step = match.groups()
    width = len(first) if first and first.startswith("0") else 0
    if width and width != len(last):
        raise BlklabError(f"{pattern}: found {first} and {last}, expected the same number of digits")
    limits = (ord(letter), ord(end)) if letter else (int(first or 0), int(last))
    for number in range(limits[0], limits[1] + 1, int(step or 1) or 1):
        middle = chr(number) if letter else str(number).zfill(width)
        yield from _expanded(pattern[: match.start()] + middle + pattern[match.end() :])
