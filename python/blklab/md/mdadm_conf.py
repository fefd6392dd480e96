"""The ARRAY lines of mdadm.conf (mdadm.conf(5); mdadm 4.2, config.c): which arrays the administrator expects."""

import re
from collections.abc import Iterator

from blklab.md.model import ListedArray
from blklab.md.probing import read_mdadm_conf, split_lines
from blklab.system.identity import array_uuid
from blklab.system.roots import Roots

UUID_DIGITS = 32


def read_listed_arrays(roots: Roots) -> tuple[ListedArray, ...]:
    """Returns the ARRAY lines of all configuration files that can be read."""
    arrays: list[ListedArray] = []
    for path, content in read_mdadm_conf(roots):
        arrays.extend(parse_listed_arrays(content or "", roots.format_path(path)))
    return tuple(arrays)


def list_unreadable_files(roots: Roots) -> tuple[str, ...]:
    """Returns a line for each configuration file that exists and cannot be read: its ARRAY lines are not known."""
    paths = [roots.format_path(path) for path, content in read_mdadm_conf(roots) if content is None]
    return tuple(f"{path}: not seen: which arrays it lists: run blklab as root" for path in paths)


def parse_listed_arrays(content: str, file: str = "") -> Iterator[ListedArray]:
    """Yields the ARRAY lines of a configuration file that name an array.

    A line without a UUID and without a name can have other words (`devices=`, `super-minor=`): its path is then all
    that is known of the array. A line of firmware's containers names one: blklab does not read their metadata.
    """
    for keyword, *tokens in split_lines(content):
        # Keywords may be shortened to three letters or more, and case does not matter.
        if len(keyword) < 3 or not "array".startswith(keyword.lower()):
            continue
        path = ""
        uuid = ""
        name = ""
        spare_group = ""
        is_external = False
        for token in tokens:
            key, equals, value = token.partition("=")
            if not equals or token.startswith("/"):
                path = path or _device_path(token)
            elif key.lower() == "uuid":
                uuid = parse_uuid(value)
            elif key.lower() == "name":
                name = value
            elif key.lower() == "spare-group":
                spare_group = value
            elif key.lower() in {"container", "member"} or (key.lower() == "metadata" and value in {"imsm", "ddf"}):
                is_external = True
        if (path or uuid or name) and not is_external:
            yield ListedArray(path, uuid, name, file, spare_group)


def _device_path(word: str) -> str:
    if word.startswith("/") or word.lower() == "<ignore>":
        return word
    return f"/dev/md/{word}"


def parse_uuid(value: str) -> str:
    """Returns a UUID of 32 digits, with any separators, as mdadm prints it; empty for anything else."""
    digits = re.sub(r"[:. -]", "", value.lower())
    if not re.fullmatch(rf"[0-9a-f]{{{UUID_DIGITS}}}", digits):
        return ""
    return array_uuid(digits)
