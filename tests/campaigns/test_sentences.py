"""The first lines of a report claim only what repeats show."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from blklab.campaigns.sentences import sentences
from blklab.campaigns.view import ExperimentView
from blklab.outcome import DirectionResult, Outcome
from blklab.store.query import CampaignRow, Selection, StoredRun


def campaign(
    cells: Mapping[str, Sequence[float]], number: int = 1, options: Mapping[str, Any] | None = None
) -> Selection:
    """A campaign of schedulers, each with its IOPS in several runs."""
    row = CampaignRow(number, f"c{number}", "", "host", "", "", "", {}, {})
    runs: list[StoredRun] = []
    for scheduler, values in cells.items():
        job = {"options": {"rw": "randread", "bs": "4k", **(options or {}).get(scheduler, {})}}
        for repeat, iops in enumerate(values):
            outcome = Outcome(read=DirectionResult(9, iops=iops, bw_bytes=4096 * iops))
            labels = {"scheduler": scheduler, "repeat": str(repeat)}
            runs.append(
                StoredRun(100 * number + len(runs), number, row.name, "host", 1, labels,
                    {"jobs": [job]}, "done", None, None, 1.0, outcome, None, {})
            )  # fmt: skip
    return Selection(row.name, row, runs)


def first_lines(*campaigns: Selection) -> str:
    view = ExperimentView(campaigns, lambda _run: [])
    return " ".join(sentence.text for sentence in sentences(view))


@pytest.mark.parametrize("repeats", [3, 5])
def test_of_eight_equal_settings_none_is_called_the_fastest(repeats: int) -> None:
    """In 5 % of reports, one may be, by chance."""
    generator = np.random.default_rng(1)
    claims = 0
    for _ in range(200):
        cells = {f"s{n}": list(generator.normal(1000, 50, size=repeats)) for n in range(8)}
        text = first_lines(campaign(cells))
        claims += "is fastest with" in text or "slowest" in text or "fastest are" in text
    assert claims / 200 <= 0.05


def test_equal_settings_are_named_with_their_label() -> None:
    cells = {"none": [1000.0, 1100, 900], "bfq": [1010.0, 1090, 910]}
    assert first_lines(campaign(cells)).startswith("cannot tell which of scheduler bfq and none is fastest, ")


def test_the_fastest_is_named_with_its_lead() -> None:
    cells = {"none": [1200.0, 1201, 1199], "bfq": [700.0, 702, 701], "kyber": [1000.0, 1001, 999]}
    assert first_lines(campaign(cells)).startswith(
        "scheduler none is fastest with 1,200 IOPS, +20.0 % against kyber (interval +19.5 % to"
    )
    assert first_lines(campaign(cells)).endswith("; slowest is bfq with 701 IOPS.")


def test_what_cannot_be_distinguished_is_named_together() -> None:
    cells = {"none": [1200.0, 1210, 1190], "bfq": [700.0, 702, 701], "kyber": [1198.0, 1209, 1191]}
    text = first_lines(campaign(cells))
    assert re.fullmatch(
        "fastest are none and kyber with about 1,200 IOPS; no difference between them: the same"
        r" within ±[1234](\.\d)? %; slowest is bfq with 701 IOPS\.",
        text,
    )


def test_the_better_campaign_is_named() -> None:
    text = first_lines(
        campaign({"none": [1000.0, 1001, 999], "bfq": [700.0, 702, 701]}),
        campaign({"none": [1500.0, 1501, 1499], "bfq": [900.0, 902, 901]}, 2),
    )
    assert "c1: scheduler none is fastest" in text
    assert "c2: scheduler none is fastest" in text
    assert text.startswith(
        "c2 is better than c1 in 2 of 2 cells: scheduler=none: I/Os a second +50.0 % (1,000 to 1,500; interval "
    )
    assert "scheduler=bfq: I/Os a second +28.5 % (701 to 901; interval " in text


def test_different_workloads_are_not_ranked() -> None:
    cells = {"none": [1000.0, 1001, 999], "bfq": [700.0, 702, 701]}
    other = {"bfq": {"bs": "64k"}}
    text = first_lines(campaign(cells, options=other))
    assert text == "the cells have different workloads: they are not ranked."
    assert "against" not in first_lines(
        campaign({"none": [1000.0, 1001, 999]}), campaign({"none": [700.0, 702, 701]}, 2, {"none": {"iodepth": "32"}})
    )
