"""From a profile to a fio job that reproduces the workload, and the proof that it does."""

from blklab.trace.fio.jobfile import JobTarget, render
from blklab.trace.fio.plan import FioPlan, Loop, make_plan
from blklab.trace.fio.verify import Verification, verify

__all__ = ["FioPlan", "JobTarget", "Loop", "Verification", "make_plan", "render", "verify"]
