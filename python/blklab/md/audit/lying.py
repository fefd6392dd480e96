"""What lies where an array has bad blocks, as findings tell it."""

from typing import Any

from blklab.md.model import Array
from blklab.md.superblocks import SECTOR, Range


def lying(array: Array, mapped: tuple[Range, ...] | None) -> dict[str, Any]:
    """Returns where ranges are on the array and, if that was asked, which files lie there."""
    told = (
        None if mapped is None else [{"sector": at.sector, "sectors": at.sectors} for at in mapped]
    )
    if array.contents is None:
        return {"array_ranges": told}
    files: list[dict[str, Any]] = []
    others: dict[tuple[str, str], int] = {}
    for one in array.contents:
        for at in mapped or ():
            first = max(one.begin, at.sector * SECTOR)
            many = min(one.begin + one.bytes, at.end * SECTOR) - first
            if many <= 0:
                continue
            if not one.path:
                others[one.device, one.what] = others.get((one.device, one.what), 0) + many
                continue
            offset = None if one.offset < 0 else one.offset + first - one.begin
            last = files[-1] if files else None
            if last and _goes_on(last, one.path, one.what, offset):
                last["bytes"] += many
            else:
                files.append(
                    {
                        "device": one.device,
                        "path": one.path,
                        "offset_bytes": offset,
                        "bytes": many,
                        "what": one.what or None,
                    }
                )
    rest = [{"device": on, "what": what, "bytes": many} for (on, what), many in others.items()]
    return {"array_ranges": told, "files": files, "others": rest}


def _goes_on(last: dict[str, Any], path: str, what: str, offset: int | None) -> bool:
    if (last["path"], last["what"]) != (path, what or None):
        return False
    begin = last["offset_bytes"]
    return (None if begin is None else begin + last["bytes"]) == offset
