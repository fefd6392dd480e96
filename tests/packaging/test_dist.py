"""The packages of `make dist`: in clean Debians, the core works from nothing, and removing it leaves nothing."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests/data/traces"

WHEEL = """
set -e
python3 -m venv /v
/v/bin/pip install -q /p/*_x86_64.whl
/v/bin/blklab --version
/v/bin/blklab trace stat /p/pgbench-raid1 | sed -n 2p
/v/bin/blklab md audit
if /v/bin/blklab report 1; then exit 1; else test $? = 3; fi
"""

TOOLS = """
set -e
apt-get update -qq
apt-get install -qq --no-install-recommends pipx >/dev/null
pipx install /p/*_x86_64.whl >/dev/null
~/.local/bin/blklab md audit
pipx uninstall blklab >/dev/null
test ! -e ~/.local/bin/blklab
python3 -m venv /u
/u/bin/pip install -q uv
export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
/u/bin/uv tool install -q --python /usr/bin/python3 /p/*_x86_64.whl
~/.local/bin/blklab md audit
~/.local/bin/blklab trace stat /p/pgbench-raid1 | sed -n 2p
"""

DEB = """
set -e
apt-get update -qq
apt-get install -qq --no-install-recommends /p/*_amd64.deb >/dev/null
blklab --version
blklab trace stat /p/pgbench-raid1 | sed -n 2p
blklab md audit
blklab md watch --textfile /tmp/blklab.prom && grep -c '^blklab_md' /tmp/blklab.prom
blklab md watch --listen 127.0.0.1:19809 2>/tmp/watch & sleep 5; grep -q listening /tmp/watch; kill $!
test ! -e /etc/systemd/system/multi-user.target.wants/blklab-md-watch.service
for page in /usr/share/man/man1/blklab-*-*.gz; do
    command=$(basename "$page" .1.gz | tr - ' ')
    $command --help >/dev/null
done
test -e /usr/share/man/man1/blklab-md-audit.1.gz
test ! -e /usr/share/man/man1/blklab-run.1.gz
if blklab report 1 2>/tmp/missing; then exit 1; else test $? = 3; fi
grep -qF "the Debian package leaves it out: pipx install 'blklab[run]'" /tmp/missing
test -e /usr/share/bash-completion/completions/blklab
dpkg -i /p/*_amd64.deb >/dev/null
apt-get purge -qq blklab >/dev/null
test ! -e /usr/lib/blklab
"""


UPGRADE = """
set -e
ours() { find / -xdev -path /p -prune -o -path /proc -prune -o -path /sys -prune -o -name '*blklab*' -print; }
ours >/tmp/before
apt-get update -qq
apt-get install -qq --no-install-recommends systemd /p/old/*.deb >/dev/null
test -e /usr/lib/blklab/blklab/old.py
systemctl --quiet enable blklab-md-watch blklab-md-textfile.timer
apt-get install -qq --no-install-recommends /p/*_amd64.deb >/dev/null
dpkg-query -W blklab | grep -v 0.1.9
test ! -e /usr/lib/blklab/blklab/old.py
systemctl is-enabled blklab-md-watch
blklab trace stat /p/pgbench-raid1 | sed -n 2p
apt-get purge -qq blklab >/dev/null
ours >/tmp/after
diff /tmp/before /tmp/after
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the wheel and the Debian package of this checkout, and a trace."""
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not installed: apt-get install debootstrap")
    subprocess.run(["scripts/dist", "x86_64", "deb"], cwd=ROOT, check=True, capture_output=True)
    directory = tmp_path_factory.mktemp("packages")
    version = subprocess.run(
        [sys.executable, "-m", "blklab.cli", "--version"], capture_output=True, text=True, check=True
    )
    number = version.stdout.split()[1]
    for file in (ROOT / "dist").glob(f"blklab[-_]{number}*"):
        shutil.copy(file, directory)
    (deb,) = directory.glob("*_amd64.deb")
    older_package(deb, directory / "old")
    for file in TRACE.glob("pgbench-raid1*"):
        (shutil.copytree if file.is_dir() else shutil.copy)(file, directory / file.name)
    return directory


def older_package(deb: Path, directory: Path) -> None:
    """Makes the package with an older version, and with a file that the newer one does not have."""
    directory.mkdir()
    subprocess.run(["dpkg-deb", "--raw-extract", deb, directory / "root"], check=True)
    control = directory / "root/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 0.1.9", control.read_text()))
    (directory / "root/usr/lib/blklab/blklab/old.py").touch()
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", directory / "root", directory / "old.deb"],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(directory / "root")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """Returns the root of a clean Debian, with the packages in /p."""
    root = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=python3-venv", request.param, root],
        check=True,
        capture_output=True,
    )
    shutil.copytree(packages, root / "p")
    for file in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(file).exists():
            shutil.copy(file, root / file[1:])
    for setting in Path("/etc/apt/apt.conf.d").iterdir():
        shutil.copy(setting, root / "etc/apt/apt.conf.d")
    return root


@pytest.mark.proof
@pytest.mark.parametrize("script", [WHEEL, TOOLS, DEB, UPGRADE], ids=["wheel", "tools", "deb", "upgrade"])
def test_package_works_in_a_clean_debian(debian: Path, script: str) -> None:
    mounted = 'mount -t proc proc /proc && mount -t sysfs sysfs /sys && exec sh -c "$0"'
    done = subprocess.run(
        ["unshare", "--mount", "chroot", debian, "sh", "-c", mounted, script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "202,226 events" in done.stdout


@pytest.mark.proof
def test_debian_package_has_no_lintian_error(packages: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed: apt-get install lintian")
    (deb,) = packages.glob("*_amd64.deb")
    done = subprocess.run(["lintian", "--allow-root", deb], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("E:")] == []


@pytest.mark.proof
def test_debian_package_is_the_same_if_built_twice(packages: Path, tmp_path: Path) -> None:
    (wheel,) = packages.glob("*_x86_64.whl")
    (deb,) = packages.glob("*_amd64.deb")
    shutil.copy(wheel, tmp_path)
    time = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": time.stdout.strip()}
    subprocess.run(["scripts/debian-package", tmp_path], cwd=ROOT, check=True, capture_output=True, env=environment)
    (again,) = tmp_path.glob("*_amd64.deb")
    assert again.read_bytes() == deb.read_bytes()


def test_every_command_has_a_man_page(tmp_path: Path) -> None:
    pytest.importorskip("click_man", reason="click-man is not installed: scripts/dist")
    subprocess.run([sys.executable, ROOT / "scripts/man.py", tmp_path], check=True)
    pages = {page.name for page in tmp_path.iterdir()}
    assert {"blklab.1", "blklab-md-fix-bbl.1", "blklab-run.1", "blklab-serve.1"} <= pages
    assert ".SH OPTIONS" in (tmp_path / "blklab-md-audit.1").read_text()
