"""The processor time of an I/O on a host, from what fio measured: submit_ns and reap_ns of [settings.host].

fio's usr_cpu and sys_cpu over its IOPS are the processor time of an I/O. What its switches between tasks take is
subtracted, and the rest is divided by the price of the engine relative to libaio. The estimate is the median of the
runs. Its interval holds the next run, from the spread of the logarithms (Student's t).

fio does not count interrupts that hit other tasks: the estimate is a lower bound.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from blklab import _core
from blklab.calibrate.observations import Observation
from blklab.errors import UsageError
from blklab.experiment.host_prices import DEFAULTS, MEASURED, PROCESSOR_RATES, PROCESSOR_TIMES
from blklab.experiment.workload import SYNCHRONOUS
from blklab.outcome import NOMINAL, Outcome, next_value
from blklab.text.printing import printable
from blklab.units import format_size

SWITCH_NS = DEFAULTS["switch_ns"]  # A switch between tasks
ENGINES = {"libaio": 1.0, "io_uring": _core.IO_URING_PER_CENT / 100, **dict.fromkeys(SYNCHRONOUS - {"mmap"}, 1.0)}
"""The processor time of an I/O relative to libaio. io_uring reaps without a system call."""

SCSI = DEFAULTS["scsi_ns"] / sum(DEFAULTS[name] for name in MEASURED)
"""The time of the SCSI layer relative to that of an I/O with libaio."""

FILE_WRITE = DEFAULTS["file_write_ns"] / sum(DEFAULTS[name] for name in MEASURED)
"""The time that a filesystem adds to a direct write, relative to that of an I/O with libaio."""

LARGEST = 16 << 10  # Bytes of an I/O whose pages take no time worth mentioning
FEWEST = 5_000  # I/Os of a run in which fio's start does not count
LEAST = 0.05  # Share of a CPU for each job with which timers do not count
SCALED = (*PROCESSOR_TIMES, *PROCESSOR_RATES)  # Prices that follow the measured ones
UNSCALED = tuple(key for key in DEFAULTS if key not in {*SCALED, *MEASURED, "cores"})
NOT_FITTED = (*SCALED, *UNSCALED)


def cores(outcome: Outcome) -> float | None:
    """Returns how many CPUs the jobs of a run used; None if unknown."""
    if outcome.processor_ns is not None and outcome.runtime_ns:
        return outcome.processor_ns / outcome.runtime_ns
    return None if outcome.fio is None else (outcome.fio.usr_cpu + outcome.fio.sys_cpu) / 100


@dataclass(frozen=True)
class MeasuredIo:
    """What an I/O of a run of fio took."""

    run: str  # The run's name
    engine: str
    load: Mapping[str, str]  # rw, bs, iodepth and numjobs
    switches: float  # Switches between tasks
    measured_ns: float  # Processor time
    scsi: bool = False  # Whether the disks are behind the SCSI layer, which takes time as well
    file_writes: float = 0.0  # Share of writes to a file, for which the filesystem takes time as well

    @property
    def io_ns(self) -> float:
        """Processor time of an I/O with libaio, without switches, the SCSI layer and the filesystem."""
        return (self.measured_ns - self.switches * SWITCH_NS) / self.price

    @property
    def price(self) -> float:
        """The processor time of an I/O, without switches, relative to one with libaio on an NVMe device."""
        return ENGINES[self.engine] + (SCSI if self.scsi else 0) + FILE_WRITE * self.file_writes


def find_io_time(run: Observation) -> MeasuredIo | str:
    """Returns what an I/O took, or why the run does not show it."""
    outcome = run.outcome
    if outcome is None or outcome.fio is None or not (busy := cores(outcome)):
        return "fio measured no processor time"
    directions = (outcome.read, outcome.write)
    ios = sum(direction.total_ios for direction in directions)
    size = round(sum(direction.io_bytes for direction in directions) / max(1, ios))
    jobs = list(outcome.job_options.values())
    engines = sorted({options.get("ioengine", "psync") for options in jobs})
    share = busy / sum(int(job.get("numjobs", 1)) for job in run.jobs)
    upper_devices = "+".join(device.name for device in outcome.devices if device.leaf is False)
    reasons = {
        "its options are unknown": not jobs,
        f"I/Os of {format_size(size)}": size > LARGEST,
        f"only {ios:,} I/Os": ios < FEWEST,
        f"engine {' and '.join(engines)}": len(engines) != 1 or engines[0] not in ENGINES,
        # fio's text has no `direct`; its JSON has the `name` of every job.
        "not direct": any("name" in options and options.get("direct", "0") == "0" for options in jobs),
        "with flushes": run.synced,
        "polls for completions": any({"hipri", "sqthread_poll"} & options.keys() for options in jobs),
        f"on {upper_devices}, whose own time is part of it": bool(upper_devices),
        f"each job uses {100 * share:.1f} % of a CPU, expected {100 * LEAST:.0f} %": share < LEAST,
    }
    if obstacle := next((reason for reason, holds in reasons.items() if holds), None):
        return obstacle
    disks = [device.name for device in outcome.devices if device.leaf is not False]
    scsi = bool(disks) and all(re.fullmatch(r"sd[a-z]+\d*", disk) for disk in disks)
    file_writes = outcome.write.total_ios / ios if any(_uses_file(options) for options in jobs) else 0.0
    io = MeasuredIo(run.name, engines[0], run.load, outcome.fio.ctx / ios, 1e9 * busy / run.iops, scsi, file_writes)
    return io if io.io_ns > 0 else "its switches between tasks take all its processor time"


def _uses_file(options: Mapping[str, str]) -> bool:
    """Returns whether a job has a file: one that it names, or that fio makes if its options are complete."""
    default = "" if "directory" in options or "name" in options else "/dev/"
    return not options.get("filename", default).startswith("/dev/")


@dataclass(frozen=True)
class HostProfile:
    """The processor time of an I/O on a host."""

    runs: Sequence[MeasuredIo]
    unused: Sequence[tuple[str, str]]  # The names of the other runs, each with the reason

    @property
    def io_ns(self) -> float:
        """Processor time of an I/O with libaio."""
        return statistics.median(run.io_ns for run in self.runs)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the next run's `io_ns`; None if runs do not differ, as one run."""
        if len({run.io_ns for run in self.runs}) == 1:
            return None
        factor = math.exp(next_value([math.log(run.io_ns) for run in self.runs])[1])
        return self.io_ns / factor, self.io_ns * factor

    @property
    def host(self) -> dict[str, int]:
        """The table [host]. Its times are in the ratio of the defaults."""
        submit = DEFAULTS["submit_ns"]
        reap = DEFAULTS["reap_ns"]
        submit_ns = round(self.io_ns * submit / (submit + reap))
        return {"submit_ns": submit_ns, "reap_ns": round(self.io_ns) - submit_ns}

    def predict_ns(self, run: MeasuredIo) -> float:
        """Returns the processor time of an I/O that the profile predicts for a run."""
        return self.io_ns * run.price + run.switches * SWITCH_NS

    def as_dict(self) -> dict[str, object]:
        """Returns the document for `--json`. Times are ns."""
        runs = [{**asdict(run), "predicted_ns": self.predict_ns(run)} for run in self.runs]
        unused = [{"run": name, "reason": why} for name, why in self.unused]
        figures = {"host": self.host, "io_ns": self.io_ns, "interval": self.interval}
        return {**figures, "runs": runs, "unused": unused, "not_fitted": NOT_FITTED}

    def as_toml(self) -> str:
        """Returns a file with the [host] table that `calibrated = "FILE"` in [settings.host] reads."""
        about = '# Written by blklab. An experiment takes it in [settings.host] as calibrated = "this file".'
        return f"{about}\n{self.as_table()}"

    def as_table(self) -> str:
        """Returns the [host] table, with comments before it."""
        limits = self.interval
        interval_text = (
            f"{100 * NOMINAL:.0f} % of runs: {limits[0]:,.0f} to {limits[1]:,.0f}" if limits else "interval unknown"
        )
        runs = printable(", ".join(run.run for run in self.runs))
        return f"""\
# From fio's usr_cpu, sys_cpu and ctx of {runs}.
# Processor time of an I/O with libaio: {self.io_ns:,.0f} ns, a lower bound ({interval_text}).
# A switch between tasks counts {SWITCH_NS:,} ns. Not measured: {", ".join(NOT_FITTED)}.

[host]
submit_ns = {self.host["submit_ns"]:_}
reap_ns = {self.host["reap_ns"]:_}
"""


def host_profile(runs: Sequence[Observation]) -> HostProfile:
    """Returns the profile of a host from runs of fio. Raises UsageError if none shows the processor time."""
    results = [(run.name, find_io_time(run)) for run in runs]
    unused = [(name, result) for name, result in results if isinstance(result, str)]
    ios = [result for _, result in results if isinstance(result, MeasuredIo)]
    if not ios:
        why = "; ".join(f"{name}: {why}" for name, why in unused[:3])
        raise UsageError(f"{why}: expected fio with small direct I/Os that keep a CPU busy")
    return HostProfile(ios, unused)
