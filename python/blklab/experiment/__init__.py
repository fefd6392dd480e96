"""Experiment files: devices, stacks, workloads and settings, and the cells that they make.

`cells.plan` reads a file and gives every cell as the document that a runner takes. Importing a
module of this package imports pydantic: commands do so when they run.
"""
