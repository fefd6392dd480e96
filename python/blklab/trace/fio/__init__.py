"""From a profile to a fio job that reproduces the workload, and the proof that it does."""

from blklab.trace.fio.jobfile import Target, render
from blklab.trace.fio.plan import Loop, Plan, make_plan
from blklab.trace.fio.verify import Verification, verify

__all__ = ["Loop", "Plan", "Target", "Verification", "make_plan", "render", "verify"]
