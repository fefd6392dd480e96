"""Bisects a kernel tree, which the user's command builds."""

import functools
import hashlib
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from blklab.bisection import program
from blklab.bisection.git import Commit
from blklab.bisection.modules import BisectedTree, first_error
from blklab.bisection.source import BuildFailed, Note
from blklab.errors import UsageError
from blklab.runners.base import Runner
from blklab.runners.lab.image.kernels import UserKernelOption
from blklab.runners.lab.runner import LabRunner

BZIMAGE = "arch/x86/boot/bzImage"


class KernelTree(BisectedTree):
    """Kernels built from a git tree."""

    def __init__(
        self,
        tree: Path,
        commands: Sequence[str],
        ends: tuple[str, str],
        work: Path,
        *,
        accelerator: str | None,
        note: Note,
    ) -> None:
        """`ends` are the good and the bad one; `commands` run one after the other, without a shell."""
        super().__init__(tree, *ends, work)
        try:
            self._commands = [shlex.split(command) for command in commands]
        except ValueError as error:
            raise UsageError(f"--build: {error}") from None
        if not all(self._commands):
            raise UsageError("--build: expected a command, such as 'make -j8'")
        config = tree / ".config"
        self._config = config.read_bytes() if config.is_file() else None
        self._accelerator = accelerator
        self._note = functools.cache(note)  # Most kernels get the same notes

    def own_kernel(self, commit: Commit) -> str:
        """Returns a digest of what the kernel is built from."""
        return hashlib.sha256(repr((commit.name, self._commands, self._config)).encode()).hexdigest()

    def runner(self, commit: Commit) -> Runner:
        """Returns the runner for a commit, and builds it first. Raises BuildFailed."""
        built = self._built(commit, lambda into: self._build(commit, into))
        modules = built / "lib/modules"
        own = UserKernelOption(built / "vmlinuz", modules if modules.is_dir() else None)
        return LabRunner(kernel=own, accelerator=self._accelerator, note=self._note)

    def _build(self, commit: Commit, into: Path) -> None:
        tree = self.repository.directory
        self.repository.run("checkout", "--quiet", "--force", "--detach", commit.name)
        if self._config is not None:
            (tree / ".config").write_bytes(self._config)
        (tree / BZIMAGE).unlink(missing_ok=True)
        log = self._work / f"build-{commit.short}.log"
        where = {"INSTALL_PATH": str(into), "INSTALL_MOD_PATH": str(into)}
        for command in self._commands:
            status, output = program.run(command, directory=tree, environment={**os.environ, **where}, log=log)
            if status:
                raise BuildFailed(f"{first_error(output)} ({log})")
        images = [*into.glob("vmlinuz*"), tree / BZIMAGE]
        if not images[0].is_file():
            raise BuildFailed(f"the build made neither {BZIMAGE} nor $INSTALL_PATH/vmlinuz* ({log})")
        if images[0] != into / "vmlinuz":
            shutil.copyfile(images[0], into / "vmlinuz")
