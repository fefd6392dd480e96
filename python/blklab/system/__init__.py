"""The machine, as /proc, /sys and /dev tell it: block devices, their statistics, their settings.

Nothing here starts a process or changes anything.
"""
