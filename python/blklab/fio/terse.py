"""fio's terse output, versions 3 to 5, as documents in the form of its JSON.

The fields are those of fio(1), TERSE OUTPUT, and of show_thread_status_terse in fio's stat.c: sizes
are KiB, bandwidths KiB/s, latencies µs. A line is a job. I/Os are rates times the runtime.
"""

import re
from collections.abc import Sequence

from blklab.errors import BlklabError
from blklab.fio import output
from blklab.fio.node import FioDocument

LINE = re.compile(r"[ \t>]{0,9}([345];fio[-\w.+]{1,60};[^;\n]{0,999};\d{1,9};\d{1,9};\d.*)")
"""Version, fio's version, job, group, error."""

_DISK = (
    *("name", "read_ios", "write_ios", "read_merges", "write_merges"),
    *("read_ticks", "write_ticks", "in_queue", "util"),
)


def parse_documents(text: str) -> list[FioDocument]:
    """Returns the document of each fio run in a text. Raises BlklabError.

    Lines of one run have the same disk statistics, or without any, different jobs. The last two
    statuses of `--status-interval` often have the same disk statistics, too.
    """
    documents: list[FioDocument] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (match := LINE.fullmatch(line)):
            continue
        try:
            document = {**_document(match[1].split(";")), "line": number}
        except (ValueError, IndexError):
            raise BlklabError(f"line {number}: the terse output of fio is truncated") from None
        last = documents[-1] if documents else None
        names = {job["jobname"] for job in last["jobs"]} if last else set()
        if (
            last
            and last["disk_util"] == document["disk_util"]
            and (last["disk_util"] or document["jobs"][0]["jobname"] not in names)
            and not output.is_later({**last, "jobs": last["jobs"][:1]}, document)
        ):
            last["jobs"] += document["jobs"]
        else:
            documents.append(document)
    if not documents:
        raise BlklabError("no terse output of fio")
    return output.last_of_each(documents)


def _document(fields: Sequence[str]) -> FioDocument:
    size = 47 if fields[0] == "5" else 41
    names = ("read", "write", "trim")[: 2 if fields[0] == "3" else 3]
    end = 5 + size * len(names)
    usr, system, ctx = (field.rstrip("%") for field in fields[end : end + 3])
    job: FioDocument = {"jobname": fields[2], "groupid": int(fields[3]), "error": int(fields[4])}
    job |= {"usr_cpu": float(usr), "sys_cpu": float(system), "ctx": int(ctx)}
    job |= {name: _direction(fields[5 + at * size :]) for at, name in enumerate(names)}
    disks: list[FioDocument] = []
    # Behind the disks are errors and the job's description.
    for at in range(end + 34, len(fields) - len(_DISK) + 1, len(_DISK)):
        name, *values = fields[at : at + len(_DISK)]
        if not all(re.fullmatch(r"\d{1,18}(?:\.\d{1,6})?%?", value) for value in values):
            break
        if name == "slaves" and disks:
            disks[-1]["aggr_util"] = 0
        else:
            figures = [*map(int, values[:-1]), float(values[-1].rstrip("%"))]
            disks.append(dict(zip(_DISK, [name, *figures], strict=True)))
    return {"fio version": fields[1], "jobs": [job], "disk_util": disks, "notes": []}


def _direction(fields: Sequence[str]) -> FioDocument:
    kib, bandwidth, iops, runtime = (int(field) for field in fields[:4])
    pairs = [field.partition("%=") for field in fields[12:32]]
    percentiles = {key: int(value) for key, _, value in pairs if key != "0"}
    low, high, mean, deviation = map(float, fields[8:12])
    clat = {"min": low, "max": high, "mean": mean, "stddev": deviation, "percentile": percentiles}
    sizes = {"io_bytes": kib * 1024, "io_kbytes": kib, "bw": bandwidth}
    return {**sizes, "iops": iops, "runtime": runtime, "clat": clat}
