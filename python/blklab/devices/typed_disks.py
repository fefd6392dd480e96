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
INTERFACE_SPEEDS = {1.5, 3, 6, 12, 22.5, 24}
"""Gbit/s of SATA and SAS, which titles write like a capacity: `6Gb`, `12G`."""

_CAPACITY = re.compile(r"(?<![\w.,])(\d{1,5}(?:[.,]\d{1,3})?) ?([GT])B?(?![\w/])", re.IGNORECASE | re.ASCII)
_THOUSANDS = re.compile(r"\d{1,3}[.,]\d{3}", re.ASCII)
_COUNT = re.compile(r"(\d{1,3}) ?[x×*] ?(.+)", re.IGNORECASE | re.DOTALL)
_COUNT_AS_WORD = re.compile(r"(\d{1,2}) (?!TB?\b|GB?\b|[x×*])([A-Za-z].*)", re.IGNORECASE | re.DOTALL)
_COUNT_BEHIND_CAPACITY = re.compile(r"(.+\d ?[GT]i?B?) [x×*] ?(\d{1,3})", re.IGNORECASE | re.DOTALL)
_COUNT_AT_END = re.compile(r"(.+) \(?(\d{1,3}) ?[x×*]\)?", re.IGNORECASE | re.DOTALL)
_SIZE_BEHIND = re.compile(r"(.+):([^:/]+)", re.DOTALL)
_PART_NUMBER = re.compile(r"(?<![\w-])[A-Za-z0-9][A-Za-z0-9-]{5,39}(?![\w-])", re.ASCII)
_DECIMAL_COMMA = re.compile(
    r"(?<![\w.,])((?:\d{1,3} ?[x×*] ?)?\d{1,2}),(\d{1,3} ?[TG]B?)(?!\w)", re.IGNORECASE | re.ASCII
)
_SEPARATOR = re.compile(r"[,;]| \+ ")
_DESCRIPTION = re.compile(
    r"(?:[\d.,x]|pcie|nvme|m\.?2|ssd|hdd|sata|sas|gen|intern(?:al)?|[mg]b/s|[km]b|rpm|cache|zoll|inch|nas|retail|bulk|"
    r"heatsink|with|tlc|qlc|3d|nand|bis|zu|up|to|read|write|lesen|schreiben|cmr|smr|server|desktop|new|neu)+",
    re.IGNORECASE,
)
"""Words of a title that name no disk."""

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


@dataclass(frozen=True)
class FoundDisk:
    """What the lists have for a name."""

    model: LibraryModel
    why: str = ""  # Why the model is not that of this product
    capacity: int | None = None  # Bytes that its name shows, if they are not the model's
    is_generic: bool = False  # Whether the name is that of a kind of disks, and of no product


def split_list(texts: Sequence[str]) -> list[str]:
    """Returns the disks of lists with commas. What follows a comma in a shop's title belongs to the title."""
    disks: list[str] = []
    for text in texts:
        first = len(disks)
        plain = _DECIMAL_COMMA.sub(r"\1.\2", text)
        for part in filter(None, (part.strip() for part in _SEPARATOR.split(plain))):
            if len(disks) > first and " " in disks[-1] and _only_describes(part):
                disks[-1] = f"{disks[-1]} {part}"
            else:
                disks.append(part)
    return disks


def split_count(text: str) -> tuple[int, str]:
    """Returns the number of disks and what they are: 4 and `N300:8TB` of `4xN300:8TB`; 1 without a number."""
    plain = " ".join(text.split())
    for pattern in (_COUNT, _COUNT_AS_WORD):
        if match := pattern.fullmatch(plain):
            return int(match[1]), match[2]
    # `PCIe 4.0 x4` and `Exos X18` are no counts.
    for pattern in (_COUNT_BEHIND_CAPACITY, _COUNT_AT_END):
        if match := pattern.fullmatch(plain):
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
    return parse_size(text) if match is None else _bytes_on_label(match)


def _bytes_on_label(match: re.Match[str]) -> int:
    number = match[1]
    unit = match[2].upper()
    if unit == "G" and _THOUSANDS.fullmatch(number):  # 1.000 GB
        number = re.sub("[.,]", "", number)
    return round(float(number.replace(",", ".")) * DECIMAL[unit])


def find_label(name: str) -> int | None:
    """Returns the capacity in a name, in bytes; of several the largest. Speeds of SATA and SAS are none."""
    capacities = []
    for match in _CAPACITY.finditer(name):
        size = _bytes_on_label(match)
        is_speed = match[2].upper() == "G" and size / 1e9 in INTERFACE_SPEEDS
        if not is_speed:
            capacities.append(size)
    return max(capacities, default=None)


def is_file(name: str) -> bool:
    """Returns whether a name is that of a calibrated file: shops' titles have slashes as well, as in `7 GB/s`."""
    return name.endswith(".toml") or ("/" in name and " " not in name)


def find_disks(text: str, option: str = "--devices") -> TypedDisks:
    """Returns what a user means with a text such as `2x 990 PRO 1TB`; errors name the option. Raises UsageError.

    A size with `TB` or `GB` is the disk's capacity. One with `GiB`, or a second one behind a colon, is the part of the
    disk that is used.
    """
    count, rest = split_count(text[: LONGEST + 1])
    if count == 0 or not rest or len(text) > LONGEST:
        examples = "2xpm983, '2x 990 PRO 1TB' or 4xhdd:8TB"
        raise UsageError(f"{option} {text!r}: expected a disk with a count, such as {examples}")
    name, size = split_size(rest)
    try:
        part = parse_disk_size(size) if size else None
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from None
    label = find_label(name)
    if label is None and _CAPACITY.fullmatch(size):
        label = part
    plain_name = " ".join(_CAPACITY.sub(" ", name).split())
    if not plain_name:
        raise UsageError(f"{option} {text!r}: expected what kind of disks they are, such as 4xhdd:8TB or 2xnvme:1TB")
    model_name = ALIASES.get(plain_name.lower(), name)
    if model_name in stock_models.paths():
        found = FoundDisk(stock_models.library_model(model_name))
        guess = ""
    else:
        product = _find_product(name, plain_name, label)
        if product is None or (product.model.certainty == "typical" and stock_models.has_typing_error(name)):
            raise UsageError(f"{option} {text!r}: {describe_unknown(name)}")
        found = product
        guess = _explain(found)
    capacity = found.capacity if label is None else _other_capacity(found.model, label)
    return TypedDisks(count, found.model, part or label or capacity, capacity, guess)


def describe_unknown(name: str) -> str:
    """Returns what to do about a disk that no list has."""
    suggestion = stock_models.suggest_models(name)
    end = "" if suggestion.endswith("?") else "."
    return (
        f"no such disk is known; {suggestion}{end} Or write its class: hdd, ssd or nvme, with its size, such as "
        "2xnvme:1TB"
    )


def _find_product(name: str, plain_name: str, label: int | None) -> FoundDisk | None:
    """Returns what the lists have for a name; None if it is unknown.

    What a part number says comes before words, products of the library before their classes, and these before kinds of
    disks.
    """
    dashed = re.sub(r"[^a-z0-9]+", "-", plain_name.lower()).strip("-")
    if dashed in stock_models.paths():
        return FoundDisk(stock_models.library_model(dashed))
    by_name = stock_models.identify(name, label)
    if by_name is not None and by_name.model.certainty != "typical":
        return FoundDisk(by_name.model, by_name.why, by_name.capacity)
    of_trade = _find_trade_name(plain_name, label)
    by_number = _find_part_number(name, label)
    if by_number is not None:
        is_product = of_trade is not None and of_trade.model.certainty != "typical"
        if of_trade is None or not is_product or of_trade.model.device_class != by_number.model.device_class:
            return by_number
    if of_trade is not None and not of_trade.is_generic:
        return of_trade
    return FoundDisk(by_name.model, by_name.why) if by_name is not None else of_trade


def _find_part_number(name: str, label: int | None) -> FoundDisk | None:
    """Returns what the library has for a part number in a name, a product before a class."""
    found = []
    for number in _part_numbers(name):
        for spelling in dict.fromkeys((number, number.upper())):
            if match := stock_models.identify(spelling, label):
                capacity = match.capacity or _capacity_in_number(number, match.model)
                found.append(FoundDisk(match.model, match.why, capacity))
    products = [disk for disk in found if disk.model.certainty != "typical"]
    return next(iter(products or found), None)


def _part_numbers(name: str) -> list[str]:
    """Returns the words of a name that may be part numbers: with letters and digits."""
    words = _PART_NUMBER.findall(name)
    return [word for word in words if re.search(r"\d", word) and re.search("[A-Za-z]", word)]


_CAPACITIES_IN_NUMBERS = (
    (r"WD(\d{2})[A-Z]", 100e9),  # WD80EFZZ: 8 TB
    (r"WD(\d{2})\d[A-Z]", 1e12),  # WD181KRYZ: 18 TB
    (r"WD(\d{2})00[A-Z]", 10e9),  # WD5000AAKS: 500 GB
    (r"WD(\d)00\d[A-Z]", 1e12),  # WD8003FFBX: 8 TB
    (r"ST(\d{3,5})[A-Z]{2}", 1e9),
    (r"CT(\d{3,4})[A-Z]", 1e9),
    (r"MG\d{2}[A-Z]{3}(\d{1,2})T", 1e12),
)
"""Patterns of part numbers that show the capacity, and the bytes of one."""


def _capacity_in_number(number: str, model: LibraryModel) -> int | None:
    """Returns the capacity that a part number shows, if it is not the model's; None if it shows none."""
    for pattern, unit in _CAPACITIES_IN_NUMBERS:
        if match := re.match(pattern, number, re.IGNORECASE):
            return _other_capacity(model, round(int(match[1]) * unit))
    return None


def _find_trade_name(plain_name: str, label: int | None) -> FoundDisk | None:
    text = " ".join(re.sub(r"[^a-z0-9.+]+", " ", plain_name.lower()).split())
    terabytes = None if label is None else label / 1e12
    for entry in _trade_names():
        if re.search(rf"(?<![a-z0-9])(?:{entry['pattern']})(?![a-z0-9])", text) and _holds(entry, terabytes):
            model = stock_models.library_model(entry["model"])
            return FoundDisk(model, entry.get("about", ""), is_generic=entry.get("generic", False))
    return None


def _holds(entry: dict[str, Any], terabytes: float | None) -> bool:
    """Returns whether a line is for disks of this capacity; one with bounds is for none that is not known."""
    if terabytes is None:
        return "from" not in entry and "below" not in entry
    least: float = entry.get("from", 0)
    most: float = entry.get("below", float("inf"))
    return least <= terabytes < most


def _explain(found: FoundDisk) -> str:
    """Returns why a disk is simulated as a model that is not its own; empty if the model is its own."""
    if found.model.certainty != "typical":
        return found.why
    reason = "" if not found.why or found.why.startswith("the typical disk") else f" ({found.why})"
    name = found.model.name
    guess = f"this product is not in the library; simulated as the typical disk of its class: {name}{reason}"
    difference = WRONG_CLASS.get(name)
    return f"{guess}. If it is of another class: {difference}" if difference else guess


def _other_capacity(model: LibraryModel, label: int) -> int | None:
    """Returns the capacity of a disk; None if it is the model's."""
    capacity = stock_models.stock(model.name).get("capacity")
    if not capacity or (label <= capacity and abs(label / capacity - 1) <= SAME_CAPACITY):
        return None
    return label


def _only_describes(part: str) -> bool:
    """Returns whether a part of a list with commas names no disk: `2 TB`, `PCIe 4.0`, `7.450 MB/s`."""
    if split_count(part)[0] != 1 or _COUNT.fullmatch(part):
        return False
    words = _CAPACITY.sub(" ", part).split()
    return all(_DESCRIPTION.fullmatch(word) for word in words)


@cache
def _trade_names() -> list[dict[str, Any]]:
    names: list[dict[str, Any]] = read_toml(NAMES)["names"]
    return names
