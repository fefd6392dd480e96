"""Hit ratios by cache size."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from blklab import _core
from blklab.cluster import HERE, Parallel
from blklab.documents.cache_curves import CacheCurves

POLICIES = ("smq", "bcache", "lru", "opt")


def read_curves(
    paths: Sequence[str],
    *,
    policies: Sequence[str] = POLICIES,
    blocks: Sequence[int] = (64 << 10,),
    parallel: Parallel = HERE,
    **settings: Any,
) -> CacheCurves:
    """Computes the curves of a trace; the other settings are those of `_core.cache_curves`.

    On a cluster, each policy is a task that reads the trace, at the same path as here.
    """
    common_settings = {"policies": policies, "blocks": blocks, **settings}
    if parallel.cluster is None:
        return _compute_curves({"paths": paths, **common_settings})
    absolute_paths = [str(Path(path).absolute()) for path in paths]
    tasks = [{**common_settings, "paths": absolute_paths, "policies": [policy]} for policy in policies]
    document, *other_documents = parallel.all(_compute_curves, tasks)
    for other in other_documents:
        document["assumed_volumes"] = document["assumed_volumes"] or other["assumed_volumes"]
        for block, other_block in zip(document["blocks"], other["blocks"], strict=True):
            block["curves"] += other_block["curves"]
    return document


def _compute_curves(settings: Mapping[str, object], /, *, stop: _core.Stop | None = None) -> CacheCurves:  # noqa: ARG001
    return cast("CacheCurves", json.loads(_core.cache_curves(**cast(Any, settings))))
