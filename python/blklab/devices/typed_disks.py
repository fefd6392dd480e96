"""Disks as people write them: `2x 990 PRO 1TB`, `4xN300:8TB`, `WD80EFZZ`, a shop's title."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from blklab.devices import stock_models
from blklab.devices.stock_models import SAME_CAPACITY, LibraryModel
from blklab.errors import UsageError
from blklab.toml_files.files import read_toml
from blklab.units import parse_size

NAMES = Path(__file__).parent / "trade_names.toml"

ALIASES = {
    "hdd": "hdd-7200",
    "hdds": "hdd-7200",
    "ssd": "ssd-consumer",
    "ssds": "ssd-consumer",
    "nvme": "nvme-consumer",
    "nvmes": "nvme-consumer",
}
"""Short names of the usual classes."""

LONGEST = 200  # Letters of a text: shops' titles have fewer

DECIMAL = {"G": 10**9, "T": 10**12}
_COUNT = re.compile(r"(\d{1,3}) ?[x×*] ?(.+)", re.IGNORECASE | re.DOTALL)
_COUNT_OF_CLASS = re.compile(r"(\d{1,3}) ((?:hdd|ssd|nvme)s?\b.*)", re.IGNORECASE | re.DOTALL)
_COUNT_BEHIND = re.compile(r"(.+) [x×*] ?(\d{1,3})", re.IGNORECASE | re.DOTALL)
_SIZE_BEHIND = re.compile(r"(.+):([^:/]+)", re.DOTALL)
_CAPACITY = re.compile(r"(?<![\w.,])(\d{1,5}(?:[.,]\d{1,3})?) ?([GT])B?(?![\w/])", re.IGNORECASE | re.ASCII)
_PART_NUMBER = re.compile(r"(?=[A-Z0-9-]*[0-9])(?=[A-Z0-9-]*[A-Z])[A-Z0-9][A-Z0-9-]{5,}", re.IGNORECASE | re.ASCII)

WRONG_CLASS = {
    "hdd-7200": "a shingled disk (hdd-smr) is far slower in random writes, one of 5,400 rpm (hdd-5400) a little in all",
    "hdd-5400": "a shingled disk (hdd-smr) is far slower in random writes, one of 7,200 rpm (hdd-7200) a little faster",
    "hdd-smr": "a disk that is not shingled (hdd-7200) is far faster in random writes",
    "ssd-consumer": "a disk for servers (ssd-datacenter) is far faster in writes that must be durable at once",
    "nvme-consumer": "a disk for servers (nvme-datacenter) is far faster in writes that must be durable at once, "
    "one of QLC cells (nvme-qlc) slower in long writes",
    "nvme-datacenter": "a disk for desktops (nvme-consumer) is far slower in writes that must be durable at once",
    "ssd-datacenter": "a disk for desktops (ssd-consumer) is far slower in writes that must be durable at once",
}
"""What would be different if a disk is of another class than the one for which it is taken."""


@dataclass(frozen=True)
class TypedDisks:
    """Equal disks as a user wrote them."""

    count: int
    model: LibraryModel
    bytes: int | None  # What is used of each; None: all
    capacity: int | None = None  # What each has, if it is not the model's
    guess: str = ""  # Why the model is not that of this product; empty if it is


def split_list(texts: Sequence[str]) -> list[str]:
    """Returns the disks of lists with commas. What follows a comma in a shop's title belongs to the title."""
    disks: list[str] = []
    for text in texts:
        first = len(disks)
        for part in filter(None, (part.strip() for part in text.split(","))):
            is_title = len(disks) > first and " " in disks[-1] and not _COUNT.fullmatch(part) and _only_describes(part)
            if is_title:
                disks[-1] = f"{disks[-1]} {part}"
            else:
                disks.append(part)
    return disks


def split_count(text: str) -> tuple[int, str]:
    """Returns the number of disks and what they are: 4 and `N300:8TB` of `4xN300:8TB`; 1 without a number."""
    plain = " ".join(text.split())
    if match := _COUNT.fullmatch(plain) or _COUNT_OF_CLASS.fullmatch(plain):
        return int(match[1]), match[2]
    if match := _COUNT_BEHIND.fullmatch(plain):
        return int(match[2]), match[1]
    return 1, plain


def split_size(text: str) -> tuple[str, str]:
    """Returns a name and the size behind its last colon: `N300` and `8TB` of `N300:8TB`; "" without one."""
    match = _SIZE_BEHIND.fullmatch(text)
    return (match[1].strip(), match[2].strip()) if match else (text, "")


def parse_disk_size(text: str) -> int:
    """Returns the bytes of a disk's size: `8TB` and `8T` are 8 × 10¹², as on its label; `1TiB` is 2⁴⁰.

    Raises ValueError.
    """
    match = _CAPACITY.fullmatch(text)
    if match is not None:
        return round(float(match[1].replace(",", ".")) * DECIMAL[match[2].upper()])
    return parse_size(text)


def is_decimal(text: str) -> bool:
    """Returns whether a size is as on a disk's label."""
    return _CAPACITY.fullmatch(text) is not None


def is_file(name: str) -> bool:
    """Returns whether a name is that of a calibrated file: shops' titles have slashes as well, as in `7 GB/s`."""
    return name.endswith(".toml") or ("/" in name and " " not in name)


def find_disks(text: str, option: str = "--devices") -> TypedDisks:
    """Returns what a user means with a text such as `2x 990 PRO 1TB`; errors name the option. Raises UsageError.

    A size with `TB` or `GB` is the disk's capacity. One with `GiB` is the part of the disk that is used.
    """
    count, rest = split_count(text)
    if count == 0 or not rest or len(rest) > LONGEST:
        raise UsageError(
            f"{option} {text!r}: expected a disk with a count, such as 2xpm983, '2x 990 PRO 1TB' or 4xhdd:8TB"
        )
    name, size = split_size(rest)
    try:
        part = parse_disk_size(size) if size else None
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from None
    in_name = _CAPACITY.search(name)
    label = parse_disk_size(in_name[0]) if in_name else None
    if part is not None and is_decimal(size):
        label = part
    plain_name = " ".join(_CAPACITY.sub(" ", name).split())
    if not plain_name:
        raise UsageError(f"{option} {text!r}: expected what kind of disks they are, such as 4xhdd:8TB or 2xnvme:1TB")
    model_name = ALIASES.get(plain_name.lower(), name)
    if model_name in stock_models.paths():
        model = stock_models.library_model(model_name)
        return TypedDisks(count, model, part if part is not None else label, _other_capacity(model, label))
    found = _find_product(name, plain_name, label)
    if found is None or (found[0].certainty == "typical" and stock_models.has_typing_error(name)):
        raise UsageError(f"{option} {text!r}: {describe_unknown(name)}")
    model, guess, capacity = found
    capacity = _other_capacity(model, label) if label else capacity
    return TypedDisks(count, model, part if part is not None else label or capacity, capacity, guess)


def describe_unknown(name: str) -> str:
    """Returns what to do about a disk that no list has."""
    suggestion = stock_models.suggest_models(name)
    end = "" if suggestion.endswith("?") else "."
    return (
        f"no such disk is known; {suggestion}{end} Or write its class: hdd, ssd or nvme, with its size, such as "
        "2xnvme:1TB"
    )


def _find_product(name: str, plain_name: str, label: int | None) -> tuple[LibraryModel, str, int | None] | None:
    """Returns the model of a product, why it is not that of the product, and another capacity; None if unknown.

    What the library has comes before classes, and what a part number says before words.
    """
    dashed = re.sub(r"[^a-z0-9]+", "-", plain_name.lower()).strip("-")
    if dashed in stock_models.paths():
        return stock_models.library_model(dashed), "", None
    candidates = []
    part_numbers = [number for number in _PART_NUMBER.findall(name) if not _CAPACITY.fullmatch(number)]
    for text in dict.fromkeys([name, *part_numbers, *(number.upper() for number in part_numbers)]):
        if match := stock_models.identify(text, label):
            candidates.append((match.model, _explain(match.model, match.why), match.capacity))
    if found := _find_trade_name(plain_name, label):
        candidates.append(found)
    products = [candidate for candidate in candidates if candidate[0].certainty != "typical"]
    return next(iter(products or candidates), None)


def _find_trade_name(plain_name: str, label: int | None) -> tuple[LibraryModel, str, int | None] | None:
    text = " ".join(re.sub(r"[^a-z0-9.+]+", " ", plain_name.lower()).split())
    terabytes = None if label is None else label / 1e12
    for entry in _trade_names():
        if not re.search(rf"(?<![a-z0-9])(?:{entry['pattern']})(?![a-z0-9])", text):
            continue
        if not _holds(entry, terabytes):
            continue
        model = stock_models.library_model(entry["model"])
        return model, _explain(model, entry.get("about", "")), None
    return None


def _holds(entry: dict[str, Any], terabytes: float | None) -> bool:
    """Returns whether a line is for disks of this capacity; one with bounds is for none that is not known."""
    if terabytes is None:
        return "from" not in entry and "below" not in entry
    least: float = entry.get("from", 0)
    most: float = entry.get("below", float("inf"))
    return least <= terabytes < most


def _explain(model: LibraryModel, why: str) -> str:
    """Returns why a disk is simulated as a model that is not its own; empty if the model is its own."""
    if model.certainty != "typical":
        return why
    reason = "" if not why or why.startswith("the typical disk") else f" ({why})"
    guess = f"this product is not in the library; simulated as the typical disk of its class: {model.name}{reason}"
    difference = WRONG_CLASS.get(model.name)
    return f"{guess}. If it is of another class: {difference}" if difference else guess


def _other_capacity(model: LibraryModel, label: int | None) -> int | None:
    """Returns the capacity of a disk; None if it is the model's."""
    capacity = stock_models.stock(model.name).get("capacity")
    if label is None or not capacity or abs(label / capacity - 1) <= SAME_CAPACITY:
        return None
    return label


def _only_describes(part: str) -> bool:
    """Returns whether a part of a list with commas names no disk: `2 TB`, `PCIe 4.0`, `schwarz`."""
    name, _ = split_size(part)
    plain = _CAPACITY.sub(" ", name).strip()
    if not plain:
        return True
    if plain.lower() in ALIASES or plain in stock_models.paths() or is_file(plain):
        return False
    found = _find_product(name, plain, None)
    return found is None or found[0].certainty == "typical"


@cache
def _trade_names() -> list[dict[str, Any]]:
    names: list[dict[str, Any]] = read_toml(NAMES)["names"]
    return names
