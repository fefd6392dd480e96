"""One large trace in pieces: each task continues the state of the one before it, to the result of one pass."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from blklab import _core
from blklab.cluster import Parallel
from blklab.documents.profile import Profile
from blklab.errors import UsageError
from blklab.trace.shards.task import TraceOptions


@dataclass(frozen=True)
class Piece:
    """Up to `most` events of a trace behind those of `state`."""

    paths: tuple[str, ...]
    options: TraceOptions
    most: int | None
    state: _core.PartialProfile | None = None


def read_piece(piece: Piece, /, *, stop: _core.Stop | None = None) -> tuple[_core.PartialProfile, bool]:
    """Characterises a piece; returns the state behind it, and whether the trace has ended."""

    def tick(_bytes: int) -> None:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt

    state, has_ended, _ = _core.characterise_partial(
        piece.paths,
        piece.options.selection,
        format=piece.options.format_name,
        continued=piece.state,
        most=piece.most,
        tick=tick,
    )
    return state, has_ended


def characterise_pieces(paths: tuple[str, ...], options: TraceOptions, most: int | None, parallel: Parallel) -> Profile:
    """Characterises a trace in pieces of `most` events: one task after the other, each where the last one ended.

    The trace is at the same path on all workers.
    """
    if "-" in paths:
        raise UsageError("-: workers cannot read standard input: name a file that all of them see")
    piece = Piece(tuple(str(Path(path).absolute()) for path in paths), options, most)
    has_ended = False
    while not has_ended:
        [(state, has_ended)] = parallel.all(read_piece, [piece])
        piece = replace(piece, state=state)
    profile: Profile = json.loads(state.profile())
    return profile
