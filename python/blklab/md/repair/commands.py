"""The commands of steps: those that a plan shows are those that are run."""

from blklab.md.repair.decide import (
    AddBitmap,
    DropBitmap,
    PutBack,
    ReAdd,
    Remove,
    SetAside,
    Step,
    Take,
)


def of(step: Step, array: str) -> list[str]:
    """Returns mdadm's arguments; nothing of steps that mdadm has no part in."""
    match step:
        case SetAside(_, path) | Remove(_, path):
            return [array, "--remove", path]
        case AddBitmap():
            return ["--grow", "--bitmap=internal", array]
        case Take(_, path):
            return [array, "--fail", path]
        case ReAdd(_, path, without_list):
            return [array, "--re-add", path, *(["--update=no-bbl"] if without_list else [])]
        case PutBack(_, path):
            return add(array, path)
        case DropBitmap():
            return ["--grow", "--bitmap=none", array]
    return []


def add(array: str, path: str) -> list[str]:
    """Returns mdadm's arguments that add a disk as a new one.

    It gets a list unless mdadm.conf says otherwise: nothing else does (mdadm 4.2: --config is not
    taken with --add).
    """
    return [array, "--add", path]
