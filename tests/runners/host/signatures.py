"""Writes onto a file what makes a device recognisable."""

import subprocess
from pathlib import Path


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def signed(kind: str, file: Path) -> None:
    """Writes what makes a device recognisable."""

    def write(offset: int, content: bytes) -> None:
        with file.open("r+b") as opened:
            opened.seek(offset)
            opened.write(content)

    match kind:
        case "swap":
            run("mkswap", file)
        case "ext4":
            run("mkfs.ext4", "-q", file)
        case "linux_raid_member":
            # Superblock 1.2 as md_p.h has it: magic, major 1, 4 KiB from the start.
            block = bytearray(4096)
            block[0:8] = bytes.fromhex("fc4e2ba901000000")
            block[16:32] = bytes(range(16))
            block[144:152] = (8).to_bytes(8, "little")
            total = sum(int.from_bytes(block[at : at + 4], "little") for at in range(0, 256, 4))
            block[216:220] = ((total & 0xFFFFFFFF) + (total >> 32)).to_bytes(4, "little")
            write(4096, bytes(block))
        case "LVM2_member":
            label = bytearray(512)
            label[0:8] = b"LABELONE"
            label[8:16] = (1).to_bytes(8, "little")
            label[20:24] = (32).to_bytes(4, "little")
            label[24:32] = b"LVM2 001"
            label[32:64] = b"0123456789abcdefghijklmnopqrstuv"
            label[16:20] = lvm_crc(bytes(label[20:])).to_bytes(4, "little")
            write(512, bytes(label))
        case "dos":
            write(0, partition_table())


def partition_table() -> bytes:
    """One Linux partition from sector 2048, of 16 MiB."""
    entry = b"\0\0\0\0\x83\0\0\0" + (2048).to_bytes(4, "little") + (32768).to_bytes(4, "little")
    return b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa"


def lvm_crc(content: bytes) -> int:
    """LVM's: CRC-32 from its own beginning, and not inverted."""
    value = 0xF597A6CF
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    return value
