"""Names of products that `blklab devices identify` recognises, and what it makes of their capacity."""

import csv
import json
import re
from pathlib import Path

import pytest

from blklab.devices import stock_models
from blklab.devices.identified_disks import identify_disks
from blklab.system.roots import Roots
from tests.conftest import Run
from tests.runners import changed_device

NAMES = {
    "SAMSUNG MZ7LH480HAHQ": ("pm883", 480_103_981_056),
    "SAMSUNG MZ7LH480HAHQ-00005": ("pm883", 480_103_981_056),
    "SAMSUNG MZ7LH3T8HMLT-00005": ("pm883", None),
    "MZ7LH256HAJD-00000": ("ssd-consumer", None),
    "SAMSUNG MZ7KH960HAJR-00005": ("sm883", 960_197_124_096),
    "SAMSUNG MZ7LM1T9HMJP-00005": ("ssd-datacenter", None),
    "SAMSUNG MZQLB960HAJR-00007": ("pm983", 960_197_124_096),
    "SAMSUNG MZQL21T9HCJR-00A07": ("pm9a3", 1_920_383_410_176),
    "SAMSUNG MZVLB512HBJQ-000L7": ("nvme-consumer", None),
    "SAMSUNG MZWLJ3T8HBLS-00007": ("nvme-datacenter", None),
    "Samsung SSD 870 EVO 500GB": ("870-evo", 500_107_862_016),
    "Samsung SSD 860 PRO 512GB": ("860-pro", None),
    "Samsung SSD 860 EVO 1TB": ("860-evo", 1_000_204_886_016),
    "Samsung SSD 980 PRO 2TB": ("980-pro", 2_000_398_934_016),
    "Samsung SSD 960 EVO 250GB": ("nvme-consumer", None),
    "INTEL SSDPE2KX040T8": ("p4510", 4_000_787_030_016),
    "SSDPF2KX019TZ": ("p5510", 1_920_383_410_176),
    "INTEL SSDSC2KB480G8": ("s4510", 480_103_981_056),
    "INTEL SSDSC2KG480G8": ("s4610", None),
    "INTEL SSDPED1D280GA": ("nvme-optane", None),
    "INTEL SSDPEKNW512G8": ("intel-660p", 512_110_190_592),
    "Micron_5300_MTFDDAK1T9TDS": ("ssd-datacenter", None),
    "Micron_7450_MTFDKCC1T6TFS": ("micron-7450-pro", 1_600_321_314_816),
    "CT250MX200SSD1": ("mx200", None),
    "CT500MX500SSD1": ("mx500", 500_107_862_016),
    "CT1000P3PSSD8": ("p3-plus", None),
    "CT500P1SSD8": ("nvme-qlc", None),
    "WDC WDS500G2B0A-00SM50": ("ssd-consumer", None),
    "WDS200T3X0E": ("sn770", 2_000_398_934_016),
    "WDC PC SN730 SDBQNTY-512G-1001": ("sn730", 512_110_190_592),
    "WDC WD40EFRX-68N32N0": ("wd40efrx", None),
    "WD5000AAKS-00V1A0": ("hdd-7200", None),
    "HGST HUS726040ALE614": ("hdd-7200", None),
    "ST8000DM004-2CX188": ("hdd-smr", None),
    "ST1200MM0129": ("exos-10e2400", None),
    "ST3500630AS": ("hdd-7200", None),
    "KINGSTON SA400S37240G": ("ssd-consumer", None),
    "KINGSTON SEDC500M960G": ("dc500m", 960_197_124_096),
    "KINGSTON SA2000M8500G": ("kingston-a2000", 500_107_862_016),
    "HFS512GD9TNG-62A0A": ("hynix-bc501", 512_110_190_592),
    "KXG6AZNV1T02 TOSHIBA": ("kioxia-xg6", 1_024_209_543_168),
    "KCD61LUL3T84": ("nvme-datacenter", None),
    "TOSHIBA MG04ACA400E": ("hdd-7200", None),
    "SAMSUNG HD204UI": ("hdd-5400", None),
    "SAMSUNG HD103SJ": ("hdd-7200", None),
    "SAMSUNG SP2504C": ("hdd-7200", None),
    "ST3320620AS": ("hdd-7200", None),
    "ST3500320AS": ("hdd-7200", None),
    "ST31500541AS": ("hdd-5400", None),
    "ST3300657SS": ("hdd-15000", None),
    "ST31000640SS": ("hdd-7200", None),
    "ST9300605SS": ("hdd-10000", None),
    "ST9146852SS": ("hdd-15000", None),
    "ST9500620SS": ("hdd-25-7200", None),
    "MTFDDAK256TBN-1AR1ZABHA": ("ssd-consumer", None),
    "MTFDHBE960TDF": ("nvme-datacenter", None),
    "WUS4C6432DSP3X1": ("nvme-datacenter", None),
    "WUSTR6440ASS204": ("sas-ssd", None),
    "PX05SMB040": ("sas-ssd", None),
    "XS3840SE70004": ("sas-ssd", None),
    "KINGSTON OM8PGP41024N-A0": ("nvme-consumer", None),
    "TEAM TM8FP6001T": ("nvme-consumer", None),
    "TEAM T253X1240G": ("ssd-consumer", None),
    "APPLE SSD AP0512M": ("nvme-consumer", None),
    "ADATA LEGEND 960": ("nvme-consumer", None),
    "Dell Ent NVMe CM6 MU 3.2TB": ("nvme-datacenter", None),
    "Amazon EC2 NVMe Instance Storage": ("nvme-datacenter", None),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=list(NAMES))
def test_a_product_is_recognised(name: str, expected: tuple[str, int | None]) -> None:
    found = stock_models.identify(name)
    assert found and (found.model.name, found.capacity) == expected
    if found.capacity:
        assert "a disk of the same family with" in found.why


@pytest.mark.parametrize(
    "name", ["QEMU HARDDISK", "QEMU NVMe Ctrl", "VMware Virtual NVMe Disk", "ACME 9", "", "LOGICAL VOLUME", "PERC H730"]
)
def test_other_names_are_not(name: str) -> None:
    assert stock_models.identify(name) is None


def test_a_model_of_the_user_has_sizes_and_durations(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "blklab/devices"
    own.mkdir(parents=True)
    text = (stock_models.DIRECTORY / "pm883.toml").read_text()
    text = re.sub("^capacity = .*$", 'capacity = "4TiB"', re.sub(r"\[library[^\0]*", "", text), flags=re.M)
    (own / "own.toml").write_text(re.sub("^page_read_ns = .*$", 'page_read_ns = "75us"', text, flags=re.M))
    (own / "part.toml").write_text('kind = "nvme"\ncapacity = "x"\nunits = "y"\n')
    load = 'rw = "write"\nbs = "128k"\niodepth = 32'
    assert changed_device.simulate(run, tmp_path, 'model = "own", capacity = "1TiB"', load, "1s")["write"]["iops"] > 0
    figures = tmp_path / "figures"
    rates = {"rbps": 500e6, "rseqiops": 9e4, "rrandiops": 9e4, "wbps": 500e6, "wseqiops": 8e4, "wrandiops": 8e4}
    figures.write_text(" ".join(f"{key}={value:.0f}" for key, value in rates.items()))
    assert run("devices", "import", figures, "--model", "own").status == 0
    fio = tmp_path / "fio.json"
    job = {"jobname": "a", "groupid": 0, "read": {"iops": 5e4}, "write": {"iops": 0.0},
           "job options": {"rw": "randread", "bs": "4k", "iodepth": "1", "size": "1g"}}  # fmt: skip
    fio.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    assert "a: a read took 20 µs, and flash takes longer" in run("calibrate", fio, "--model", "own").err
    experiment = tmp_path / "part.experiment"
    experiment.write_text('[devices]\nd = { model = "part", capacity = "1TiB" }\n[stacks.s]\ndevice = "d"\n'
                          '[workloads.w]\nrw = "read"\ntime_based = true\n[settings]\nruntime = "1s"\n')  # fmt: skip
    whole = tmp_path / "whole.experiment"
    whole.write_text(experiment.read_text().replace('"part", capacity = "1TiB"', '"pm883", capacity = 0'))
    for words in (("run", experiment), ("run", whole), ("devices", "import", figures, "--model", "part")):
        done = run(*words)
        assert done.status == 2 and "a bug in blklab" not in done.err, done.err


def test_each_family_has_its_model() -> None:
    families = stock_models._read(stock_models.FAMILIES)["patterns"]
    assert {family["model"] for family in families} <= set(stock_models.names())


def test_what_identify_prints_can_be_simulated(run: Run, tmp_path: Path) -> None:
    (disk,) = json.loads(run("devices", "identify", "INTEL SSDPE2KX010T8", "--json").out)
    assert disk["guess"] == "a disk of the same family with 1.82 TiB, scaled by capacity"
    load = 'rw = "write"\nbs = "128k"\niodepth = 32'
    rates = [
        changed_device.simulate(run, tmp_path, f'model = "p4510"{capacity}', load, "1s")
        for capacity in (f", capacity = {disk['capacity']}", "", ", capacity = 4_000_787_030_016")
    ]
    one, two, four = (rate["write"]["bw_bytes"] for rate in rates)
    # Another family, the P4500, has rated sequential writes of 0.6, 1.05 and 1.8 GB/s with 1, 2 and 4 TB.
    assert one / two == pytest.approx(0.6 / 1.05, rel=0.2)
    assert four / two == pytest.approx(1.8 / 1.05, rel=0.2)
    lows = [rate["interval"]["iops"][0] for rate in rates]
    assert lows[0] < lows[1] > lows[2], "the interval is wider"


def expected_classes(row: dict[str, str]) -> set[str]:
    """Returns the classes that are right for a name of tests/data/disk_names.csv."""
    if row["class"]:
        return {row["class"].replace("nvme-optane-like", "nvme-optane")}
    if row["kind"] == "ssd":
        return {"ssd-consumer", "ssd-datacenter", "ssd-qlc"}
    if row["recording"] == "SMR":
        return {"hdd-smr"}
    conventional = {"hdd-5400", "hdd-7200", "hdd-10000", "hdd-15000", "hdd-25-7200"}
    return conventional if row["recording"] else {*conventional, "hdd-smr"}


def test_the_names_of_a_thousand_disks_show_their_class() -> None:
    with (Path(__file__).parents[2] / "data/disk_names.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    wrong = []
    for row in rows:
        match = stock_models.identify(row["name"])
        if match is None or match.model.device_class not in expected_classes(row):
            wrong.append((row["name"], row["family"], match and match.model.device_class))
    assert len(rows) > 1000 and len(wrong) <= 0.02 * len(rows), wrong


@pytest.mark.parametrize(
    ("name", "device_class"),
    [
        ("WDC WD80EFAX-68LHPN0", "hdd-5400"),
        ("WDC WD120EFAX-68UNTN0", "hdd-5400"),
        ("WDC WD40EFAX-68JH4N0", "hdd-smr"),
        ("WDC WD5000AVDS-63U7B1", "hdd-5400"),
        ("WDC WD121PURP-85B5SY0", "hdd-7200"),
        ("SAMSUNG MZXL53T8HBLS-00A07", "nvme-datacenter"),
        ("SAMSUNG MZILT960HBHQ-00007", "sas-ssd"),
        ("KPM5XRUG960G", "sas-ssd"),
        ("KCD6XLUL3T84", "nvme-datacenter"),
        ("INTEL SSDPE21D480GA", "nvme-optane"),
    ],
)
def test_letters_of_a_name_show_what_a_disk_is(name: str, device_class: str) -> None:
    match = stock_models.identify(name)
    assert match is not None and match.model.device_class == device_class


def test_a_disk_behind_nvme_is_none_behind_sata_though_its_name_says_only_ssd(tmp_path: Path) -> None:
    node = tmp_path / "block/nvme0n1"
    (node / "device").mkdir(parents=True)
    (node / "queue").mkdir()
    (node / "device/model").write_text("Fantasy SSD 1TB")
    (node / "queue/rotational").write_text("0")
    (node / "queue/write_cache").write_text("write back")
    (node / "size").write_text("1953525168")
    (disk,) = identify_disks(Roots(sys=tmp_path))
    assert disk.model is not None and disk.model.name == "nvme-consumer"


@pytest.mark.parametrize(
    ("name", "model", "capacity"),
    [
        ("WD_BLACK SN850X 4000GB", "sn850x", 4_000_787_030_016),
        ("WD_BLACK SN850X HS 2000GB", "sn850x", None),
        ("WDC WDS200T1X0E-00AFY0", "sn850", 2_000_398_934_016),
        ("WDC WDS500G2B0C-00PXH0", "sn550", 500_107_862_016),
        ("CT1000T500SSD8", "t500", 1_000_204_886_016),
        ("CT2000T705SSD3", "t705", None),
        ("Samsung SSD 990 EVO Plus 4TB", "990-evo-plus", 4_000_787_030_016),
        ("Samsung SSD 990 EVO 1TB", "990-evo", 1_000_204_886_016),
        ("Samsung SSD 980 500GB", "samsung-980", 500_107_862_016),
        ("KINGSTON SKC3000S1024G", "kc3000", 1_024_209_543_168),
        ("SHPP41-2000GM-2", "platinum-p41", 2_000_398_934_016),
        ("Seagate FireCuda 530 ZP2000GM30013", "firecuda-530", 2_000_398_934_016),
        ("WDC WUH721818ALE6L4", "hc550", None),
        ("ST18000NM000J-2TV103", "exos-x18", None),
    ],
)
def test_disks_of_today_are_in_the_library(name: str, model: str, capacity: int | None) -> None:
    match = stock_models.identify(name)
    assert match is not None and (match.model.name, match.capacity) == (model, capacity)
