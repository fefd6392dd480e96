"""How a runner takes the cells of an experiment, and the traces that they replay."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from blklab import _core
from blklab.devices.device import Uncertainty
from blklab.errors import BlklabError
from blklab.experiment import load
from blklab.experiment.tables import Experiment
from blklab.units import SECTOR


@dataclass(frozen=True)
class ReplaySource:
    """The trace that a cell replays, for `blklab._core`'s readers."""

    path: str  # What to read: a name, a file or a directory
    format: str | None  # The trace's format; None: detected from the content
    device: str  # The device's number, `major,minor`
    name: str  # The device's name, or its number if it has none
    end: int  # Bytes; the end of the last I/O
    ios: int  # Reads and writes of that device
    read_share: float  # Share of reads among them
    mean_bytes: int  # Their mean size, in whole sectors
    write_bytes: int


def replay_source(path: Path, format_name: str | None, device: str | None) -> ReplaySource:
    """Reads a trace and returns what to replay. Raises UsageError or BlklabError."""
    source, _ = read_replay(path, format_name, device)
    return source


@cache
def read_replay(path: Path, format_name: str | None, device: str | None) -> tuple[ReplaySource, int]:
    """Returns what to replay of a trace, and its writes for which no program waits.

    Their number is 0 if the format does not tell. Raises UsageError or BlklabError.
    """
    device_filter = _core.Filter(devices=[device] if device else [])
    profile = json.loads(_core.characterise([str(path)], device_filter, format=format_name, threads=1))
    device_number = profile["focus"]
    for device_profile in profile["devices"]:
        if device_profile["device"] == device_number:
            ops = device_profile["load"]["ops"]
            ios, moved_bytes = (ops["read"][key] + ops["write"][key] for key in ("ios", "bytes"))
            if ios:
                source = ReplaySource(
                    path=str(path),
                    format=format_name,
                    device=device_number,
                    name=device_profile["name"] or device_number,
                    end=device_profile["load"]["end_sector"] * SECTOR,
                    ios=ios,
                    read_share=ops["read"]["ios"] / ios,
                    write_bytes=ops["write"]["bytes"],
                    mean_bytes=max(1, round(moved_bytes / ios / SECTOR)) * SECTOR,
                )
                return source, _count_background(profile, ops)
    device_text = f" of device {device!r}" if device else ""
    raise BlklabError(f"{path}: found no read or write{device_text} to replay")


def _count_background(profile: dict[str, Any], ops: dict[str, Any]) -> int:
    """Returns the writes for which no program waits; only traces of the block layer tell."""
    if not profile["trace"]["capabilities"]["layers"]:
        return 0
    return int(ops["write"]["ios"] - ops["write"]["sync"])


class CellDraft(NamedTuple):
    """What a form makes of a cell; `cells.Cell` describes the fields."""

    document: dict[str, Any]  # Without the seed
    capacity: int = 0
    replay: ReplaySource | None = None
    uncertainties: Sequence[Uncertainty] = ()
    notes: Sequence[str] = ()  # What its runner cannot do exactly
    ignored_options: Sequence[str] = ()  # Options of fio that the simulator ignores, with their values
    is_placed: bool = False  # Whether the user says where the data lie on rotating disks


@dataclass(frozen=True)
class CellForm:
    """How a runner takes cells."""

    runner: str

    document: Callable[[load.ExperimentSource, Experiment, str, str, Mapping[str, Any]], CellDraft]
    """Makes a cell from a file, its experiment, the names of a stack and of a workload, and the
    settings of one point of the sweep. Raises SpecProblems."""

    settings_are_keys: bool = False
    """Whether the settings that a sweep changes are keys of the file (`sweep.SIMULATED`)."""

    on_targets: bool = False  # Whether cells run on existing [targets], rather than on [stacks], which are built
