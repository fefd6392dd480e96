"""A whole image out of real packages: only with apt-get and a mirror."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.lab.image import UserKernelOption, image, prune
from tests.runners.lab.image.test_kernels import bzimage


def silent(_: str) -> None:
    pass


def test_without_an_agent_the_remedy_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacks, match="agent is not built; run scripts/setup"):
        image("6.1", note=silent, agent=tmp_path / "none")


def test_modules_of_another_kernel_are_refused(tmp_path: Path) -> None:
    modules = tmp_path / "6.1.0-b"
    modules.mkdir()
    (modules / "modules.dep").touch()
    own = UserKernelOption(bzimage(tmp_path / "vmlinuz", "6.1.0-a"), modules)
    with pytest.raises(BlklabError, match=r"modules of 6\.1\.0-b, but .* is 6\.1\.0-a"):
        image(own, note=silent, agent=Path(__file__))


@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("apt-get", "dpkg-deb", "cpio")),
    reason="apt-get, dpkg-deb or cpio is not installed: apt-get install cpio",
)
def test_an_image_is_made_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    agent = tmp_path / "agent"
    agent.write_bytes(b"agent")
    try:
        made = image("6", note=silent, agent=agent)
    except EnvironmentLacks as error:
        if "XDG_CACHE_HOME" in str(error):  # a file of the image is missing: that is not Debian's mirror
            raise
        pytest.skip(str(error))
    assert re.fullmatch(r"\d+\.\d+\.\d+.*-cloud-amd64", made.version)
    assert {"fio", "mdadm", "lvm2", f"linux-image-{made.version}"} <= made.packages.keys()
    # cpio reads the first of the archives alone: that of the programs.
    with made.initrd.open("rb") as stream:
        listed = subprocess.run(
            ["cpio", "-it", "--quiet"], stdin=stream, stdout=subprocess.PIPE, check=True
        ).stdout.decode()
    assert {"usr/bin/fio", "usr/sbin/lvcreate", "usr/sbin/modprobe"} <= set(listed.split())
    output: list[str] = []
    assert image("6", note=output.append, agent=agent) == made
    assert not output
    prune(agent)
    assert made.initrd.is_file()
