"""The packages of `make dist`: in clean Debians, the core works from nothing, and removing it leaves nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def packages() -> Path:
    """Returns a directory with the wheel and the Debian packages of this checkout."""
    subprocess.run(["scripts/dist", "x86_64", "deb", "deb-full", "rescue"], cwd=ROOT, check=True, capture_output=True)
    return ROOT / "dist"


def in_clean_debian(release: str, name: str) -> str:
    """Runs tests/packaging/clean/NAME in a Debian that has nothing; returns what it prints."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed: apt-get install mmdebstrap")
    environment = {**os.environ, "RELEASE": release}
    command = ["scripts/try-packages", name]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.proof
@pytest.mark.parametrize("name", ["wheel", "deb", "pipx", "upgrade"])
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_package_works_in_a_clean_debian(release: str, name: str, packages: Path) -> None:
    assert packages.exists()
    assert "202,226 events" in in_clean_debian(release, name)


@pytest.mark.proof
def test_the_archive_for_rescue_systems_needs_no_python(packages: Path) -> None:
    assert packages.exists()
    assert "works without Python, and with busybox alone" in in_clean_debian("bookworm", "rescue")


@pytest.mark.proof
def test_the_full_package_has_all_commands(packages: Path) -> None:
    assert packages.exists()
    printed = in_clean_debian("bookworm", "deb-full")
    assert "202,226 events" in printed
    assert "iops: 1 better." in printed


@pytest.mark.proof
def test_the_full_package_refuses_another_python(packages: Path) -> None:
    assert packages.exists()
    assert "Depends: python3 (< 3.12)" in in_clean_debian("trixie", "deb-full")


@pytest.mark.proof
@pytest.mark.parametrize("reader", ["administrator", "performance-engineer", "kernel-developer"])
def test_a_reader_gets_what_the_readme_prints(reader: str, packages: Path) -> None:
    assert packages.exists()
    printed = in_clean_debian("bookworm", reader)
    assert "first finding after" in printed
    assert printed.count("reader: ") >= 3


@pytest.mark.proof
def test_debian_package_has_no_lintian_error(packages: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed: apt-get install lintian")
    (deb,) = packages.glob("blklab_*_amd64.deb")
    done = subprocess.run(["lintian", "--allow-root", deb], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("E:")] == []


@pytest.mark.proof
@pytest.mark.parametrize("package", ["blklab", "blklab-full"])
def test_debian_package_is_the_same_if_built_twice(package: str, packages: Path, tmp_path: Path) -> None:
    (wheel,) = packages.glob("*_x86_64.whl")
    (deb,) = packages.glob(f"{package}_*_amd64.deb")
    shutil.copy(wheel, tmp_path)
    time = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    environment = {
        "HOME": os.environ["HOME"],
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "SOURCE_DATE_EPOCH": time.stdout.strip(),
    }
    command = ["scripts/debian-package", str(tmp_path), package]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    (again,) = tmp_path.glob("*_amd64.deb")
    assert again.read_bytes() == deb.read_bytes()


@pytest.mark.proof
def test_older_packages_are_removed(packages: Path) -> None:
    older = packages / "blklab-0.1.9-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    older.touch()
    subprocess.run(["scripts/dist", "x86_64", "deb", "deb-full"], cwd=ROOT, check=True, capture_output=True)
    listed = {line.split()[1] for line in (packages / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in packages.glob("blklab*")}
    assert older.name not in listed


def test_debian_package_needs_a_wheel(tmp_path: Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(
        ["scripts/debian-package", tmp_path], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "has no wheel of blklab" in done.stderr


def test_every_linked_crate_has_the_text_of_its_licence() -> None:
    printed = subprocess.run(
        [sys.executable, "scripts/licenses.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    listed, *texts = printed.split("=" * 80)
    named = {name.strip() for text in texts for name in text.strip().splitlines()[0].split(",")}
    assert {line.rpartition(": ")[0] for line in listed.splitlines() if ": " in line} == named
    assert {"Rust's standard library", "vega.js"} < named
    assert any(name.startswith("zstd-sys ") for name in named)
    assert not any(name.startswith(("proptest ", "serde_derive ")) for name in named)


def test_every_command_has_a_man_page(tmp_path: Path) -> None:
    pytest.importorskip("click_man", reason="click-man is not installed: scripts/dist")
    subprocess.run([sys.executable, ROOT / "scripts/man.py", tmp_path], check=True)
    pages = {page.name for page in tmp_path.iterdir()}
    assert {"blklab.1", "blklab-md-fix-bbl.1", "blklab-run.1", "blklab-serve.1"} <= pages
    assert ".SH OPTIONS" in (tmp_path / "blklab-md-audit.1").read_text()
