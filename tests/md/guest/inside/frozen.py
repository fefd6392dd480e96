"""`blklab md fix bbl ARRAY --yes`, which stands still at a point.

frozen POINT ARRAY
"""

import sys

from inside.points import Points, frozen  # type: ignore[import-not-found]

from blklab.cli import main
from blklab.md.repair import write_suspension

# The guest may be slow: otherwise writes would be resumed before its power fails, and md does not start an array with
# parity that is dirty and degraded.
write_suspension.LONGEST_SUSPENSION_S = 600.0  # type: ignore[misc]

point, array = sys.argv[1:]
Points(int(point), frozen).watch()
main(["md", "fix", "bbl", array, "--yes"])
