"""The table of the files that the I/Os went to."""

from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.view import ProfileView
from blklab.text import printable


def hot_files(view: ProfileView, most: int = 100) -> TextTable:
    """Returns the files with most I/Os, and what else the I/Os went to; empty if not asked for."""
    for device in view.devices:
        if not (files := device.data["files"]):
            continue
        kept = [file for file in files["files"] if file["is_file"]][:most]
        kept += [file for file in files["files"] if not file["is_file"]]
        total = sum(device.op(op)["ios"] for op in ("read", "write"))
        rows = [
            [
                printable(file["name"]) if file["is_file"] else f"({file['name']})",
                formatting.share((file["reads"] + file["writes"]) / total if total else None),
                formatting.count(file["reads"]),
                formatting.count(file["writes"]),
                formatting.size(file["read_bytes"]),
                formatting.size(file["write_bytes"]),
            ]
            for file in kept
        ]
        note = "where files are now: those moved, rewritten or deleted since the recording are not recognised"
        note += "; an I/O counts in each row that it touches"
        if further := len(files["files"]) - len(kept) + files["further"]:
            note += f"; {formatting.plural(further, 'further file')} with fewer I/Os"
        columns = [text("file"), *figures("I/Os", "reads", "writes", "read", "written")]
        return TextTable(f"Files of {files['mount']} on {device.label}", columns, rows, note)
    return TextTable("", [], [])
