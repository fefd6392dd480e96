"""The steps of a repair, and the commands that both the plan and the repair use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class _DiskStep:
    device: str
    path: str


class RemoveSpare(_DiskStep):
    """Removes a spare, so that md does not rebuild onto it while a member is out."""


@dataclass(frozen=True)
class AddBitmap:
    """Adds a bitmap, without which md rebuilds all of a member that comes back."""


class FailMember(_DiskStep):
    """Fails a member."""


class RemoveMember(_DiskStep):
    """Removes a failed member."""


@dataclass(frozen=True)
class ReAddMember(_DiskStep):
    """Re-adds a member, with or without its list."""

    without_list: bool


@dataclass(frozen=True)
class WaitForSync:
    """Waits until md has finished its sync action."""

    path: str = ""  # The member that md rebuilds; empty: any action on the array


@dataclass(frozen=True)
class StopCheck:
    """Stops a check of the array, after which md would only rebuild the member that is back."""

    path: str


class AddSpare(_DiskStep):
    """Adds a removed spare again."""


@dataclass(frozen=True)
class RemoveBitmap:
    """Removes the bitmap that blklab added."""


@dataclass(frozen=True)
class Done:
    """The repair is done."""


@dataclass(frozen=True)
class Stop:
    """The repair must stop, for a reason."""

    reason: str
    remedy: tuple[str, ...] = ()  # Commands for the user, in order; lines that begin with # explain them


Step = _DiskStep | AddBitmap | WaitForSync | StopCheck | RemoveBitmap | Done | Stop


def mdadm_arguments(step: Step, array: str) -> list[str]:
    """Returns mdadm's arguments; empty for steps without a command."""
    match step:
        case RemoveSpare(_, path) | RemoveMember(_, path):
            return [array, "--remove", path]
        case AddBitmap():
            return ["--grow", "--bitmap=internal", array]
        case FailMember(_, path):
            return [array, "--fail", path]
        case ReAddMember(_, path, without_list):
            return [array, "--re-add", path, *(["--update=no-bbl"] if without_list else [])]
        case AddSpare(_, path):
            return add_arguments(array, path)
        case RemoveBitmap():
            return ["--grow", "--bitmap=none", array]
        case StopCheck():
            return ["--action=idle", array]
    return []


def add_arguments(array: str, path: str) -> list[str]:
    """Returns mdadm's arguments that add a disk as a new one.

    It gets a list unless mdadm.conf says `CREATE bbl=no` (mdadm 4.2 ignores --config with --add).
    """
    return [array, "--add", path]
