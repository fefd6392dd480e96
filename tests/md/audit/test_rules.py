"""The registry: every rule has a unique, documented name, and none fails on nothing."""

import ast
import re
from pathlib import Path

import pytest

import blklab.md.audit
from blklab.diagnostic import SEVERITIES
from blklab.md.audit import RULES
from blklab.md.audit.redundancy import check_degraded
from blklab.md.model import Array, ArrayMember, Software, SyncPass

DIRECTORY = Path(str(blklab.md.audit.__file__)).parent
MANUAL = Path(__file__).parents[3] / "docs" / "howto" / "audit.md"


def names() -> set[str]:
    result = set()
    for path in DIRECTORY.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in {"make_finding", "_make_disk_finding", "Diagnostic"}:
                at = 0 if called == "Diagnostic" else 2
                if len(node.args) > at and isinstance(node.args[at], ast.Constant):
                    result.add(str(ast.literal_eval(node.args[at])))
    return result


def test_every_rule_is_in_the_manual() -> None:
    text = MANUAL.read_text()
    assert len(names()) > 30
    assert not {name for name in names() if f"`{name}`" not in text}


def test_an_array_of_which_nothing_is_known() -> None:
    for live in (True, False):
        for members in ((), (ArrayMember("sda", "/dev/sda"),)):
            array = Array(
                name="md0", path="/dev/md0", uuid="", level="", layout=0, chunk=0, raid_disks=0,
                metadata="", live=live, members=members,
            )  # fmt: skip
            for rule in RULES:
                assert all(item.severity in SEVERITIES for item in rule(array, None))


def degraded(
    level: str, layout: int, slots: int, missing: tuple[int, ...], left_hours: float = 0, checked: bool = True
) -> str:
    """Returns the finding of an array of disks of 16 TB without these members; a rebuild runs if hours are left."""
    names = [f"sd{chr(97 + slot)}" for slot in range(slots)]
    members = [
        ArrayMember(names[slot], f"/dev/{names[slot]}", slot, ("in_sync",), rotational=True)
        for slot in range(slots)
        if slot not in missing
    ]
    sectors = 16 * 10**12 // 512
    sync = None
    if left_hours:
        members.append(ArrayMember("sdx", "/dev/sdx", missing[0], ("spare",), rotational=True))
        sync = SyncPass("recover", sectors - int(left_hours * 3600 * 2 * 100_000), sectors, 100_000)
    array = Array(
        name="md0", path="/dev/md0", uuid="", level=level, layout=layout, chunk=512 << 10, raid_disks=slots,
        metadata="1.2", live=True, members=tuple(members), member_sectors=sectors, state="clean",
        degraded=len(missing), sync=sync,
    )  # fmt: skip
    [finding] = check_degraded(array, Software(checked_by="mdcheck_start.timer" if checked else ""))
    return finding.message


def chances(message: str) -> tuple[int, ...]:
    """Returns N of each `1 in N`: the mean, the interval, and apart unreadable blocks and failures."""
    return tuple(int(number.replace(",", "")) for number in re.findall(r"1 in ([\d,]*\d)", message))


def test_degraded_array_says_how_likely_data_are_lost() -> None:
    message = degraded("raid5", 2, 4, (1,))
    assert "; the next failure loses data. If failed disks are replaced in 3 days and rebuilt at 100 MiB/s, " in message
    every, high, low, blocks, disks = chances(message)
    assert high < every < low
    assert 1 / every == pytest.approx(1 / blocks + 1 / disks, rel=0.1)
    # 72 h on average, with the owner's range, and 42.4 h; 3 disks at 1.05 % a year; a spread of rates of 1.
    assert 1 / disks == pytest.approx(3 * 0.0105 / 8766 * (72 * 1.082 + 42.4), rel=0.1)
    running = degraded("raid5", 2, 4, (1,), left_hours=20)
    assert "a rebuild is running; the next failure loses data. Until the rebuild ends, the probability" in running
    assert 1 / chances(running)[4] == pytest.approx(3 * 0.0105 / 8766 * 20, rel=0.1)
    (percent,) = re.findall(r"(\d+) % for single blocks", degraded("raid5", 2, 4, (1,), checked=False))
    assert int(percent) / 100 > 10 / blocks  # in a year without checks


def test_only_the_partner_of_a_missing_mirror_counts() -> None:
    mirror, pairs = chances(degraded("raid1", 0, 2, (1,))), chances(degraded("raid10", 0x102, 8, (1,)))
    assert pairs == pytest.approx(mirror, rel=0.1)
    assert chances(degraded("raid10", 0x201, 8, (1,)))[4] == pytest.approx(mirror[4] / 2, rel=0.1)  # two neighbours
    assert chances(degraded("raid6", 2, 8, (1,)))[0] > 100 * mirror[0]


@pytest.mark.parametrize(
    ("level", "layout", "missing"),
    [("raid0", 0, (1,)), ("raid5", 2, (1, 2)), ("raid10", 0x102, (0, 1)), ("raid1", 0, (0, 1, 2, 3))],
)
def test_arrays_that_have_lost_data_have_no_probability(level: str, layout: int, missing: tuple[int, ...]) -> None:
    assert "probability" not in degraded(level, layout, 4, missing)
