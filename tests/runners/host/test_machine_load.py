"""Load of other programs, stolen time and heat."""

from types import SimpleNamespace

import pytest

from blklab.runners.host import conditions
from blklab.runners.host.conditions import MachineLoad
from tests.system.machine import Machine

IDLE = {"user": 0.1, "system": 0.3, "iowait": 0.1, "irq": 0.0, "idle": 0.5, "steal": 0.0}


@pytest.fixture
def usage(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Ten seconds on two CPUs; `user` is the time of blklab and its programs."""
    usage = SimpleNamespace(now=100.0, user=5.0)
    clock, system = (SimpleNamespace(monotonic=lambda: usage.now), SimpleNamespace(cpu_count=lambda: 2))
    monkeypatch.setattr("blklab.runners.host.conditions.time", clock)
    monkeypatch.setattr("blklab.runners.host.conditions.os", system)
    monkeypatch.setattr(conditions, "_own_user_seconds", lambda: usage.user)
    return usage


@pytest.mark.parametrize(
    ("own_seconds", "cpu", "message"),
    [
        (0.0, IDLE, None),
        (0.0, {**IDLE, "user": 0.21}, "other programs use 21 % of the CPUs, expected at most 20 %"),
        (1.0, {**IDLE, "user": 0.21}, None),
        (16.0, {**IDLE, "user": 0.85}, None),
        (0.0, {**IDLE, "steal": 0.3}, "the hypervisor takes 30 % of the CPUs (steal)"),
    ],
)
def test_load_of_others_is_reported_without_fio(
    machine: Machine, usage: SimpleNamespace, own_seconds: float, cpu: dict[str, float], message: str | None
) -> None:
    load = MachineLoad(machine.roots)
    usage.now += 10
    usage.user += own_seconds
    warnings = load.warnings(cpu)
    assert len(warnings) == (message is not None)
    assert message is None or message in warnings[0]


def test_throttled_cpus_are_reported(machine: Machine, usage: SimpleNamespace) -> None:
    counts = machine.roots.sys / "devices/system/cpu/cpu1/thermal_throttle"
    machine.write(counts, {"core_throttle_count": "3"})
    load = MachineLoad(machine.roots)
    usage.now += 10
    assert load.warnings(IDLE) == []
    machine.write(counts, {"core_throttle_count": "5"})
    (warning,) = load.warnings(IDLE)
    assert "slowed down 2 times because of heat" in warning
