"""Options of fio that blklab knows, apart from those that it understands: lists in known_options.toml."""

from blklab.package_data import toml_file

_LISTS = toml_file(__package__, "known_options.toml")
OPTIONS = frozenset(_LISTS["passed"].split())
"""Options that are passed on to fio as they are.

None of them names a file or a program, changes what fio measures or how it reports.
"""

ALIASES: dict[str, str] = _LISTS["aliases"]
"""fio's aliases: job files may use them; for experiment files a message names the one to use."""

FIXED = _LISTS["fixed"]  # Options of job files that are accepted with these values only, and why
IGNORED = frozenset(_LISTS["ignored"].split())
"""Options that change figures, and that the simulator ignores with a note."""

OFF = frozenset({"0", "none", "false", ""})  # Values of these options that change nothing
HARMLESS = frozenset(_LISTS["harmless"].split())
"""Options about how fio works, measures or reports, without effect on simulated I/O. blklab sets
those that are not in OPTIONS itself.
"""
