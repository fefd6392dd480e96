"""Two unlike disks that the lab throttles, and their mirror, as tables of an experiment."""

THROTTLED_PAIR = """
[devices.fast]
kind = "throttled"
iops_total = 1000
size = "64MiB"
[devices.slow]
kind = "throttled"
iops_total = 200
size = "64MiB"
"""

THROTTLED_MIRROR = (
    THROTTLED_PAIR
    + """
[stacks.mirror]
level = 1
members = ["fast", "slow"]
"""
)
