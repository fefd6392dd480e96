"""What a program is linked with, as readelf says."""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.runners.lab.image.programs import NotElf, read_dependencies

PROGRAM = Path(sys.executable).resolve()
CONTENT = PROGRAM.read_bytes()


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed: apt-get install binutils")
@pytest.mark.parametrize("program", [str(PROGRAM), "/usr/bin/env", "/lib64/ld-linux-x86-64.so.2"])
def test_readelf_says_the_same(program: str) -> None:
    if not Path(program).is_file():
        pytest.skip(f"no {program}")
    output = subprocess.run(["readelf", "-dlW", program], check=True, capture_output=True, text=True).stdout
    result = read_dependencies(Path(program).read_bytes())
    assert list(result.libraries) == re.findall(r"\(NEEDED\).*\[(.*)\]", output)
    interpreters = re.findall(r"program interpreter: (.*)\]", output)
    assert [result.interpreter] == (interpreters or [None])
    paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", output)
    assert ":".join(result.directories) == "".join(paths)


@given(st.integers(0, 4096), st.binary(min_size=1, max_size=8), st.integers(64, 8192))
def test_damage_is_an_error_of_one_kind(at: int, noise: bytes, length: int) -> None:
    damaged = bytearray(CONTENT[:length])
    damaged[at : at + len(noise)] = noise
    with contextlib.suppress(NotElf):
        read_dependencies(bytes(damaged))


def test_what_is_no_elf_file_is_said() -> None:
    with pytest.raises(NotElf, match="not an ELF file"):
        read_dependencies(b"#!/bin/sh\n")
