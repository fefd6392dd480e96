"""`blklab md fix bbl ARRAY --yes`, which stands still at a point.

frozen POINT ARRAY SECONDS

Writes are suspended for SECONDS at most.
"""

import sys

from inside.points import Points, frozen  # type: ignore[import-not-found]

from blklab.cli import main
from blklab.md.repair import write_suspension

point, array, seconds = sys.argv[1:]
write_suspension.LONGEST_SUSPENSION_S = float(seconds)
Points(int(point), frozen).watch()
main(["md", "fix", "bbl", array, "--yes"])
