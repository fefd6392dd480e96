"""Recording a trace with the real blktrace."""

from blklab.trace.record.blktrace import Options, Progress
from blklab.trace.record.recording import Recording, record

__all__ = ["Options", "Progress", "Recording", "record"]
