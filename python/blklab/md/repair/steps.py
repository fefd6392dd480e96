"""The steps of a repair, and their commands: those that a plan shows are those that are run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoveSpare:
    """A spare is taken out, lest md has it take the place of a member."""

    device: str
    path: str


@dataclass(frozen=True)
class AddBitmap:
    """A bitmap is added: without one a member cannot be re-added, but would be rebuilt whole."""


@dataclass(frozen=True)
class FailMember:
    """A member is failed."""

    device: str
    path: str


@dataclass(frozen=True)
class RemoveMember:
    """A member that was failed leaves the array."""

    device: str
    path: str


@dataclass(frozen=True)
class ReAddMember:
    """A member comes back: without its list, or as it was."""

    device: str
    path: str
    without_list: bool


@dataclass(frozen=True)
class WaitForSync:
    """Until md is done with what it does."""

    path: str = ""
    """Whom it is done to; empty: the array."""


@dataclass(frozen=True)
class AddSpare:
    """A spare that was set aside is added again."""

    device: str
    path: str


@dataclass(frozen=True)
class RemoveBitmap:
    """The bitmap that was added is removed."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to be done."""


@dataclass(frozen=True)
class Stop:
    """Nothing more may be done; why not."""

    reason: str


Step = (
    RemoveSpare
    | AddBitmap
    | FailMember
    | RemoveMember
    | ReAddMember
    | WaitForSync
    | AddSpare
    | RemoveBitmap
    | Done
    | Stop
)


def command(step: Step, array: str) -> list[str]:
    """Returns mdadm's arguments; nothing of steps that mdadm has no part in."""
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
            return adding(array, path)
        case RemoveBitmap():
            return ["--grow", "--bitmap=none", array]
    return []


def adding(array: str, path: str) -> list[str]:
    """Returns mdadm's arguments that add a disk as a new one.

    It gets a list unless mdadm.conf says otherwise: nothing else does (mdadm 4.2: --config is not
    taken with --add).
    """
    return [array, "--add", path]
