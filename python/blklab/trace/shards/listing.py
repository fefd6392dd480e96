"""Which shards a pattern matches, and the host of each."""

import glob
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blklab.errors import UsageError
from blklab.trace.shards import remote

PER_CPU = re.compile(r"\.blktrace\.\d+(?:\.(?:gz|xz|zst|bz2|lz4))?$")
NOT_TRACES = ("blklab.json",)  # The ends of names of what `trace record` writes next to a trace


@dataclass(frozen=True)
class Shard:
    """One trace: a file, a directory, or the per-CPU files of one recording."""

    name: str  # URL or path, without the suffixes of per-CPU files
    files: tuple[str, ...]
    host: str  # What the wildcards of the pattern matched, without the last one
    group: str  # The first of three or more wildcards; otherwise the host without its number


def are_shards(paths: Sequence[str]) -> bool:
    """Whether any path is a URL or a pattern, not a local file."""
    return any("://" in path or (glob.has_magic(path) and not _is_local(path)) for path in paths)


def _is_local(path: str) -> bool:
    """Whether a file, a directory or per-CPU files have this very name."""
    return Path(path).exists() or bool(glob.glob(glob.escape(path) + ".blktrace.*"))  # noqa: PTH207


def list_shards(patterns: Sequence[str]) -> list[Shard]:
    """Returns the shards that URLs and patterns match, by host. Raises UsageError if one matches nothing."""
    shards: dict[str, Shard] = {}
    for pattern in patterns:
        match_count = 0
        path, found_files = _find(pattern)
        for place, files in found_files:
            if place.endswith(NOT_TRACES) or not files:
                continue
            shard = _shard(path, place, files)
            if (earlier := shards.get(shard.name)) is not None:
                shard = replace(shard, files=tuple(sorted({*earlier.files, *files})))
            shards[shard.name] = shard
            match_count += 1
        if not match_count:
            raise UsageError(f"{pattern}: no shard matches")
    _check_distinct(list(shards.values()))
    return sorted(shards.values(), key=lambda shard: (shard.group, shard.host, shard.name))


def _check_distinct(shards: Sequence[Shard]) -> None:
    """Raises UsageError if a file would count twice."""
    counts = Counter(file for shard in shards for file in shard.files)
    for file, count in counts.items():
        if count > 1 or file.rpartition("/")[0] in counts:
            raise UsageError(f"{file}: belongs to two shards: name the file or its directory, not both")


def _find(pattern: str) -> tuple[str, list[tuple[str, list[str]]]]:
    if "://" in pattern:
        return remote.find(pattern)
    absolute = str(Path(pattern).absolute())
    # Path.glob has no `**` of several levels.
    paths = glob.glob(absolute, recursive=True) or glob.glob(f"{absolute}.blktrace.*")  # noqa: PTH207
    return absolute, [(path, [path]) for path in sorted(paths)]


def _shard(pattern: str, place: str, files: Sequence[str]) -> Shard:
    name = PER_CPU.sub("", files[0]) if len(files) == 1 else files[0][: files[0].index(place) + len(place)]
    parts = PER_CPU.sub("", place).split("/")
    wild = [index for index, part in enumerate(pattern.split("/")) if glob.has_magic(part) and index < len(parts)]
    host = "/".join(parts[index] for index in wild[:-1] or wild) or name
    group = parts[wild[0]] if len(wild) > 2 else re.sub(r"[-_.]*\d+$", "", host) or host
    return Shard(name, tuple(files), host, group)
