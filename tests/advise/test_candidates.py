"""The arrangements that are considered."""

from dataclasses import replace

import pytest

from blklab.advise.arrangement import Arrangement
from blklab.advise.candidates import candidates
from blklab.advise.question import Constraints, Load, Question, load_of_mix, merge_pools, read_pools
from blklab.advise.samples import Simulations
from blklab.advise.search import add_capacity, parse_excluded_kinds, relaxations, space
from blklab.errors import UsageError

READS = {"pm983": 100_000.0, "sm883": 60_000.0, "hdd-7200": 150.0}


def question(devices: str, **constraints: object) -> Question:
    wanted = Constraints(**{"failures": 1, **constraints})  # type: ignore[arg-type]
    return Question(read_pools([devices], {}, "fresh"), [load_of_mix("database", 1 << 30)], wanted, {"kernel": "6.1"})


def failures(devices: str) -> dict[str, int]:
    every, _ = candidates(question(devices), READS)
    return {of.name: of.failures for of in every}


def test_failures_that_any_disk_may_have_are_counted() -> None:
    of = failures("6xhdd-7200")
    assert of["raid5-512k-6xhdd-7200"] == 1
    assert of["raid6-512k-6xhdd-7200"] == 2
    assert of["raid10-n3-512k-6xhdd-7200"] == 2
    assert of["raid0-over-raid5-512k-6xhdd-7200"] == 1
    assert of["raid0-512k-6xhdd-7200"] == 0
    assert of["raid1-3xhdd-7200"] == 2


def test_a_cache_that_holds_data_limits_the_failures() -> None:
    of = failures("2xpm983:64GiB,4xhdd-7200:1TiB")
    assert of["raid6-512k-4xhdd-7200_lvmcache-writeback_single-pm983"] == 0
    assert of["raid6-512k-4xhdd-7200_lvmcache-writeback_raid1-2xpm983"] == 1
    assert of["raid6-512k-4xhdd-7200_lvmcache-writethrough_single-pm983"] == 2


def test_a_disk_is_a_cache_only_of_much_slower_disks() -> None:
    of = failures("1xpm983,1xsm883")
    assert not any("cache" in name for name in of)
    assert {"raid1-pm983_sm883", "raid1-wm-pm983_sm883", "raid10-f2-1x-pm983_sm883"} <= of.keys()


def test_a_large_dm_cache_has_the_chunks_that_lvm_takes() -> None:
    every, _ = candidates(question("1xpm983,2xhdd-7200"), READS)
    caches = {of.name: of for of in every if "lvmcache-writethrough" in of.name and of.name.startswith("raid1-")}
    whole = caches["raid1-2xhdd-7200_lvmcache-writethrough_single-pm983"]
    assert whole.top_table["chunk"] == 118 * (32 << 10)  # 3,840,755,982,336 bytes in at most a million chunks
    part = caches["raid1-2xhdd-7200_lvmcache-writethrough_single-pm983-60g"]
    assert (part.top_table["chunk"], part.sizes) == (64 << 10, {"pm983-1": 60 << 30})


def test_every_arrangement_can_be_built() -> None:
    asked = question("2xpm983:64GiB,4xhdd-7200:1TiB")
    every, _ = candidates(asked, READS)
    assert [of.name for of in every if not add_capacity(asked, of).capacity] == []
    names = [(of.name, bool(of.spares)) for of in every]
    assert len(names) == len(set(names)) > 300


def test_a_hot_spare_is_free_without_prices() -> None:
    every, _ = candidates(question("3xhdd-7200"), READS)
    spare = next(of for of in every if of.name == "raid1-2xhdd-7200")
    assert spare.spares == ["hdd-7200-3"]
    assert spare.words.endswith("and a hot spare")


def test_nothing_that_fits_names_the_constraint_to_relax() -> None:
    asked = question("4xhdd-7200:1TiB", failures=2, capacity=3 << 40)
    options = space(asked, Simulations(asked))
    assert options.fitting == []
    assert relaxations(asked, options.arrangements) == ["--failures 1", "--capacity 2TiB (instead of 3 TiB)"]


def test_volumes_are_searched_only_if_an_array_is_too_small() -> None:
    small, large = (
        question("2xpm983:64GiB,4xhdd-7200:1TiB", capacity=size, excluded_kinds=("lvmcache", "bcache", "writecache"))
        for size in (1 << 40, 49 << 36)  # 3.06 TiB: RAID-5 of four disks has 3 TiB
    )
    assert not any("linear" in of.kinds for of in space(small, Simulations(small)).fitting)
    fitting = space(large, Simulations(large)).fitting
    assert [of.words.startswith("an LVM volume over RAID-5") for of in fitting] == [True] * len(fitting) != []


def test_arrangements_that_cannot_run_the_load_are_left_out() -> None:
    asked = question("2xpm983:64GiB,2xhdd-7200:1TiB")
    blocks = replace(asked, loads=[Load("small", {"rw": "randread", "bs": "1k"}, "")])
    options = space(blocks, Simulations(blocks))
    assert options.fitting and not any("writecache" in of.kinds for of in options.fitting)
    assert "cannot run this load, or not with this kernel" in [each.reason for each in options.removals]
    large = replace(asked, loads=[Load("large", {"rw": "read", "size": "5t"}, "")])
    with pytest.raises(UsageError, match="no arrangement that meets the constraints can run this: "):
        space(large, Simulations(large))


def test_excluded_kinds_have_the_names_that_are_printed() -> None:
    assert parse_excluded_kinds(["RAID-10,dm-cache,", "raid5", "writeback"]) == ["10", "lvmcache", "5", "writeback"]
    with pytest.raises(UsageError, match="--exclude 'raid-7': no such level or kind; "):
        parse_excluded_kinds(["raid-7"])


def test_disks_of_this_host_and_others_are_one_pool_if_they_are_equal() -> None:
    own, other = read_pools(["2xpm983,1xsm883"], {}, "fresh"), read_pools(["3xpm983"], {}, "fresh")
    assert [(pool.name, pool.count) for pool in merge_pools(own, other)] == [("pm983", 5), ("sm883", 1)]
    part = merge_pools(own, read_pools(["3xpm983:64GiB"], {}, "fresh"))
    assert [(pool.name, pool.count) for pool in part] == [("pm983", 2), ("sm883", 1), ("pm983-2", 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0xpm983", "expected a disk with a count"),
        ("2xpm984", "no such disk is known; did you mean 'pm983'?"),
        ("aws-gp3", "the model has no capacity: add a size"),
        ("2xpm983:4XB", "is not a size"),
        ("65xpm983", "more than 64 disks"),
        ("2x./absent.toml", "absent.toml: cannot be read"),
        ("", "expected a disk with a count"),
    ],
)
def test_wrong_disks_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=".*".join(message.split("?", maxsplit=1)[0].split("'"))):
        read_pools([text], {}, "fresh")


def test_what_is_below_a_stack_is_what_it_is_made_of() -> None:
    disks = ["hdd-1", "hdd-2", "ssd-1", "ssd-2"]
    stacks: dict[str, dict[str, object]] = {
        "slow": {"level": 1, "members": disks[:2]},
        "fast": {"level": 1, "members": disks[2:]},
        "top": {"kind": "lvmcache", "mode": "writethrough", "origin": "slow", "cache": "fast"},
    }
    of = Arrangement("any", "any", stacks, disks, 1)
    assert of.below("fast").disks == disks[2:]
    assert list(of.below("fast").stacks) == ["fast"]
    assert list(of.below("slow").stacks) == ["slow"]
    # A cache that only has copies is not needed, and the array below it is.
    assert list(of.essential_stacks()) == ["slow", "top"]


def test_disks_of_a_label_are_those_of_the_host() -> None:
    own = read_pools(["2xn300-8tb"], {}, "fresh")
    merged = merge_pools(own, read_pools(["1xN300:8TB"], {}, "fresh"))
    assert [(pool.name, pool.count, pool.bytes) for pool in merged] == [("n300-8tb", 3, own[0].bytes)]


def test_equal_disks_are_counted_together_and_others_have_their_size() -> None:
    pools = read_pools(["2xpm983,1xpm983", "2x Kingston NV2 1TB, 2x WD Blue SN5000 2TB"], {}, "fresh")
    assert [(pool.name, pool.count, pool.bytes) for pool in pools] == [
        ("pm983", 3, pools[0].bytes),
        ("nvme-consumer-1tb", 2, 10**12),
        ("nvme-consumer-2tb", 2, 2 * 10**12),
    ]
