"""What a host's processors take for each step of an I/O, if only some steps were measured."""

import json
from collections.abc import Mapping

from blklab import _core

DEFAULTS: Mapping[str, int] = json.loads(_core.default_host())
"""The prices of the simulator's server of 2018."""

MEASURED = ("submit_ns", "reap_ns")
"""Prices that a measurement of single disks shows: fio's processor time of an I/O is their sum."""

PROCESSOR_TIMES = (
    "wake_ns",
    "switch_ns",
    "page_ns",
    "scsi_ns",
    "file_write_ns",
    "md_ns",
    "member_ns",
    "pass_ns",
    "copy_ns",
)
"""Other prices that depend on how fast a core is."""

PROCESSOR_RATES = ("xor_rate", "syndrome_rate")

# What lock_ns and atomic_ns say is how far cores are from each other, and not how fast they are.


def is_measured(host: Mapping[str, int]) -> bool:
    """Returns whether the processor time of an I/O is known for a host, and not only assumed."""
    return any(name in host for name in MEASURED)


def complete_prices(host: Mapping[str, int]) -> dict[str, int]:
    """Returns the prices of a host. If the time of an I/O was measured, the other prices follow it.

    A core that takes twice as long for an I/O takes twice as long for each step of md as well. Prices that the host
    has are not changed.
    """
    if not is_measured(host):
        return dict(host)
    measured_ns = sum(host.get(name, DEFAULTS[name]) for name in MEASURED)
    return scale_prices(host, measured_ns / sum(DEFAULTS[name] for name in MEASURED))


def scale_prices(host: Mapping[str, int], factor: float) -> dict[str, int]:
    """Returns a host's prices with those that it does not have: the defaults on cores that take `factor` as long."""
    prices = dict(host)
    for name in PROCESSOR_TIMES:
        prices.setdefault(name, round(DEFAULTS[name] * factor))
    if factor > 0:
        for name in PROCESSOR_RATES:
            prices.setdefault(name, max(1, round(DEFAULTS[name] / factor)))
    return prices
