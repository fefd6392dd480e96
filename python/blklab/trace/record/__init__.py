"""Record a trace with the real blktrace."""

from blklab.trace.record.blktrace import RecordingOptions, RecordingProgress
from blklab.trace.record.recording import TraceRecording, record

__all__ = ["RecordingOptions", "RecordingProgress", "TraceRecording", "record"]
