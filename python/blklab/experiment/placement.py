"""Where the data of a load lie on rotating disks: on the outermost part, or spread over the whole."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from blklab.experiment.documents import arrays_and_volumes

OUTER: Literal["outer"] = "outer"
SPREAD: Literal["spread"] = "spread"
Placement = Literal["outer", "spread"]

CACHES = {"lvmcache", "bcache", "writecache"}
"""Their states say which blocks of the load they hold: data lie as their offsets say."""

FILLED = 0.8
"""The share of a stack from which on its data lie nearly everywhere."""


def find_placement(document: Mapping[str, Any], typed: Placement | None) -> Placement:
    """Returns where the data of a cell lie: what the user says; otherwise files are spread, and raw data are not."""
    if not matters(document):
        return OUTER
    if typed is not None:
        return typed
    return OUTER if document["filesystem"] is None else SPREAD


def matters(document: Mapping[str, Any]) -> bool:
    """Returns whether a cell has jobs on rotating disks without a cache in front of them.

    A replayed trace says where its data lie.
    """
    is_rotating = any(device["model"]["kind"] == "hdd" for device in document["devices"])
    has_cache = any(kind in CACHES for kind, _ in arrays_and_volumes(cast(Any, document["stack"])))
    return is_rotating and not has_cache and bool(document["jobs"])


def share_of_stack(document: Mapping[str, Any], capacity: int) -> float:
    """Returns the share of a stack's bytes that the regions of all jobs span."""
    ends = [
        job["offset"] + job.get("offset_increment", 0) * (max(1, job["numjobs"]) - 1) + job["size"]
        for job in document["jobs"]
    ]
    return float(max(ends, default=0) / max(1, capacity))
