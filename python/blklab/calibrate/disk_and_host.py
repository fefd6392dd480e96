"""A disk and its host, fitted to the same measurements.

Writes that the cache of single-bit cells of a flash disk took say nothing of the rate when it is full. If the
measurement did not fill it, the disk is fitted without this cache. What the model says of the full cache, with its
deviation, stays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from blklab.calibrate.fit import Bench, Calibration, as_toml, calibrate
from blklab.calibrate.host_profile import HostProfile, host_profile
from blklab.calibrate.observations import Observation
from blklab.devices.stock_models import DeviceTable
from blklab.errors import UsageError
from blklab.units import format_size

OF_CACHE = ("slc_bytes", "fold_ns", "direct_ns", "cell_bits")
"""Parameters of the cache of single-bit cells, and of the cells outside it."""

OF_FULL_CACHE = ("sustained_write_command_ns",)
"""Parameters that count only while the cache is full."""


@dataclass(frozen=True)
class DiskAndHost:
    """The model of a disk, and the processor time of an I/O on its host."""

    calibration: Calibration
    host: HostProfile | None  # None if no run shows the processor time
    notes: Sequence[str]  # Sentences about what the measurement did not show

    def as_toml(self, base: str, inputs: Sequence[object]) -> str:
        """Returns a file with [device], and [host] if it is known; `base` is the initial model."""
        text = as_toml(self.calibration, base, inputs)
        if self.host is None:
            return text
        about = '# An experiment takes this table in [settings.host] as calibrated = "this file".'
        return f"{text}\n{about}\n{self.host.as_table()}"


def fit_disk_and_host(
    device: DeviceTable, runs: Sequence[Observation], bench: Bench, tell: Callable[[str], None] = lambda _line: None
) -> DiskAndHost:
    """Fits the table of a device, and the processor time of an I/O, to runs of one measurement. Raises UsageError."""
    notes = []
    written = sum(run.outcome.write.io_bytes for run in runs if run.outcome is not None)
    cache_bytes = int(device.get("slc_bytes", 0))
    if 0 < written < cache_bytes:
        without_cache = {key: value for key, value in device.items() if key not in OF_CACHE}
        calibration = _restore_cache(calibrate(without_cache, runs, bench, tell), device)
        notes.append(
            f"the tests wrote {format_size(written)}, and the cache of single-bit cells takes"
            f" {format_size(cache_bytes)}: the rate of writes after it was not seen, and keeps the interval of its"
            " class"
        )
    else:
        calibration = calibrate(device, runs, bench, tell)
    try:
        host = host_profile(runs)
    except UsageError as error:
        host = None
        notes.append(f"the processor time of an I/O was not seen, so there is no table [host]: {error}")
    return DiskAndHost(calibration, host, notes)


def _restore_cache(calibration: Calibration, device: DeviceTable) -> Calibration:
    """Returns a calibration of writes into the cache, with what the model says of the full one."""
    table = dict(calibration.device)
    for key in (*OF_CACHE, *OF_FULL_CACHE):
        if key in device:
            table[key] = device[key]
    table["fold_ns"] = max(table["fold_ns"], table["program_ns"])
    if "direct_ns" in table:
        table["direct_ns"] = min(table["direct_ns"], table["fold_ns"])
    before: Mapping[str, float] = device.get("uncertainty", {})
    deviations = dict(table["uncertainty"])
    if "write" in deviations and "write" in before:
        deviations |= {"cached_write": deviations["write"], "write": before["write"]}
        if "large_write" in before:
            deviations["large_write"] = before["large_write"]
            # By default it is that of `cached_write`, which was measured with large writes, too.
            deviations.pop("large_cached_write", None)
    table["uncertainty"] = deviations
    unseen = [key for key in ("fold_ns", "direct_ns", *OF_FULL_CACHE) if key in table]
    return replace(calibration, device=table, unknown=[*calibration.unknown, *unseen])
