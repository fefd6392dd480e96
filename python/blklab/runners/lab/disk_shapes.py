"""Computes the virtual disks that a cell needs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blklab.experiment import documents
from blklab.runners.lab.machine.qemu import VirtualDiskShape

MIB = 1 << 20


def shapes(document: documents.LabCellDocument) -> list[VirtualDiskShape]:
    """Returns the disk of each device of a cell."""
    extra_bytes = dict(_list_extra_bytes(document["stack"], document["devices"]))
    return [
        VirtualDiskShape(
            name=device["name"],
            bytes=device["bytes"] + extra_bytes.get(index, 0),
            logical_block_size=device["virtual"]["logical_block_size"],
            physical_block_size=device["virtual"]["physical_block_size"],
            queue_depth=device["virtual"].get("queue_depth"),
            discard=device["virtual"]["discard"],
            write_back=device["queue"]["write_back"],
        )
        for index, device in enumerate(document["devices"])
    ]


def layers(document: documents.LabCellDocument) -> set[str]:
    """Returns the names of a cell's devices, arrays and volumes."""
    return {device["name"] for device in document["devices"]} | {
        table["name"] for _, table in documents.arrays_and_volumes(document["stack"])
    }


def _list_extra_bytes(node: documents.Node, devices: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yields the bytes that each layer needs on a disk besides data.

    The layers then have their stated sizes. A cache is as large as its disk, including its metadata.
    """
    for _, table in documents.arrays_and_volumes(node):
        for key, child in documents.nodes_below(table):
            if "device" in child and key != "cache":
                # md leaves room for a reshape, by size: a thousandth, at most 128 MiB (mdadm's super1.c,
                # `choose_bm_space` and `validate_geometry1`). Twice that is enough for every version. Others take less
                # than 8 MiB.
                whole_mib = devices[child["device"]]["bytes"] // 512 // MIB * MIB
                yield child["device"], min(256 * MIB, 8 * MIB + whole_mib)
