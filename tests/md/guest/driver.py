"""Runs blklab in a guest, as `python -m blklab.cli` would were its packages where Python looks."""

from blklab.cli import main

main()
