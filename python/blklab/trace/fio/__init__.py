"""Create a fio job from a profile that reproduces the workload, and verify it."""

from blklab.trace.fio.jobfile import JobTarget, render
from blklab.trace.fio.plan import FioPlan, Loop, make_plan
from blklab.trace.fio.verify import Verification, verify

__all__ = ["FioPlan", "JobTarget", "Loop", "Verification", "make_plan", "render", "verify"]
