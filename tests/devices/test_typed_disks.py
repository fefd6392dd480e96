"""Disks as people write them."""

import csv
from pathlib import Path

import pytest

from blklab.devices import stock_models
from blklab.devices.typed_disks import NAMES, find_disks, split_list
from blklab.errors import UsageError
from blklab.toml_files.files import read_toml

TB = 10**12


@pytest.mark.parametrize(
    ("text", "count", "model", "size"),
    [
        ("2x 990 PRO 1TB", 2, "990-pro", TB),
        ("4xN300:8TB", 4, "n300-8tb", 8 * TB),
        ("4xn300:8T", 4, "n300-8tb", 8 * TB),
        ("2 x sn850x", 2, "sn850x", None),
        ("WD80EFZZ", 1, "hdd-5400", 8 * TB),
        ("ST8000DM004", 1, "hdd-smr", 8 * TB),
        ("CT2000P310SSD8", 1, "nvme-qlc", 2 * TB),
        ("WD181KRYZ", 1, "wd181kryz", None),
        ("Samsung 990 PRO 1TB PCIe 4.0 x4", 1, "990-pro", TB),
        ("Seagate Exos X18", 1, "exos-x18", None),
        ("4 WD Red Plus 8TB", 4, "wd80efpx", 8 * TB),
        ("990 PRO 1TB 2x", 2, "990-pro", TB),
        ("WD Red Plus 8TB (4x)", 4, "wd80efpx", 8 * TB),
        ("870 EVO 1.000 GB", 1, "870-evo", TB),
        ("HDD SAS 12G 8TB", 1, "hdd-7200", 8 * TB),
        ("SSD SATA 6Gb", 1, "ssd-consumer", None),
        ("WD Red 3TB WD30EFRX", 1, "hdd-5400", 3 * TB),
        ("2x WD Black SN850X 2TB (WDS200T2X0E)", 2, "sn850x", 2 * TB),
        ("Seagate BarraCuda 24TB", 1, "hdd-7200", 24 * TB),
        ("SK hynix Gold S31 1TB SSD", 1, "ssd-consumer", TB),
        ("IronWolf 525 1TB NVMe", 1, "nvme-consumer", TB),
        ("Kingston V300 240GB", 1, "ssd-consumer", 240 * 10**9),
        ("Exos 10E2400 1.2TB SAS 10K", 1, "exos-10e2400", 1_200 * 10**9),
        ("990 PRO 2TB:500GB", 1, "990-pro", TB // 2),
        ("st16000nm001g", 1, "exos-x16", None),
        ("Exos X18 16TB x4", 4, "exos-x18", 16 * TB),
        ("8TB WD Red Plus", 1, "wd80efpx", 8 * TB),
        ("4 hdd 8TB", 4, "hdd-7200", 8 * TB),
        ("6 HDDs 4 TB", 6, "hdd-7200", 4 * TB),
        ("hdd", 1, "hdd-7200", None),
        ("2xnvme:1TB", 2, "nvme-consumer", TB),
        ("3 × ssd 500GB", 3, "ssd-consumer", TB // 2),
        ("WD Red 4TB", 1, "wd40efax", 4 * TB),
        ("WD Red 8TB", 1, "hdd-5400", 8 * TB),
        ("BarraCuda 1TB", 1, "hdd-7200", TB),
        ("BarraCuda 8TB", 1, "hdd-smr", 8 * TB),
        ("IronWolf 4TB", 1, "ironwolf-4tb", 4 * TB),
        ("IronWolf 12TB", 1, "ironwolf-8tb", 12 * TB),
        ("Crucial MX500 1TB CT1000MX500SSD1", 1, "mx500", TB),
        ("SAMSUNG MZQLB960HAJR-00007", 1, "pm983", 960_197_124_096),
        ("2xpm983:200GiB", 2, "pm983", 200 << 30),
        ("1,92TB PM9A3", 1, "pm9a3", 1_920_000_000_000),
    ],
)
def test_what_people_write_is_found(text: str, count: int, model: str, size: int | None) -> None:
    disks = find_disks(text)
    assert (disks.count, disks.model.name, disks.bytes) == (count, model, size)


def test_the_aliases_are_never_shingled() -> None:
    for text in ("hdd", "hdds", "HDD", "hard disk", "4x hdd:4TB"):
        assert find_disks(text).model.device_class == "hdd-7200"


def test_a_size_on_the_label_is_the_capacity() -> None:
    assert find_disks("990 PRO 2TB").capacity is None, "that of the model"
    assert find_disks("990 PRO 1TB").capacity == TB
    assert find_disks("nvme-consumer:500GiB").capacity is None, "a part of the disk"
    assert find_disks("990 PRO 2TB:500GB").capacity is None, "a part of the disk"
    assert find_disks("Exos X22 22TB").capacity == 22 * TB, "more than the model has"


def test_a_class_says_that_it_is_one() -> None:
    disks = find_disks("Kingston NV2 1TB")
    assert disks.model.name == "nvme-consumer"
    assert (
        "this product is not in the library; simulated as the typical disk of its class: nvme-consumer" in disks.guess
    )
    assert "nvme-datacenter" in disks.guess, "what a wrong class would change"
    assert not find_disks("nvme").guess, "the user asked for the class"


@pytest.mark.parametrize(
    ("texts", "disks"),
    [
        (["2xpm983,4xhdd-7200:2TiB"], ["2xpm983", "4xhdd-7200:2TiB"]),
        (["2x 990 PRO 1TB, 4x WD Red Plus 8TB"], ["2x 990 PRO 1TB", "4x WD Red Plus 8TB"]),
        (["Samsung 990 PRO NVMe, 2 TB, PCIe 4.0, 7.450 MB/s"], ["Samsung 990 PRO NVMe 2 TB PCIe 4.0 7.450 MB/s"]),
        (["990 PRO, MX500"], ["990 PRO", "MX500"]),
        (["N300 8 TB, 3.5 Zoll, 7.200 rpm, 256 MB Cache"], ["N300 8 TB 3.5 Zoll 7.200 rpm 256 MB Cache"]),
        (["4x WD Red Plus 8TB, 2 ssd 1TB"], ["4x WD Red Plus 8TB", "2 ssd 1TB"]),
        (["WD Red Plus 8TB x4, Kingston NV2 1TB x2"], ["WD Red Plus 8TB x4", "Kingston NV2 1TB x2"]),
        (["2x 990 PRO 1TB, WD Blue 4TB; MX500"], ["2x 990 PRO 1TB", "WD Blue 4TB", "MX500"]),
        (["4x 8TB HDD + 2x 1TB SSD"], ["4x 8TB HDD", "2x 1TB SSD"]),
        (["2x 3,84TB PM9A3, 2x PM9A3 1,92 TB"], ["2x 3.84TB PM9A3", "2x PM9A3 1.92 TB"]),
        (["2x 990 PRO 1TB, fooobar 9"], ["2x 990 PRO 1TB", "fooobar 9"]),
        (["pm983,foo"], ["pm983", "foo"]),
        ([" , ", "hdd"], ["hdd"]),
    ],
)
def test_titles_with_commas_are_one_disk(texts: list[str], disks: list[str]) -> None:
    assert split_list(texts) == disks


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0xhdd", "expected a disk with a count"),
        ("2x", "no such disk is known"),
        ("4x 8TB", "expected what kind of disks they are, such as 4xhdd:8TB"),
        ("2xpm984", "did you mean 'pm983'?"),
        ("foo", "Or write its class: hdd, ssd or nvme"),
        ("hdd:8XB", "'8XB' is not a size"),
        ("x" * 300, "expected a disk with a count"),
    ],
)
def test_what_is_unknown_is_refused_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as error:
        find_disks(text)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_every_name_leads_to_a_model_of_the_library() -> None:
    for entry in read_toml(NAMES)["names"]:
        assert entry["model"] in stock_models.paths(), entry
        assert entry.keys() <= {"pattern", "model", "about", "from", "below", "generic"}


def test_names_of_disks_are_of_the_right_kind() -> None:
    """Strings that the kernel reads on strangers' machines: no flash disk is taken for a rotating one, or otherwise."""
    wrong, unknown, total = [], 0, 0
    with (Path(__file__).parents[1] / "data/disk_names.csv").open(newline="") as lines:
        for row in list(csv.DictReader(lines))[::3]:
            total += 1
            try:
                kind = find_disks(row["name"]).model.kind
            except UsageError:
                unknown += 1
                continue
            if (kind == "hdd") != (row["kind"] == "hdd"):
                wrong.append(row["name"])
    assert not wrong
    assert unknown <= 0.05 * total
