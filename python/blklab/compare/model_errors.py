"""How wrong the ratio of two predictions can be: what both have in common is wrong on both sides."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from blklab.outcome import OTHER_KERNEL


@dataclass(frozen=True)
class ModelError:
    """How uncertain a prediction is: the deviations of the logarithm of what is measured; infinite if unknown."""

    below: float  # If less is measured than predicted
    above: float  # If more is
    shared: float = 0.0  # The part that other kernels and hosts have as well
    setup: object = None  # The devices, the stack and the load: the shared part cancels between equal ones
    processors: tuple[float, float] = (0.0, 0.0)  # The parts of `below` and `above` that slow or fast hosts have
    devices: Mapping[str, float] = field(default_factory=dict)  # The parts of each model of a device, which add up
    host: object = None  # The host's prices: its part cancels between equal ones
    cell: object = None  # What was simulated, without the seed: the whole error cancels between equal ones
    is_known: bool = True  # Whether the figure is known: its interval is not too wide


def deviate_ratio(base: ModelError, other: ModelError) -> tuple[float, float]:
    """Returns the deviations of the ratio of two predictions, if less and if more is measured than predicted.

    What both sides have in common is wrong on both sides: of disks of one model, and of one host, only the difference
    counts. The error of the kernel cancels if devices, stack and load are the same.
    """
    base_shares, other_shares = _attained_shares(base), _attained_shares(other)
    device_down, device_up = _devices_of_ratio(base, other, base_shares, other_shares)
    base_devices, other_devices = sum(base.devices.values()), sum(other.devices.values())
    of_kernel = 0.0
    if base.setup is not None and base.setup == other.setup:
        shared_parts = base.shared**2 - base_devices**2, other.shared**2 - other_devices**2
        of_kernel = math.sqrt(max(0.0, min(shared_parts)))
    base_down, base_up = _scale(base.processors, base_shares)
    other_down, other_up = _scale(other.processors, other_shares)
    host_down, host_up = math.hypot(other_down, base_up), math.hypot(other_up, base_down)
    if base.host is not None and base.host == other.host:
        host_down, host_up = _common_part((base_down, base_up), (other_down, other_up))

    def own_variance(deviation: float, devices: float, processors: float) -> float:
        return max(0.0, deviation**2 - devices**2 - processors**2)

    # The ratio is larger than predicted if more than predicted is measured on the other side, and less on this one.
    down = own_variance(base.above, base_devices, base_up) + own_variance(other.below, other_devices, other_down)
    up = own_variance(base.below, base_devices, base_down) + own_variance(other.above, other_devices, other_up)
    down_rest, up_rest = (max(OTHER_KERNEL**2, part - 2 * of_kernel**2) for part in (down, up))
    return math.hypot(math.sqrt(down_rest), device_down, host_down), math.hypot(math.sqrt(up_rest), device_up, host_up)


def _attained_shares(error: ModelError) -> tuple[float, float]:
    """Returns the share of the errors of devices and processors that an interval has, below and above.

    It is less than 1 if something else limits the load, such as its own rate.
    """
    devices = sum(error.devices.values())
    slow, fast = (math.hypot(devices, processors) for processors in error.processors)
    return min(1.0, error.below / max(slow, 1e-9)), min(1.0, error.above / max(fast, 1e-9))


def _devices_of_ratio(
    base: ModelError, other: ModelError, base_shares: tuple[float, float], other_shares: tuple[float, float]
) -> tuple[float, float]:
    """Returns the deviations of a ratio that devices have, if less and if more is measured.

    Those of the models of a side add up, as in its interval.
    """
    of_base, of_other = [0.0, 0.0], [0.0, 0.0]  # Of models that contribute more to one side
    for model in base.devices.keys() | other.devices.keys():
        base_part, other_part = base.devices.get(model, 0.0), other.devices.get(model, 0.0)
        down, up = _common_part(_scale((base_part,) * 2, base_shares), _scale((other_part,) * 2, other_shares))
        total = of_base if base_part > other_part else of_other
        total[0] += down
        total[1] += up
    return math.hypot(of_base[0], of_other[0]), math.hypot(of_base[1], of_other[1])


def _common_part(base: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Returns the deviations of a ratio, down and up, from an error that moves both figures down or both up."""
    (base_down, base_up), (other_down, other_up) = base, other
    return max(0.0, other_down - base_down, base_up - other_up), max(0.0, base_down - other_down, other_up - base_up)


def _scale(parts: tuple[float, float], shares: tuple[float, float]) -> tuple[float, float]:
    return parts[0] * shares[0], parts[1] * shares[1]
