"""The steps of a repair, and the commands that both the plan and the repair use."""

from dataclasses import dataclass

from blklab.md.recipes import command


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


def step_command(step: Step, array: str) -> str:
    """Returns the command of a step, quoted for a shell; empty for steps without one.

    --add makes a list unless mdadm.conf says `CREATE bbl=no` (mdadm 4.2 ignores --config with --add).
    """
    match step:
        case RemoveSpare(_, path) | RemoveMember(_, path):
            return command("remove", array=array, disk=path)
        case AddBitmap():
            return command("add-bitmap", array=array)
        case FailMember(_, path):
            return command("fail", array=array, disk=path)
        case ReAddMember(_, path, without_list):
            return command("re-add-without-list" if without_list else "re-add", array=array, disk=path)
        case AddSpare(_, path):
            return command("add", array=array, disk=path)
        case RemoveBitmap():
            return command("remove-bitmap", array=array)
        case StopCheck():
            return command("idle", array=array)
    return ""
