"""All import formats, in the order of recognition."""

from typing import Final

from blklab.imports import blkparse, filesystem_benchmarks, fio_log, fio_results, iostat, randomio, reference
from blklab.imports.base import ImportFormat

FORMATS: Final = {  # By name; a format is one module and one line here
    each.name: each
    for each in (
        ImportFormat("fio", "fio", "fio's JSON, JSON+", fio_results.matches, fio_results.read),
        ImportFormat("fio-log", "fio", "fio's interval logs", fio_log.matches, fio_log.read),
        ImportFormat("fio-text", "fio", "fio's normal output", fio_results.matches_text, fio_results.read_text),
        ImportFormat("fio-terse", "fio", "fio's terse output", fio_results.matches_terse, fio_results.read_terse),
        ImportFormat("iostat", "iostat", "iostat -x", iostat.matches, iostat.read),
        ImportFormat(
            "iozone",
            "iozone",
            "IOzone's tables",
            filesystem_benchmarks.matches_iozone,
            filesystem_benchmarks.read_iozone,
        ),
        ImportFormat(
            "bonnie",
            "bonnie",
            "bonnie++'s results",
            filesystem_benchmarks.matches_bonnie,
            filesystem_benchmarks.read_bonnie,
        ),
        ImportFormat("randomio", "randomio", "randomio's tables", randomio.matches, randomio.read),
        ImportFormat("blkparse", "blkparse", "blkparse's summary", blkparse.matches, blkparse.read),
    )
}

DIRECTORY_FORMATS: Final = (  # The formats of a directory of published figures
    ImportFormat("published", "randomio", "", reference.matches, reference.read_randomio),
    ImportFormat("published", "fio", "", reference.matches, reference.read),
)
