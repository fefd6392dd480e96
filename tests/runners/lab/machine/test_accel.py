"""Which accelerator is tried, by what a machine has: made /proc and /dev trees."""

from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks, UsageError
from blklab.runners.lab.machine import qemu
from blklab.system.roots import Roots


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Roots:
    """A machine on which KVM works."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("BLKLAB_ACCEL")
    roots = Roots(proc=tmp_path / "proc", dev=tmp_path / "dev")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kvm").touch()
    (tmp_path / "proc" / "sys" / "kernel" / "random").mkdir(parents=True)
    booted(roots, "one")
    (tmp_path / "proc" / "cpuinfo").write_text("flags\t\t: fpu vme vmx sse\n")
    return roots


def booted(roots: Roots, boot: str) -> None:
    (roots.proc / "sys" / "kernel" / "random" / "boot_id").write_text(f"{boot}\n")


def test_kvm_first_then_emulation(machine: Roots) -> None:
    assert qemu.accelerators(None, machine) == ["kvm", "tcg"]
    assert qemu.accelerators("auto", machine) == ["kvm", "tcg"]
    assert qemu.accelerators("kvm", machine) == ["kvm"]
    assert qemu.accelerators("tcg", machine) == ["tcg"]


def test_the_environment_chooses_unless_it_is_asked(machine: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_ACCEL", "tcg")
    assert qemu.accelerators(None, machine) == ["tcg"]
    assert qemu.accelerators("kvm", machine) == ["kvm"]
    monkeypatch.setenv("BLKLAB_ACCEL", "xen")
    with pytest.raises(UsageError, match="accelerator 'xen': expected one of auto, kvm, tcg"):
        qemu.accelerators(None, machine)


def test_amds_virtualisation_does_as_well(machine: Roots) -> None:
    (machine.proc / "cpuinfo").write_text("flags\t\t: fpu svm\n")
    assert qemu.accelerators(None, machine) == ["kvm", "tcg"]


def test_without_the_processors_virtualisation(machine: Roots) -> None:
    (machine.proc / "cpuinfo").write_text("flags\t\t: fpu vmxnet svm_lock\n")
    assert qemu.accelerators(None, machine) == ["tcg"]
    with pytest.raises(EnvironmentLacks, match=r"has no virtualisation \(vmx, svm\); use --"):
        qemu.accelerators("kvm", machine)


def test_without_the_device(machine: Roots) -> None:
    (machine.dev / "kvm").unlink()
    assert qemu.accelerators(None, machine) == ["tcg"]
    with pytest.raises(EnvironmentLacks, match=r"cannot use KVM: .*/kvm not found"):
        qemu.accelerators("kvm", machine)


def test_a_device_for_others(machine: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    assert qemu.accelerators(None, machine) == ["tcg"]
    with pytest.raises(EnvironmentLacks, match="permission denied"):
        qemu.accelerators("kvm", machine)


def test_that_it_hangs_is_known_until_the_next_boot(machine: Roots) -> None:
    qemu.remember_silent_kvm(machine)
    assert qemu.accelerators(None, machine) == ["tcg"]
    assert qemu.accelerators("kvm", machine) == ["kvm"], "who asks for it gets it"
    booted(machine, "two")
    assert qemu.accelerators(None, machine) == ["kvm", "tcg"]
    qemu.remember_silent_kvm(machine)
    assert len(list((machine.proc.parent / "cache" / "blklab" / "lab").iterdir())) == 1


def test_what_cannot_be_noted_is_found_out_again(machine: Roots) -> None:
    (machine.proc.parent / "cache").touch()
    qemu.remember_silent_kvm(machine)
    assert qemu.accelerators(None, machine) == ["kvm", "tcg"]
