"""The jobs of a report can be given to fio again."""

from pathlib import Path

import pytest

from blklab.campaigns.setup import _measured_mix
from blklab.experiment import cells
from blklab.outcome import DirectionResult, Outcome
from blklab.runners.sim.descriptions import describe_job


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"rw": "randrw"}, ["rwmixread=70"]),
        ({"readwrite": "rw"}, ["rwmixread=70"]),
        ({"rw": "randrw", "rwmixread": "75"}, []),
        ({"rw": "randrw", "rwmixwrite": "25"}, []),
        ({"rw": "randread"}, []),
    ],
)
def test_a_mix_that_the_output_lacks_is_that_of_the_figures(options: dict[str, str], lines: list[str]) -> None:
    outcome = Outcome(read=DirectionResult(total_ios=701), write=DirectionResult(total_ios=299))
    assert _measured_mix(options, outcome) == lines
    assert _measured_mix(options, Outcome()) == []


def test_simulated_jobs_are_in_the_words_of_fio(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        'devices.a.model = "pm983"\nstacks.a.device = "a"\n[workloads.m]\nrw = "randrw"\nrwmixread = 70\n'
        'rate_iops = "700"\nrandom_distribution = "zipf:1.2"\nsize = "1GiB"\n'
    )
    (cell,) = cells.plan(path).cells
    words = describe_job(cell.document["jobs"][0]).split()
    assert words == [
        *("rw=randrw", "rwmixread=70", "bs=4k", "iodepth=1"),
        *("random_distribution=zipf:1.2", "size=1g", "rate_iops=700,300"),
    ]
