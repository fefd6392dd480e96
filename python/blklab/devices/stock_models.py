"""The library of device models: one TOML file each in `devices/` and in the user's directory; and calibrated models."""

import difflib
import fnmatch
import json
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blklab.devices.links import limit_to_link
from blklab.devices.rates.describe import MOST, describe_flash
from blklab.devices.rates.measured import RATED
from blklab.devices.rates.products import Product
from blklab.errors import UsageError
from blklab.installed_documents import document_path
from blklab.system.shingled import is_shingled
from blklab.toml_files import problems
from blklab.toml_files.fields import EXACT
from blklab.toml_files.files import read_toml
from blklab.units import SECTOR, format_size, parse_duration, parse_size

DeviceTable = dict[str, Any]
"""A device as in an experiment file."""

NO_KEYS: Mapping[str, Any] = MappingProxyType({})

DIRECTORY = Path(__file__).parent / "library"
TABLE = "device"  # The table of a calibrated file
LIBRARY = "library"  # The table that says which product a file is about
SHINGLED = "hdd-smr"  # The typical shingled disk
FAMILIES = DIRECTORY.parent / "families.toml"
SAME_CAPACITY = 0.1  # Capacities that differ by a smaller share are the same flash, with other spare space
WRITES = 0.75
"""The power of the capacity with which the rate of writes grows in a family. Data sheets have 0.5 (PM983) to 0.9
(P4510, P4500), measured consumer disks up to 1.4 (reference/foreign/iocost.csv)."""

SCALED_KEYS = ("capacity", "units", "program_bytes", "program_ns", "read_bandwidth", "write_bandwidth")
"""What scaling needs to know."""

DESCRIBED_KEYS = (*SCALED_KEYS, "page_read_ns")
"""What a flash disk must have whose rates follow from the measured disks."""

SATA_WRITES = 1e-3
"""Bytes per second for each byte of capacity that the dies of a SATA disk write at least: 480 GB fill the interface."""

FAMILY = 0.25
"""The standard deviation of a disk's rates if they come from a disk of its family with another capacity: as far as
families differ in the power above, for four times the capacity."""


DATA_SHEET = 0.15
"""The standard deviation of measured over predicted IOPS of a model that is not calibrated. The rates of the two flash
disks in reference/ differ from their data sheets by 8 % (root mean square), and models may differ from theirs by 10 %
(tests/runners/test_rated.py)."""

FLUSH = 0.5
"""The standard deviation of a flush's time, as a natural logarithm: the same disk differs by a factor of four between
days (docs/explanation/simulator.md, "Flushes")."""

UNCERTAIN = {"documentation": 0.05}  # A cloud enforces the limits that it states; an estimate


class NoSuchModel(UsageError, ValueError):
    """The library has no model of this name."""


@dataclass(frozen=True)
class LibraryModel:
    """A model of the library."""

    name: str  # As in `model = "..."`
    product: str
    device_class: str  # `hdd-7200`, `nvme-datacenter` …; a model of this name is a typical device of the class
    certainty: str  # `measured`, `data sheet`, `documentation`, `typical`, or what a user wrote
    source: str
    kind: str
    match: tuple[str, ...] = ()  # Patterns of what the kernel says of such a device
    rated: Mapping[str, float] = field(default_factory=dict)
    """What its maker states: `random_read_iops`, `random_write_iops` of a new disk, `steady_random_write_iops` of a
    used one (4 KiB), `read_bandwidth`, `write_bandwidth` (bytes/s), `average_seek_ms`, `written_bytes` until
    the warranty ends."""

    spread: float = 0.0  # How much devices of a class differ from the typical one, as a share
    own: bool = False  # Whether it is the user's
    flash: Mapping[str, Any] = field(default_factory=dict)
    """What is known of a flash disk whose rates follow from the measured disks: `maker`, `family`, `nand`, `dram`. Of
    other disks it is empty: they have their own rates."""


@dataclass(frozen=True)
class RatedFigure:
    """A figure of a data sheet and of the model."""

    name: str  # As in `LibraryModel.rated`
    rated: float
    simulated: float

    @property
    def error(self) -> float:
        """The difference as a share of what the maker states."""
        return self.simulated / self.rated - 1


def paths() -> dict[str, Path]:
    """Returns the files of all models by name; the user's come before blklab's."""
    directory = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "blklab" / "devices"
    try:
        user_files = {path.stem: path for path in directory.glob("*.toml") if path.is_file()}
    except OSError:
        user_files = {}
    return _builtin_files() | user_files


@cache
def _builtin_files() -> dict[str, Path]:
    return {path.stem: path for path in DIRECTORY.glob("*.toml")}


def names() -> list[str]:
    """Returns the names of all models."""
    return sorted(paths())


def library() -> list[LibraryModel]:
    """Returns all models, classes first. Raises UsageError for a broken file of the user."""
    models = [_library_model(name, path) for name, path in paths().items()]
    return sorted(models, key=lambda model: (model.certainty != "typical", model.device_class, model.name))


def library_model(name: str) -> LibraryModel:
    """Returns what the library says about a model. Raises NoSuchModel."""
    return _library_model(name, _path(name))


def _library_model(name: str, path: Path) -> LibraryModel:
    device, about = _tables(path)
    rated_figures = about.get("rated", {})
    match = about.get("match", [])
    spread = about.get("spread", 0)
    try:
        if not isinstance(match, list) or not all(0 < float(figure) < math.inf for figure in rated_figures.values()):
            raise ValueError("match must be a list, and figures positive")
        if not 0 <= float(spread) < 1 or ("average_seek_ms" in rated_figures and device.get("kind") != "hdd"):
            raise ValueError("no such spread or figure")
        return LibraryModel(
            name,
            str(about.get("name", name)),
            str(about.get("class", "")),
            str(about.get("certainty", "")),
            str(device.get("source", "")),
            str(device.get("kind", "")),
            tuple(map(str, match)),
            {str(key): float(value) for key, value in rated_figures.items()},
            float(spread),
            path.parent != DIRECTORY,
            dict(about.get("flash", {})),
        )
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"{path}: [library]: expected keys of {document_path('reference/experiments.md')}") from None


@dataclass(frozen=True)
class LibraryMatch:
    """What the library has for a disk: its model, one of its family in another capacity, or the typical one."""

    model: LibraryModel
    capacity: int | None = None  # Bytes, if they are not the model's
    why: str = ""  # Why it is not the model of this disk; empty if it is


def identify(name: str, size: int | None = None) -> LibraryMatch | None:
    """Returns what the library has for a disk of this name, as the kernel reads it, and of `size` bytes if known.

    Of the models that name products, the longest pattern decides; then the list of shingled disks, and the families in
    their order.
    """
    plain_name = " ".join(name.split())
    matching = []
    for entry in library():
        for pattern in entry.match:
            if fnmatch.fnmatchcase(plain_name.lower(), pattern.lower()):
                matching.append((entry.own, len(pattern), entry))
    if matching:
        _, _, best = max(matching, key=lambda match: match[:2])
        return LibraryMatch(best)
    if is_shingled(plain_name):
        return LibraryMatch(library_model(SHINGLED), why="the typical disk of its class, which the name shows")
    for family in _read(FAMILIES)["patterns"]:
        if (family_match := re.match(family["pattern"], plain_name, re.IGNORECASE)) is None:
            continue
        model = library_model(family["model"])
        if "size" not in family_match.groupdict():
            return LibraryMatch(model, why="the typical disk of its class, which the name shows")
        model_capacity = stock(model.name).get("capacity")
        capacity = size or _parse_capacity(family_match["size"] + family.get("unit", ""))
        if not model_capacity or abs(capacity / model_capacity - 1) <= SAME_CAPACITY:
            return LibraryMatch(model, why="a disk of the same family and capacity")
        return LibraryMatch(
            model, capacity, f"a disk of the same family with {format_size(model_capacity)}, scaled by capacity"
        )
    return None


def _parse_capacity(code: str) -> int:
    """Returns the capacity that a name has: `480` and `500G` are GB, `1T9` is 1.92 TB, and `038T` 3.84 TB."""
    digits, _, fraction = code.upper().removesuffix("B").partition("T")
    if "T" not in code.upper():
        gigabytes = float(digits.removesuffix("G"))
    else:
        terabytes = int(digits) / 10 if len(digits) == 3 and not fraction else float(f"{digits}.{fraction or 0}")
        exact = {0.9: 0.96, 1.02: 1.024, 1.9: 1.92, 3.8: 3.84, 7.6: 7.68, 15: 15.36, 30: 30.72}
        gigabytes = 1000 * exact.get(terabytes, terabytes)
    return (97_696_368 + round(1_953_504 * (gigabytes - 50))) * SECTOR  # IDEMA LBA1-03


def is_scaled(device: DeviceTable, capacity: object) -> bool:
    """Returns whether a flash disk with a capacity, as in an experiment file, is another one of its family or class."""
    new_capacity = _numeric({"capacity": capacity})["capacity"]
    numbers = [new_capacity, *map(device.get, SCALED_KEYS)]
    if not all(isinstance(number, int | float) and 0 < number <= EXACT for number in numbers):
        return False
    return bool(abs(new_capacity / device["capacity"] - 1) > SAME_CAPACITY)


def scale_to_capacity(device: DeviceTable, capacity: object) -> DeviceTable:
    """Returns a flash disk of the same family or class in another capacity: with dies and cache in proportion.

    The interface stays, so that rates which it limits stay too. The deviations grow by `FAMILY`. `capacity` is as in an
    experiment file; a device stays as it is if this, or a parameter, is none.
    """
    if not is_scaled(device, capacity):
        return device
    new_capacity = _numeric({"capacity": capacity})["capacity"]
    factor = new_capacity / device["capacity"]
    new_values = {key: max(1, round(device[key] * factor)) for key in ("units", "slc_bytes") if device.get(key)}
    writes = factor**WRITES
    if device["kind"] == "ssd" and writes < 1:  # the interface hides what the dies of a larger disk could do
        rate = device["units"] * device["program_bytes"] * 1e9 / device["program_ns"]
        writes = max(writes, min(1.0, new_capacity * SATA_WRITES / rate))
    time_factor = new_values["units"] / device["units"] / writes
    new_values |= {
        key: round(device[key] * time_factor) for key in ("program_ns", "fold_ns", "direct_ns") if device.get(key)
    }
    max_bandwidth = max(device["read_bandwidth"], device["write_bandwidth"])
    new_values["write_bandwidth"] = round(min(max_bandwidth, device["write_bandwidth"] * max(1.0, writes)))
    deviations = {
        kind: value if kind == "sync" else round(math.hypot(value, FAMILY), 3)
        for kind, value in device.get("uncertainty", {}).items()
    }
    return {**device, **new_values, "capacity": round(new_capacity), "uncertainty": deviations}


@cache
def _read(path: Path) -> DeviceTable:
    of_blklab = path.is_relative_to(FAMILIES.parent)
    return tomllib.loads(path.read_text(encoding="utf-8")) if of_blklab else read_toml(path)


def _path(name: str) -> Path:
    """Returns the file of a model. Raises NoSuchModel."""
    files = paths()
    if name not in files:
        raise NoSuchModel(f"there is no stock model {name!r}; {suggest_models(name)}")
    return files[name]


def find_models(words: Sequence[str]) -> list[LibraryModel]:
    """Returns the models whose name, class, product or kind have all words, without regard to case."""
    models = []
    for model in library():
        description = f"{model.name} {model.device_class} {model.product} {model.kind}".lower()
        if all(word.lower() in description for word in words):
            models.append(model)
    return models


TYPING_ERROR = 0.9  # The similarity of a name with a letter too many or too few
SIMILAR = 0.75  # A name that is less similar is that of another product: sn850x is no sn580
COMMON = ("hdd-7200", "ssd-consumer", "nvme-consumer")  # Of several typical disks with a word, the one that is meant


def has_typing_error(name: str) -> bool:
    """Returns whether a name is that of a model with a letter too many or too few."""
    return bool(difflib.get_close_matches(name, list(paths()), n=1, cutoff=TYPING_ERROR))


@cache
def suggest_models(name: str) -> str:
    """Returns what a user may mean with a name that no model has, for a message."""
    matches = [model.name for model in find_models(re.split(r"[\s_-]+", name))] if name.strip() else []
    likely = next((model for model in COMMON if model.partition("-")[0] == name.lower()), None)
    if likely is not None:
        return f"did you mean {likely!r}? `blklab devices list {name.lower()}` has the others"
    typing_errors = difflib.get_close_matches(name, list(paths()), n=1, cutoff=TYPING_ERROR)
    if typing_errors:
        return f"did you mean {typing_errors[0]!r}?"
    if len(matches) == 1:
        return f"did you mean {matches[0]!r}?"
    if matches:
        return f"these have the word: {problems.listing(matches)}"
    similar_names = difflib.get_close_matches(name, list(paths()), n=1, cutoff=SIMILAR)
    if similar_names:
        return f"did you mean {similar_names[0]!r}?"
    return f"`blklab devices list` has all of them; typical disks are {', '.join(COMMON)}"


def _tables(path: Path) -> tuple[DeviceTable, DeviceTable]:
    """Returns the device's table and the library's table of a file."""
    document = dict(_read(path))
    about = document.pop(LIBRARY, {})
    device = document.get(TABLE, document)
    if not isinstance(about, dict) or not isinstance(device, dict):
        raise UsageError(f"{path}: [{LIBRARY}] and [{TABLE}] must be tables")
    return _numeric(device), about


def _numeric(device: DeviceTable) -> DeviceTable:
    """Returns a device with numbers instead of `4TiB` and `75us`; what is neither is refused later."""
    result = dict(device)
    for key, value in device.items():
        with suppress(ValueError):
            if isinstance(value, str) and key.endswith(("capacity", "_bytes", "_ns")):
                result[key] = parse_duration(value) if key.endswith("_ns") else parse_size(value)
    return result


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


CONTROLLER = 0.2
"""How much the rate of small I/Os of a SATA SSD depends on its controller. Four disks on two or three controllers
differ by 0.22 in reads and 0.17 in writes with full queues (reference/foreign/fio_plot.csv): deviations of the
logarithm."""

MEASURED_HERE: Mapping[str, Any] = MappingProxyType({"controller": "that of the measurement"})
"""Keys of a disk that is measured together with the controller in front of it."""

FEATURES = ("nand", "dram", *(f"rated_{figure}" for figure in RATED))
"""Keys of a device with which a user says more of a flash disk than its model does."""


def stock(name: str, keys: Mapping[str, Any] = NO_KEYS, without: str = "") -> DeviceTable:
    """Returns a stock model's table, with the capacity and the features that a device's keys say.

    What a file of the user states comes before what follows from the measured disks. Nothing that a source measured
    counts whose name is `without`. Raises NoSuchModel.
    """
    table, about = _tables(_path(name))
    deviation = about.get("spread") or UNCERTAIN.get(str(about.get("certainty")), DATA_SHEET)
    deviations = {**dict.fromkeys(("read", "write", "mixed"), deviation), "sync": FLUSH}
    own_deviations = table.get("uncertainty", {})
    if not isinstance(own_deviations, dict) or not all(map(_is_number, own_deviations.values())):
        return table  # reading the experiment refuses it
    table = {**table, "uncertainty": {**deviations, **own_deviations}}
    scaled = scale_to_capacity(table, keys.get("capacity"))
    model = library_model(name)
    product = _product(model, scaled, keys)
    if product is None:
        described = scaled
    elif model.own:
        described = describe_flash(scaled, product, without, table.keys())
        described = {**described, "uncertainty": {**described["uncertainty"], **own_deviations}}
    else:
        described = describe_flash(scaled, product, without)
    linked = limit_to_link(described, keys.get("pcie"))
    # What a user's own file says of a disk holds behind the user's controller.
    return linked if "controller" in keys or model.own else _widen_without_controller(linked)


def _widen_without_controller(table: DeviceTable) -> DeviceTable:
    """Returns a table whose deviations say that the controller in front of a SATA SSD is not known."""
    if table.get("kind") != "ssd":
        return table
    deviations = dict(table["uncertainty"])
    for load in ("read", "write", "mixed", "cached_write"):
        if load in deviations:
            deviations[load] = round(min(MOST, math.hypot(deviations[load], CONTROLLER)), 3)
    return {**table, "uncertainty": deviations}


def _product(model: LibraryModel, table: DeviceTable, keys: Mapping[str, Any]) -> Product | None:
    """Returns the features of a flash disk whose rates follow from the measured disks; None for other devices.

    Keys that are not valid are left out: reading the experiment refuses them, and a model that is not complete.
    """
    is_complete = all(_is_number(table.get(key)) and 0 < table[key] <= EXACT for key in DESCRIBED_KEYS)
    if not model.flash or model.kind not in {"nvme", "ssd"} or not is_complete:
        return None
    features = {**model.flash, **{key: keys[key] for key in ("nand", "dram") if key in keys}}
    # A class has no data sheet.
    rated = {} if model.certainty == "typical" else {f"rated_{name}": model.rated.get(name) for name in RATED}
    for key in rated | dict.fromkeys(f"rated_{name}" for name in RATED):
        figure = _numeric({key: keys[key]})[key] if key in keys else rated.get(key)
        rated[key] = figure if isinstance(figure, int | float) and 0 < figure < EXACT else None
    dram = features.get("dram")
    return Product(
        bus="nvme" if model.kind == "nvme" else "sata",
        protected=model.device_class.endswith("datacenter"),
        capacity=table["capacity"],
        maker=str(features.get("maker", "")),
        family=str(features.get("family", "")),
        nand=str(features.get("nand", "")),
        dram=dram if isinstance(dram, bool) else None,
        **rated,
    )


def is_described(name: object) -> bool:
    """Returns whether the rates of a model follow from the measured disks, so that `FEATURES` change them."""
    if not isinstance(name, str):
        return False
    model = library_model(name)
    product = _product(model, _tables(_path(name))[0], NO_KEYS)
    return product is not None and not (product.bus == "nvme" and product.protected)


def describe_spread(name: str, keys: Mapping[str, Any]) -> str:
    """Returns how much devices of a class differ from the typical one that is simulated: `a factor of 2.7`.

    `keys` are those of the device. Raises NoSuchModel.
    """
    spread = library_model(name).spread
    if not is_described(name):
        return f"about {100 * spread:.0f} %"
    deviations = {**stock(name, keys).get("uncertainty", {}), **keys.get("uncertainty", {})}
    return f"a factor of {math.exp(max(deviations['read'], deviations['write'])):.1f}"


def describe_features(keys: Mapping[str, Any]) -> str:
    """Returns the features that a device's keys state: ` with nand = "qlc", dram = false`; empty without any."""
    features = []
    for key in FEATURES:
        if key in keys:
            features.append(f"{key} = {json.dumps(keys[key])}")
    return f" with {', '.join(features)}" if features else ""


def read_calibrated(path: Path) -> DeviceTable:
    """Returns the [device] table of a file that `blklab calibrate` wrote. Raises UsageError."""
    table = read_toml(path).get(TABLE)
    if not isinstance(table, dict):
        raise UsageError(f"{path}: no table [{TABLE}]: expected a file that `blklab calibrate` wrote")
    return _numeric(table)
