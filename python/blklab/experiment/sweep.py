"""[sweep]: settings of the host, and fio's options, varied one at a time or all together."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from blklab.experiment.documents import READING, FioCellDocument, FioJobDocument
from blklab.toml_files.fields import show_value

MODES = ("one", "all")  # One setting at a time away from the baseline, or every combination
MODE = "mode"
AS_IS = "as is"  # The label of a setting that is not changed: the baseline

QUEUE = (  # Keys of devices: /sys/block/*/queue (Documentation/ABI/stable/sysfs-block), and device/queue_depth
    *("scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb", "queue_depth", "rotational"),
    *("nomerges", "rq_affinity", "wbt_lat_usec", "write_cache", "add_random", "iostats"),
)

MD = ("stripe_cache_size", "group_thread_cnt", "rmw_level", "sync_speed_min", "sync_speed_max")
"""Keys of arrays: /sys/block/md*/md (Documentation/admin-guide/md.rst)."""

VM = "vm."  # Prefix of sysctls: /proc/sys/vm (Documentation/admin-guide/sysctl/vm.rst)

SIMULATED = {  # Settings that the simulator has too, by their names in [settings]
    **{key: key for key in ("scheduler", "nr_requests", "queue_depth", "max_sectors_kb", "rotational")},
    "read_ahead_kb": "read_ahead",
    **{f"vm.{key}": key for key in ("dirty_bytes", "dirty_background_bytes")},
}


def is_setting(key: str) -> bool:
    """Tells whether a key is a setting of the host, rather than an option of fio."""
    return key in QUEUE or key in MD or (key.startswith(VM) and key[len(VM) :].isidentifier())


ACT_ON = {"read_ahead_kb": "read", f"{VM}dirty_": "write"}
"""Settings, or their beginnings, that act on buffered I/O of one direction only: direct I/O bypasses the page cache
(open(2), O_DIRECT), which reads ahead and has dirty pages (Documentation/admin-guide/sysctl/vm.rst)."""


def no_effect(setting: str, cells: Iterable[FioCellDocument]) -> str:
    """Returns why a setting cannot act on any job of the documents of cells: `direct I/O`; empty if it may act."""
    io_direction = next((direction for start, direction in ACT_ON.items() if setting.startswith(start)), None)
    command: FioJobDocument = {"name": "", "options": {}}  # It may do any I/O
    jobs = [job for cell in cells for job in cell.get("jobs") or [command]]
    reasons = dict.fromkeys(_no_effect(io_direction, _io_options(job)) for job in jobs if io_direction)
    return "" if "" in reasons else " and ".join(reasons)


def _io_options(job: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns fio's options of a job; one of the simulator has none."""
    if "options" in job:
        options: Mapping[str, str] = job["options"]
        return options
    if not job.get("buffered"):
        return {"direct": "1"}
    return {"direct": "0", "rw": "read" if job.get("read_share") else "write"}


def _no_effect(direction: str, options: Mapping[str, str]) -> str:
    if options.get("direct") == "1" and options.get("ioengine") != "mmap" and "buffered" not in options:
        return "direct I/O"
    other_kinds = ("write", "randwrite") if direction == "read" else READING
    if "direct" in options and options.get("rw", "read").partition(":")[0] in other_kinds:
        return f"no {direction}s"
    return ""


def without_effect(table: Iterable[str], cells: Sequence[tuple[Mapping[str, str], FioCellDocument]]) -> list[str]:
    """Returns a line for each setting of [sweep] that cannot act on any cell (its labels and its document)."""
    all_documents = [document for _, document in cells]
    lines = []
    for key in table:
        changed_documents = [document for labels, document in cells if labels.get(key, AS_IS) != AS_IS]
        # The simulator has no cells for settings without effect.
        why = no_effect(key, changed_documents or all_documents)
        if why:
            advice = "remove it, or add one on which it acts (direct = false)"
            lines.append(f"sweep.{key} cannot act on any workload ({why}): {advice}")
    return lines


def _check_sweep(table: dict[str, Any]) -> dict[str, Any]:
    mode = table.get(MODE, MODES[0])
    if mode not in MODES:
        raise ValueError(f"mode: found {show_value(mode)}, expected one of {', '.join(map(repr, MODES))}")
    for key, values in table.items():
        if key == MODE:
            continue
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key}: found {show_value(values)}, expected a list of values")
        texts = [format_value(value) for value in values]
        for value in values:
            if is_setting(key) and not isinstance(value, bool | int | str):
                raise ValueError(f"{key}: found {show_value(value)}, expected a number or text")
            if not format_value(value).isprintable() or format_value(value) == AS_IS:
                raise ValueError(f"{key}: invalid value {show_value(value)}")
        if len(set(texts)) < len(texts):
            raise ValueError(f"{key}: found the same value twice")
    if table and not table.keys() - {MODE}:
        raise ValueError("is empty: expected a setting and its values, such as nr_requests = [64, 256]")
    return table


Sweep = Annotated[
    dict[str, Any],
    AfterValidator(_check_sweep),
    WithJsonSchema(
        {
            "type": "object",
            "description": "Settings of the host and fio's options, each with a list of values.",
            "properties": {MODE: {"enum": list(MODES)}},
            "additionalProperties": {"type": "array", "minItems": 1},
        }
    ),
]


def format_value(value: Any) -> str:
    """Returns a value as text, for a file of the kernel and as a label."""
    return str(int(value)) if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class SweepPoint:
    """One combination of a sweep."""

    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)  # The values that differ from the baseline

    @property
    def settings(self) -> dict[str, Any]:
        """The values that are settings of the host."""
        return {key: value for key, value in self.values.items() if is_setting(key)}


def points(table: Mapping[str, Any]) -> Sequence[SweepPoint]:
    """Returns the combinations of a checked [sweep], the baseline first; one if it is empty.

    `one`: the baseline, then each value by itself. `all`: every combination of the values.
    """
    axes = {key: values for key, values in table.items() if key != MODE}
    if not axes:
        return [SweepPoint()]
    if table.get(MODE, MODES[0]) == "all":
        combinations = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        return [SweepPoint(_texts(combination), combination) for combination in combinations]
    baseline = dict.fromkeys(axes, AS_IS)
    points = [SweepPoint(baseline)]
    for key, values in axes.items():
        for value in values:
            points.append(SweepPoint({**baseline, key: format_value(value)}, {key: value}))
    return points


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: format_value(value) for key, value in values.items()}
