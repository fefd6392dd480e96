"""A directory of published figures (reference/README.md), to compare with predictions.

`stack` is the target and `workload` the test, as in an experiment's results. fio's rows have no
latency; randomio's have. Devices have the I/Os of `fio_device_io.csv`.
"""

from blklab.imports import reference
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource, device, outcome, times
from blklab.imports.reference import FioRun, RandomioRun, Reference
from blklab.outcome import DirectionResult
from blklab.units import parse_size


def matches(file: ImportFile) -> bool:
    """Returns whether a directory has tables of published figures."""
    return (file.path / reference.TARGETS).is_file()


def read(given: ImportSource) -> ImportResult:
    """Returns fio's runs of each directory."""
    references = [reference.read_reference(file.path) for file in given.files]
    return ImportResult([_fio(tables, run) for tables in references for run in tables.runs])


def read_randomio(given: ImportSource) -> ImportResult:
    """Returns randomio's runs of each directory."""
    references = [reference.read_reference(file.path) for file in given.files]
    return ImportResult(
        [_randomio(str(tables.path / reference.RANDOMIO), run) for tables in references for run in tables.randomio]
    )


def _fio(tables: Reference, run: FioRun) -> ImportedRun:
    # Without a runtime, figures are per second.
    seconds = run.runtime_ms / 1000 or 1.0
    asked = {
        key: str(value)
        for key, value in {**tables.common, **tables.tests[run.test]}.items()
        if key in {"rw", "bs", "iodepth", "numjobs", "rwmixread"}
    }
    size = parse_size(asked.get("bs", "4k"))
    directions: list[DirectionResult] = []
    for counted, iops in zip(run.ios, (run.read_iops, run.write_iops), strict=True):
        ios = counted or (max(1, round(iops * seconds)) if iops else 0)
        directions.append(
            {"total_ios": ios, "io_bytes": ios * size, "iops": iops, "bw_bytes": iops * size, "clat_ns": times(0, None)}
        )
    disks = [device(name, ios) for name, ios in tables.device_io.get((run.target, run.test), {}).items()]
    result = outcome(run.test, round(seconds * 10**9), directions, disks)
    labels = {"stack": run.target}
    return ImportedRun(run.where, run.test, asked, result, labels=labels, section="published")


def _randomio(where: str, run: RandomioRun) -> ImportedRun:
    directions: list[DirectionResult] = [
        {
            "total_ios": max(1, round(iops)) if iops else 0,
            "io_bytes": max(1, round(iops)) * run.io_bytes if iops else 0,
            "iops": iops,
            "bw_bytes": iops * run.io_bytes,
            "clat_ns": times(round(iops), {"mean": milliseconds * 1e6}),
        }
        for iops, milliseconds in ((run.read_iops, run.read_ms), (run.write_iops, run.write_ms))
    ]
    options = {"rw": "randrw", "bs": str(run.io_bytes), "numjobs": str(run.threads)}
    result = outcome("randomio", 10**9, directions)
    labels = {"stack": run.config}
    return ImportedRun(where, "randomio", options, result, labels=labels, section="published")
