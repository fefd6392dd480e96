"""Partitions and volumes above an array: where its bytes are on them."""

from blklab.md.contents import VolumeSpans, follow_spans
from blklab.md.probing import Probe
from blklab.system.spans import Span
from tests.md.conftest import Arrays

TABLES = {
    # A volume whose second half is first on the array; a crypt on it; a pool on the rest.
    "253:0": "0 1000 linear 9:0 3000\n1000 1000 linear 9:0 2000\n2000 5 linear 8:99 0\n",
    "253:1": "0 1500 crypt aes-xts-plain64 000000 0 253:0 500 1 allow_discards\n",
    "253:2": "0 100 thin-pool 253:7 9:0 128 0 0\n",
    "253:3": "nonsense\n0 x linear\n0 1 linear 9:0 99999999999999999999999\n-1 5 linear 9:0 0\n",
}


class Mapped(Probe):
    """The device mapper of a machine made of files."""

    def read_mapping(self, number: str) -> tuple[str, str]:
        return (TABLES[number], "") if number in TABLES else ("", "not told")


def spans_found(machine: Arrays, *sectors: tuple[int, int]) -> list[tuple[str, int, int, int, str]]:
    """What becomes of sectors of md0."""
    node = (machine.roots.sys / "block/md0").resolve()
    spans = [Span(512 * at, 512 * (at + many), 512 * at) for at, many in sectors]
    return [
        (place.node.name, item.begin // 512, (item.end - item.begin) // 512, item.array // 512, output)
        for place in follow_spans(node, spans, machine.roots, Mapped())
        for output in [_text_of(place)]
        for item in place.spans
    ]


def _text_of(place: VolumeSpans) -> str:
    return place.failure or ("between" if place.divided else "")


def test_nothing_above(machine: Arrays) -> None:
    machine.mirror()
    assert spans_found(machine, (0, 8), (100, 8)) == [("md0", 0, 8, 0, ""), ("md0", 100, 8, 100, "")]


def test_partitions(machine: Arrays) -> None:
    machine.mirror()
    machine.device("md0p1", "259:0", parent="md0", start="2048", size="1000")
    machine.device("md0p2", "259:1", parent="md0", start="3048", size="1000")
    assert spans_found(machine, (2040, 16), (3040, 16)) == [
        ("md0p1", 0, 8, 2048, ""),
        ("md0p1", 992, 8, 3040, ""),
        ("md0p2", 0, 8, 3048, ""),
        ("md0", 2040, 8, 2040, "between"),
    ]


def test_volumes(machine: Arrays) -> None:
    machine.mirror()
    machine.device("dm-0", "253:0", slaves="md0", dm__name="lv")
    assert spans_found(machine, (3010, 8), (1992, 16), (9000, 8)) == [
        ("dm-0", 10, 8, 3010, ""),
        ("dm-0", 1000, 8, 2000, ""),
        ("md0", 1992, 8, 1992, "between"),
        ("md0", 9000, 8, 9000, "between"),
    ]
    machine.device("dm-1", "253:1", slaves="dm-0", dm__name="crypt")
    assert spans_found(machine, (3496, 8)) == [("dm-1", 0, 4, 3500, ""), ("dm-0", 496, 4, 3496, "between")]


def test_what_is_not_followed(machine: Arrays) -> None:
    machine.mirror()
    machine.device("dm-2", "253:2", slaves="md0", dm__name="pool")
    assert spans_found(machine, (8, 8)) == [("dm-2", 8, 8, 8, "it is dm-thin-pool, expected linear or crypt")]


def test_hostile_tables(machine: Arrays) -> None:
    machine.mirror()
    machine.device("dm-3", "253:3", slaves="md0", dm__name="odd")
    assert [item[0] for item in spans_found(machine, (8, 8))] == ["dm-3"]
    machine.device("dm-4", "253:4", slaves="md0", dm__name="unread")
    assert spans_found(machine, (8, 8))[-1][-1] == "not told"
