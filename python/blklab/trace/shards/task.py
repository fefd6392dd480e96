"""What a worker does: it downloads a shard, characterises it, removes it, and takes the next one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from blklab import _core
from blklab.errors import BlklabError, EnvironmentLacks
from blklab.trace.shards import remote
from blklab.trace.shards.figures import Figures, read_figures
from blklab.trace.shards.listing import Shard

INCOMPLETE: Final = ("cut off", "damaged", "compressed data is damaged")
"""How readers' warnings begin about a shard of which a part is missing: its figures would pass for those of all."""


@dataclass(frozen=True)
class TraceOptions:
    """Options of every shard of a trace."""

    selection: _core.Filter
    format_name: str | None = None


@dataclass(frozen=True)
class ShardTask:
    """Shards of one host, one after the other."""

    shards: tuple[Shard, ...]
    options: TraceOptions
    skip_broken: bool
    whole_host: bool = False  # Whether the host has no other shards


@dataclass(frozen=True)
class ShardResult:
    """The merged partial profile of the shards that could be read, and why others could not."""

    partial: _core.PartialProfile | None  # Of a whole host: the sum of its devices
    broken: tuple[tuple[str, str], ...] = ()  # Name and reason
    figures: Figures | None = None  # Of a whole host


def read_shards(task: ShardTask, /, *, stop: _core.Stop | None = None) -> ShardResult:
    """Characterises shards; a worker has one at a time. Stops at the first broken one without `skip_broken`."""
    merged: _core.PartialProfile | None = None
    broken = []
    for shard in task.shards:
        try:
            partial = _read_shard(shard, task.options, stop)
        except EnvironmentLacks:
            raise
        except BlklabError as error:
            directory = shard.files[0].rpartition("/")[0]
            broken.append((shard.name, str(error).removeprefix(f"{shard.name}: ").removeprefix(f"{directory}/")))
            if not task.skip_broken:
                break
        else:
            if merged is None:
                merged = partial
            else:
                merged.merge(partial)
    if merged is None or not task.whole_host:
        return ShardResult(merged, tuple(broken))
    first, total, count = task.shards[0], merged.sum(), len(task.shards) - len(broken)
    return ShardResult(total, tuple(broken), read_figures(first.host, first.group, count, total))


def _read_shard(shard: Shard, options: TraceOptions, stop: _core.Stop | None) -> _core.PartialProfile:
    if not shard.is_remote:
        return _read(shard, shard.files, None, options, stop)
    with TemporaryDirectory(prefix="blklab-shard-") as directory:
        shown = (f"{directory}/", shard.files[0].rpartition("/")[0] + "/")
        try:
            return _read(shard, remote.download(shard.files, Path(directory)), shown, options, stop)
        except BlklabError as error:
            error.args = (str(error).replace(*shown),)
            raise


def _read(
    shard: Shard, paths: Sequence[str], shown: tuple[str, str] | None, options: TraceOptions, stop: _core.Stop | None
) -> _core.PartialProfile:
    def tick(_bytes: int) -> None:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt

    partial, _, warnings = _core.characterise_partial(
        paths, options.selection, format=options.format_name, host=shard.host, shown_as=shown, tick=tick
    )
    for path, message in warnings:
        if message.startswith(INCOMPLETE):
            raise BlklabError(f"{path}: {message.removesuffix('; read up to there')}")
    return partial
