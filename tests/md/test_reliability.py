"""The probability of data loss, against exact values, other methods and published rates.

The exact values are those of Markov chains, computed with matrix exponentials. Failures (1.5 % a year) and rebuilds
(24 h) are exponential unless said otherwise.
"""

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from blklab._core import MdMap, loss_probabilities
from blklab.md import reliability
from blklab.md.reliability import (
    Care,
    Disk,
    Estimate,
    RedundantArray,
    array_question,
    disk_rate,
    estimate,
    in_words,
    probability,
)

YEAR = 8766.0
RATE = -math.log(1 - 0.015) / YEAR
LATENT = 0.0315 / YEAR
MONTH = 30.44 * 24
NEAR, FAR, OFFSET = 0x102, 0x201, 0x10201


def array(level: str, disks: int, layout: int = 2, rebuild: float = 24.0, **more: Any) -> RedundantArray:
    return RedundantArray(level, range(disks), rebuild, layout, **{"exponential": True} | more)


def compute(
    arrays: Sequence[RedundantArray],
    disks: int,
    *,
    years: int = 1,
    rate: float = RATE,
    latent: float = 0.0,
    scrub: float | None = None,
    owner: float = 0.0,
    ageing: float = 1.0,
) -> list[Estimate]:
    """Returns the figures of known rates: any loss, failed disks, sectors, bytes."""
    question = {
        "hours": years * YEAR,
        "draws": [([(rate, latent)], owner)] * 1000,
        "histories": 400,
        "disks": [(0, 1e12)] * disks,
        "arrays": [array_question(each, [Disk("", "hdd", 1e12)] * disks) for each in arrays],
        "scrub_days": None if scrub is None else scrub / 24,
        "data_age_hours": 0.0,
        "ageing": ageing,
    }
    return [estimate(figure) for figure in zip(*loss_probabilities(json.dumps(question)), strict=True)]


def agrees(figure: Estimate, exact: float, error: float = 0.01) -> None:
    """Checks a figure against a value of four digits, within three standard errors, and that the error is small."""
    assert figure.standard_error <= error * figure.mean
    assert figure.mean == pytest.approx(exact, abs=3 * figure.standard_error + 6e-4 * exact)


@pytest.mark.parametrize(
    ("level", "disks", "parallel", "one_year", "five_years"),
    [
        ("raid1", 2, False, 1.247e-6, 6.250e-6),
        ("raid5", 3, False, 3.741e-6, 1.875e-5),
        ("raid5", 4, False, 7.482e-6, 3.749e-5),
        ("raid5", 5, False, 1.247e-5, 6.248e-5),
        ("raid5", 6, False, 1.870e-5, 9.371e-5),
        ("raid5", 8, False, 3.490e-5, 1.749e-4),
        ("raid5", 12, False, 8.224e-5, 4.121e-4),
        ("raid6", 4, False, 6.175e-10, 3.101e-9),
        ("raid6", 6, False, 3.087e-9, 1.550e-8),
        ("raid6", 8, False, 8.642e-9, 4.340e-8),
        ("raid6", 12, False, 3.394e-8, 1.705e-7),
        ("raid6", 4, True, 3.092e-10, 1.551e-9),
        ("raid6", 8, True, 4.328e-9, 2.171e-8),
        ("raid1", 3, True, 7.730e-11, 3.878e-10),
    ],
)
def test_levels_agree_with_markov_chains(
    level: str, disks: int, parallel: bool, one_year: float, five_years: float
) -> None:
    arrays = [array(level, disks, parallel=parallel)]
    agrees(compute(arrays, disks)[0], one_year)
    agrees(compute(arrays, disks, years=5)[0], five_years)


@pytest.mark.parametrize(
    ("layout", "exact"),
    [(NEAR, {4: 2.494e-6, 6: 3.742e-6, 8: 4.989e-6}), (FAR, {4: 4.988e-6, 5: 6.235e-6, 6: 7.482e-6}),
     (OFFSET, {4: 4.988e-6, 5: 6.235e-6, 6: 7.482e-6})],
)  # fmt: skip
def test_raid10_loses_the_pairs_of_its_layout(layout: int, exact: dict[int, float]) -> None:
    for disks, value in exact.items():
        figures = compute([array("raid10", disks, layout)], disks)
        agrees(figures[0], value)
        # A pair of far copies holds half as much as one of near copies.
        lost = 1e12 if layout == NEAR else 0.5e12
        assert figures[3].mean / figures[1].mean == pytest.approx(lost / 2, rel=0.05)  # half of it is rebuilt


@pytest.mark.parametrize(
    ("window", "raid5", "raid6"),
    [(4.0, 1.250e-6, 2.413e-10), (12.0, 3.747e-6, 2.167e-9), (72.0, 2.231e-5, 7.684e-8), (168.0, 5.142e-5, 4.081e-7)],
)
def test_loss_grows_with_the_time_of_a_rebuild(window: float, raid5: float, raid6: float) -> None:
    agrees(compute([array("raid5", 4, rebuild=window)], 4)[0], raid5)
    agrees(compute([array("raid6", 8, rebuild=window)], 8)[0], raid6)


@pytest.mark.parametrize(
    ("scrub", "exact"),
    [
        (7 * 24.0, (1.034e-5, 6.203e-5, 2.892e-4, 7.16e-8)),
        (MONTH, (4.078e-5, 2.443e-4, 1.136e-3, 2.8165e-7)),
        (YEAR, (4.706e-4, 2.776e-3, 1.250e-2, 3.14e-6)),
    ],
)
def test_latent_errors_agree_with_markov_chains(scrub: float, exact: Sequence[float]) -> None:
    arrays = [("raid1", 2), ("raid5", 4), ("raid5", 8), ("raid6", 8)]
    for (level, disks), value in zip(arrays, exact, strict=True):
        figures = compute([array(level, disks)], disks, latent=LATENT, scrub=scrub)
        agrees(figures[0], value)
        assert figures[1].mean + figures[2].mean == pytest.approx(figures[0].mean)


def test_unchecked_disks_collect_errors_with_the_age_of_the_data() -> None:
    unchecked = compute([array("raid5", 4)], 4, latent=LATENT)[2].mean
    # Until a uniform time in the year, as many as are found halfway on average; failures and repairs change little.
    assert unchecked == pytest.approx(4 * RATE * YEAR * 3 * LATENT * YEAR / 2, rel=0.08)


def test_owners_time_counts_without_a_spare() -> None:
    """Against chains where the owner's time is exponential; ours is lognormal, and the year cuts off more of it."""
    for owner, bare, spare in [(24, 1.494e-5, 7.483e-6), (72, 2.972e-5, 7.490e-6), (168, 5.874e-5, 7.533e-6)]:
        agrees(compute([array("raid5", 4, spares=1)], 4, owner=owner)[0], spare)
        without = compute([array("raid5", 4)], 4, owner=owner)[0]
        assert without.mean == pytest.approx(bare, rel=0.01)
    fixed = compute([array("raid5", 4, exponential=False)], 4, owner=72.0)
    assert fixed[0].mean == pytest.approx(2.98e-5, rel=0.01)
    assert fixed[3].mean / fixed[0].mean == pytest.approx(0.876 * 3e12, rel=0.01)  # the rebuild has done the rest
    spared = compute([array("raid5", 4, exponential=False, spares=1)], 4, owner=72.0)
    assert spared[3].mean / spared[0].mean == pytest.approx(0.509 * 3e12, rel=0.02)


@pytest.mark.parametrize(("ageing", "raid5", "raid6"), [(1.12, 1.012, 1.033), (2.0, 1.333, 2.0), (3.0, 1.8, 3.857)])
def test_disks_of_one_age_fail_together(ageing: float, raid5: float, raid6: float) -> None:
    """Against the factors beta^2/(2 beta - 1) and beta^3/(3 beta - 2)."""
    agrees(compute([array("raid5", 4)], 4, ageing=ageing)[0], raid5 * 7.482e-6)
    agrees(compute([array("raid6", 8)], 8, ageing=ageing)[0], raid6 * 8.642e-9)


def test_weibull_lives_agree_with_a_published_model() -> None:
    """Double failures of 8 disks in ten years without latent errors (Elerath and Pecht, DSN 2007)."""
    scale, shape = 461_386, 1.12
    restore = 6 + 12 * math.gamma(1.5)  # Weibull: location 6, scale 12, shape 2; only the mean counts
    for beta, exact in [(1.0, 0.386e-3), (shape, 0.251e-3)]:
        rate = (10 * YEAR / scale) ** beta / (10 * YEAR)
        figures = compute([array("raid5", 8, rebuild=restore)], 8, years=10, rate=rate, ageing=beta)
        # New disks, which are younger, are not modelled.
        assert figures[0].mean == pytest.approx(exact, rel=0.06 if beta > 1 else 0.02)


def test_fixed_times_agree_with_simulations_without_weights() -> None:
    agrees(compute([array("raid6", 8, exponential=False, parallel=True)], 8)[0], 4.33e-9)
    frequent = compute([array("raid6", 8, rebuild=168.0, exponential=False, parallel=True)], 8, rate=2e-5)[0]
    assert frequent.mean == pytest.approx(3.191e-4, abs=3 * math.hypot(0.018e-4, frequent.standard_error))
    assert frequent.mean == pytest.approx(3.177e-4, abs=3 * math.hypot(0.005e-4, frequent.standard_error))


def test_high_rates_agree_with_a_simulation_of_every_failure() -> None:
    """A plain simulation of RAID-6 of 8 disks, whose rebuilds of 168 h run at the same time."""
    rng, rate, histories, lost = random.Random(1), 1e-4, 20_000, 0
    for _ in range(histories):
        failures = sorted((rng.expovariate(rate), disk) for disk in range(8))
        repaired = [0.0] * 8
        while failures[0][0] < YEAR:
            time, disk = failures[0]
            repaired[disk] = time + 168
            if sum(end > time for end in repaired) > 2:
                lost += 1
                break
            failures[0] = (repaired[disk] + rng.expovariate(rate), disk)
            failures.sort()
    plain = lost / histories
    error = math.sqrt(plain * (1 - plain) / histories)
    weighted = compute([array("raid6", 8, rebuild=168.0, exponential=False, parallel=True)], 8, rate=rate)[0]
    assert weighted.mean == pytest.approx(plain, abs=3 * math.hypot(error, weighted.standard_error))
    assert plain > 0.02
    assert error < 0.06 * plain


def test_parts_without_redundancy_are_needed_too() -> None:
    assert compute([], 1)[0].mean == pytest.approx(1.5e-2, rel=1e-9)
    assert compute([], 4)[0].mean == pytest.approx(5.866345e-2, rel=1e-6)
    assert compute([], 4, years=5)[0].mean == pytest.approx(2.609e-1, rel=2e-4)
    mirrors = [RedundantArray("raid1", [at, at + 1], 24.0, exponential=True) for at in (0, 2, 4, 6)]
    agrees(compute(mirrors, 8)[0], 4.989e-6)


def test_mirror_of_different_disks_is_as_good_as_both() -> None:
    """RAID-1 of two models: twice the product of the rates instead of the square."""
    disks = [Disk("ST3000DM001", "hdd", 3e12), Disk("MG07ACA14TA", "hdd", 14e12)]
    mixed, worse, better = (
        probability(pair, [RedundantArray("raid1", (0, 1), 10.0)], Care(scrub_days=7), years=1).disks.mean
        for pair in (disks, disks[:1] * 2, disks[1:] * 2)
    )
    assert mixed == pytest.approx(math.sqrt(worse * better), rel=0.1)


def test_degraded_array_is_at_risk_until_it_is_complete() -> None:
    hours = 100.0
    degraded = compute(
        [array("raid5", 4, rebuild=hours, exponential=False, missing=[(1, 0.0)])], 4, latent=LATENT, scrub=MONTH
    )
    errors = 1 - (1 - math.exp(-LATENT * MONTH)) / (LATENT * MONTH)
    agrees(degraded[1], 1 - math.exp(-3 * RATE * hours), 0.02)
    agrees(degraded[2], math.exp(-3 * RATE * hours) * (1 - (1 - errors) ** 3), 0.02)
    running = compute([array("raid5", 4, rebuild=hours, exponential=False, missing=[(1, -80.0)], spares=1)], 4)
    agrees(running[1], 1 - math.exp(-3 * RATE * 20), 0.02)
    assert running[3].mean / running[1].mean == pytest.approx(3e12 * 0.1, rel=0.02)  # of 20 % left, half on average
    partner = compute([array("raid10", 8, NEAR, rebuild=hours, exponential=False, missing=[(1, 0.0)])], 8)
    agrees(partner[1], 1 - math.exp(-RATE * hours), 0.02)
    tolerated = compute([array("raid6", 8, rebuild=hours, exponential=False, missing=[(1, 0.0)])], 8)
    assert 0 < tolerated[1].mean < 0.01 * degraded[1].mean


def test_rates_of_models_are_added_to_those_of_their_class() -> None:
    unknown, known = disk_rate("", "hdd"), disk_rate("exos-x16", "hdd")
    assert 100 * unknown[0] / unknown[1] == pytest.approx(1.05, abs=0.005)
    assert 100 * known[0] / known[1] == pytest.approx(0.672, rel=0.02)
    assert known == disk_rate("ST16000NM001G-2KK103", "hdd")
    assert disk_rate("ST8000NM000A", "hdd")[0] == unknown[0]  # no failure in few drive-days
    flash = disk_rate("", "nvme")
    assert 100 * flash[0] / flash[1] == pytest.approx(0.997, abs=0.005)
    rng = random.Random(1)
    rates = sorted(rng.gammavariate(flash[0], 1 / flash[1]) for _ in range(4000))
    assert rates[200] == pytest.approx(0.0007, rel=0.3)  # NetApp's best model


def test_interval_is_that_of_the_unknown_rates() -> None:
    """RAID-5 of 4 HDDs of an unknown model, without latent errors: published as mean 5.3e-6, 1.4e-7 to 1.9e-5."""
    loss = probability([Disk("", "hdd", 8e12)] * 4, [array("raid5", 4)], Care(replacement_hours=0), years=1)
    assert loss.disks.mean == pytest.approx(5.3e-6, rel=0.1)
    assert loss.disks.high == pytest.approx(1.9e-5, rel=0.15)
    assert 0.5e-7 < loss.disks.low < 2e-7
    assert loss == probability([Disk("", "hdd", 8e12)] * 4, [array("raid5", 4)], Care(replacement_hours=0), years=1)


def test_checks_and_spares_help() -> None:
    disks, plain = [Disk("", "hdd", 16e12)] * 4, RedundantArray("raid5", range(4), 24.0)
    never, monthly, weekly = (probability(disks, [plain], Care(scrub_days=days)).any.mean for days in (None, 30.44, 7))
    assert never > 20 * monthly > 60 * weekly
    bare = probability(disks, [plain]).disks.mean
    assert probability(disks, [RedundantArray("raid5", range(4), 24.0, spares=1)]).disks.mean < bare / 3


@pytest.mark.parametrize(
    ("mean", "low", "high", "words"),
    [
        (1 / 753, 1 / 12_345, 1 / 200, "1 in 750 (1 in 200 to 1 in 12,000)"),
        (2e-6, 2e-8, 1e-5, "1 in 500,000 (1 in 100,000 to less than 1 in a million)"),
        (8e-9, 2e-11, 3.6e-8, "less than 1 in a million"),
        (0, 0, 0, "less than 1 in a million"),
        (0.26, 0.012, 0.5, "26 % (50 % to 1 in 83)"),
        (0.09, 0.012, 0.5, "1 in 11 (50 % to 1 in 83)"),
    ],
)
def test_probabilities_have_two_digits(mean: float, low: float, high: float, words: str) -> None:
    assert in_words(Estimate(mean, low, high, 0)) == words


def sets_of(level: str, layout: int, disks: int) -> dict[tuple[int, ...], float]:
    """Returns the slots that share chunks, and their shares."""
    array = RedundantArray(level, range(disks), 1.0, layout)
    return dict(array_question(array, [Disk("", "hdd", 1e12)] * disks)["sets"])


def test_sets_are_those_that_the_map_cannot_lose() -> None:
    tested = 0
    for layout in (NEAR, 0x103, FAR, 0x301, OFFSET, 0x10301, 0x20201, 0x40202):
        for disks in range(2, 9):
            try:
                mapped = MdMap("raid10", layout, 16, [16 * 840] * disks)
            except ValueError:  # More copies than disks, or copies on one disk
                continue
            sets = sets_of("raid10", layout, disks)
            assert sum(sets.values()) == pytest.approx(1)
            for bits in range(1 << disks):
                lost = {slot for slot in range(disks) if bits >> slot & 1}
                assert mapped.runs_without(sorted(lost)) is not any(lost.issuperset(own) for own in sets)
            tested += 1
    assert tested > 30


def test_layouts_have_known_sets() -> None:
    def counts(layout: int) -> list[int]:
        return [len(sets_of("raid10", layout, disks)) for disks in range(3, 9)]

    assert counts(NEAR) == [3, 2, 5, 3, 7, 4]  # pairs, or a ring of odd numbers
    assert counts(FAR) == [3, 4, 5, 6, 7, 8]  # a ring
    assert counts(0x103) == [1, 4, 5, 2, 7, 8]
    assert [len(sets_of("raid10", OFFSET, disks)) for disks in (4, 5, 6, 8)] == [4, 5, 6, 8]
    assert sets_of("raid10", 0x20201, 5) == pytest.approx({(0, 1): 0.4, (2, 3): 0.2, (2, 4): 0.2, (3, 4): 0.2})
    assert sets_of("raid6", 2, 4) == {(0, 1, 2, 3): 1.0}


def test_arrays_have_the_capacity_of_their_level() -> None:
    for level, layout, data in [
        ("raid1", 0, 1),
        ("raid10", NEAR, 2),
        ("raid4", 0, 3),
        ("raid5", 2, 3),
        ("raid6", 2, 2),
    ]:
        disks = [Disk("", "hdd", 2e12)] * 3 + [Disk("", "hdd", 1e12)]
        assert array_question(RedundantArray(level, range(4), 1.0, layout), disks)["bytes"] == data * 1e12


def test_impossible_arrays_are_refused() -> None:
    disks = [Disk("", "hdd", 1e12)] * 2
    for level, layout, message in [
        ("raid0", 0, "a redundant level"),
        ("raid6", 2, "at least 4"),
        ("raid10", 0, "copies"),
    ]:
        with pytest.raises(ValueError, match=message):
            probability(disks, [RedundantArray(level, (0, 1), 1.0, layout)])


def test_every_model_has_a_rate() -> None:
    for model in reliability._RATES["models"]:
        for pattern in model["names"]:
            rate = disk_rate(pattern.replace("*", "x"), "hdd")
            assert rate[1] == pytest.approx(206.5 + model["drive_days"] / 365.25)
