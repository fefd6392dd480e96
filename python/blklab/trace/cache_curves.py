"""Hit ratios by cache size."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from blklab import _core

if TYPE_CHECKING:
    from blklab.documents.cache_curves import CacheCurves

POLICIES: Final = ("smq", "bcache", "lru", "opt")


def read_curves(
    paths: Sequence[str], *, policies: Sequence[str] = POLICIES, blocks: Sequence[int] = (64 << 10,), **settings: Any
) -> "CacheCurves":
    """Computes the curves of a trace; the other settings are those of `_core.cache_curves`."""
    return cast("CacheCurves", json.loads(_core.cache_curves(paths, policies=policies, blocks=blocks, **settings)))
