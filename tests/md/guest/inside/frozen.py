"""`blklab md fix bbl ARRAY --yes`, which stands still at a point.

frozen POINT ARRAY
"""

import sys

from inside.points import Points, frozen  # type: ignore[import-not-found]

from blklab.cli import main

point, array = sys.argv[1:]
Points(int(point), frozen).watch()
main(["md", "fix", "bbl", array, "--yes"])
