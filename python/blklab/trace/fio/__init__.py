"""Create a fio job from a profile that reproduces the workload."""

from blklab.trace.fio.jobfile import JobTarget, render
from blklab.trace.fio.plan import FioPlan, Loop, make_plan

__all__ = ["FioPlan", "JobTarget", "Loop", "make_plan", "render"]
