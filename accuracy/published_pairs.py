"""Ratios between arrangements of the same disks: what a buyer asks first, and where errors of the disks cancel."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accuracy.published import PublishedRow
from blklab.compare.decision import is_inside
from blklab.compare.model_errors import ModelError, deviate_ratio
from blklab.outcome import NORMAL


@dataclass(frozen=True)
class PublishedPair:
    """Two arrangements that did the same test on the same host."""

    first: PublishedRow
    second: PublishedRow

    @property
    def published(self) -> float:
        """The logarithm of the ratio of the published IOPS."""
        return math.log(_iops(self.second.published) / _iops(self.first.published))

    @property
    def predicted(self) -> float:
        """The logarithm of the ratio of the predicted IOPS."""
        return math.log(_iops(self.second.predicted) / _iops(self.first.predicted))

    @property
    def reach(self) -> tuple[float, float]:
        """How far below and above the prediction the interval of the ratio reaches, as logarithms."""
        down, up = deviate_ratio(_model_error(self.first), _model_error(self.second))
        return NORMAL * down, NORMAL * up

    @property
    def inside(self) -> bool:
        """Whether the published ratio is in the interval of the predicted one."""
        down, up = self.reach
        return is_inside(self.published - self.predicted, (-down, up))

    @property
    def is_decided(self) -> bool:
        """Whether blklab says that one of them is faster: its interval does not hold equal rates."""
        down, up = self.reach
        return not self.predicted - down <= 0 <= self.predicted + up

    @property
    def is_order_right(self) -> bool:
        """Whether the one that is predicted to be faster was faster."""
        return self.published * self.predicted > 0


def pair_rows(rows: Sequence[PublishedRow]) -> Iterator[PublishedPair]:
    """Yields each two arrangements of the same disks with the same test. Of several runs of one, the first counts."""
    by_test: dict[tuple[str, str], dict[str, PublishedRow]] = {}
    for row in rows:
        if row.kind != "bcache":
            by_test.setdefault((row.kind, row.test), {}).setdefault(row.target, row)
    for alike in by_test.values():
        for first, second in itertools.combinations(alike.values(), 2):
            yield PublishedPair(first, second)


def _iops(figures: Mapping[str, float]) -> float:
    return max(1e-9, figures["read_iops"] + figures["write_iops"])


def _model_error(row: PublishedRow) -> ModelError:
    below, above = (abs(math.log(factor)) / NORMAL for factor in row.interval)
    return ModelError(below, above, processors=row.limits.processors, devices=row.limits.models, host="the same")
