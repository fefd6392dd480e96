"""`python -m blklab.cli`, for when the console script is not installed."""

from blklab.cli import main

main()
