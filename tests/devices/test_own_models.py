"""Models of a user whose rates follow from the measured disks."""

import tomllib
from pathlib import Path

import pytest

from blklab.devices import stock_models
from blklab.devices.device import Uncertainty
from blklab.errors import UsageError
from blklab.experiment.cells import plan
from blklab.experiment.load import ExperimentSource

LIBRARY = '\n[library]\nclass = "{}"\nflash = {{ nand = "tlc" }}\n'


def _write(directory: Path, monkeypatch: pytest.MonkeyPatch, device: str, device_class: str = "nvme-consumer") -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory))
    path = directory / "blklab/devices/own.toml"
    path.parent.mkdir(parents=True)
    path.write_text(device + LIBRARY.format(device_class))
    return path


@pytest.mark.parametrize("kind", ["nvme-consumer", "ssd-consumer"])
@pytest.mark.parametrize(
    "change",
    [
        ("units = ", "units = 'a'\n#"),
        ("units = ", "#"),
        ("page_read_ns = ", "page_read_ns = 'a'\n#"),
        ("uncertainty = ", "uncertainty = { read = 'a' }\n#"),
        ("program_ns = ", "#"),
        ("read_bandwidth = ", "read_bandwidth = 0\n#"),
        ("uncertainty = ", "uncertainty = 3\n#"),
        ("kind = ", "kind = 'hdd'\n#"),
    ],
)
def test_a_broken_model_of_the_user_is_refused(
    kind: str, change: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (stock_models.DIRECTORY / f"{kind}.toml").read_text().partition("[library]")[0]
    path = _write(tmp_path, monkeypatch, text.replace(f"\n{change[0]}", f"\n{change[1]}", 1), kind)
    raw = {
        "devices": {"d": {"model": "own", "capacity": "2TiB"}},
        "stacks": {"alone": {"device": "d"}},
        "workloads": {"w": {"rw": "randread", "time_based": True}},
        "settings": {"runtime": "1s"},
    }
    with pytest.raises(UsageError, match=r"devices\.d\."):
        plan(ExperimentSource(path, raw))


@pytest.mark.parametrize("capacity", ["", "capacity = 0\n", 'capacity = "two"\n'])
def test_a_model_of_the_user_without_capacity_keeps_its_rates(
    capacity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (stock_models.DIRECTORY / "nvme-consumer.toml").read_text().partition("[library]")[0]
    _write(tmp_path, monkeypatch, text.replace("\ncapacity = ", f"\n{capacity}#"))
    assert "sustained_read_command_ns" not in stock_models.stock("own", {"capacity": "2TiB"})


@pytest.mark.parametrize("key", ["rated_random_read_iops", "rated_write_bandwidth", "rated_read_bandwidth"])
@pytest.mark.parametrize("figure", [1, 10**12])
@pytest.mark.parametrize("model", ["nvme-consumer", "ssd-consumer"])
def test_a_rated_figure_far_from_others_has_the_widest_interval(model: str, key: str, figure: int) -> None:
    Uncertainty.model_validate(stock_models.stock(model, {key: figure})["uncertainty"])


OWN = {
    "sustained_read_command_ns": 7_000,
    "sustained_read_bandwidth": 2_000_000_000,
    "sustained_write_command_ns": 70_000,
    "cached_write_command_ns": 9_000,
    "sustained_write_bandwidth": 1_500_000_000,
}


@pytest.mark.parametrize("kind", ["nvme-consumer", "ssd-consumer"])
def test_figures_of_the_user_come_before_computed_ones(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_file = stock_models.DIRECTORY / f"{kind}.toml"
    text = library_file.read_text().partition("[library]")[0].replace("\nuncertainty = ", "\n#")
    stated = "".join(f"{key} = {figure}\n" for key, figure in OWN.items())
    path = _write(tmp_path, monkeypatch, f"{text}{stated}uncertainty = {{ read = 0.07 }}\n", kind)
    table = stock_models.stock("own")
    assert {key: table[key] for key in OWN} == OWN
    own_keys = tomllib.loads(path.read_text())
    for key in ("units", "program_ns", "fold_ns", "slc_bytes", "flush_ns", "fua_ns"):
        if key in own_keys:
            assert table[key] == own_keys[key], key
    assert table["uncertainty"]["read"] == 0.07
    assert table["uncertainty"]["write"] == stock_models.DATA_SHEET  # Nothing is known of a file without a certainty
    Uncertainty.model_validate(table["uncertainty"])


def test_what_the_user_does_not_state_follows_from_the_measured_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (stock_models.DIRECTORY / "nvme-consumer.toml").read_text().partition("[library]")[0]
    _write(tmp_path, monkeypatch, text)
    table = stock_models.stock("own")
    for key in OWN:
        assert table[key] == pytest.approx(stock_models.stock("nvme-consumer")[key], rel=0.5), key
    assert table["uncertainty"]["cached_write"] == stock_models.stock("nvme-consumer")["uncertainty"]["cached_write"]
