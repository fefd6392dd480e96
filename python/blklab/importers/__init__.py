"""Import results of other tools as runs: one module for each format, and a registry."""
