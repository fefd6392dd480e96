"""Every format that can be imported, in the order in which a text is tried."""

from typing import Final

from blklab.imports import (
    blkparse,
    fio_json,
    fio_log,
    fio_text,
    iostat,
    published,
    randomio,
)
from blklab.imports.base import Format

FORMATS: Final = {
    each.name: each
    for each in (
        Format("fio", "fio", "fio's JSON, JSON+", fio_json.matches, fio_json.read),
        Format("fio-log", "fio", "fio's interval logs", fio_log.matches, fio_log.read),
        Format("fio-text", "fio", "fio's normal output", fio_text.matches, fio_text.read),
        Format("iostat", "iostat", "iostat -x", iostat.matches, iostat.read),
        Format("randomio", "randomio", "randomio's tables", randomio.matches, randomio.read),
        Format("blkparse", "blkparse", "blkparse's summary", blkparse.matches, blkparse.read),
    )
}
"""By name; a format is one module, and one line here."""

FOLDERS: Final = (
    Format("published", "randomio", "", published.matches, published.read_randomio),
    Format("published", "fio", "", published.matches, published.read),
)
"""What a folder of published figures is read with."""
