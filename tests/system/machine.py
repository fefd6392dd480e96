"""A machine made of files: /proc, /sys and /dev below a temporary directory."""

from pathlib import Path

from blklab.system.roots import Roots


class Machine:
    """What the kernel would say, written down."""

    def __init__(self, root: Path) -> None:
        self.roots = Roots(proc=root / "proc", sys=root / "sys", dev=root / "dev", state=root / "state")
        self.root = root
        (self.roots.proc / "self").mkdir(parents=True)
        (self.roots.sys / "dev/block").mkdir(parents=True)
        (self.roots.sys / "class/block").mkdir(parents=True)
        (self.roots.sys / "block").mkdir(parents=True)
        self.roots.dev.mkdir()
        self.mounted: list[str] = []

    def device(self, name: str, number: str, *, parent: str = "", slaves: str = "", **files: str) -> Path:
        """Makes a device; `files` are attributes, a / in their names written as two underscores."""
        block = self.roots.sys / "devices/block"
        node = block / parent / name if parent else block / name
        (node / "trace").mkdir(parents=True)
        (node / "holders").mkdir()
        (node / "slaves").mkdir()
        self.write(node, {"size": "2097152", "ro": "0", **files})
        if number:
            self.write(node, {"dev": number})
            (self.roots.sys / "dev/block" / number).symlink_to(node)
        if parent:
            self.write(node, {"partition": "1"})
        else:
            (self.roots.sys / "block" / name).symlink_to(node)
        (self.roots.sys / "class/block" / name).symlink_to(node)
        for slave in slaves.split():
            (node / "slaves" / slave).symlink_to(self.roots.sys / "class/block" / slave)
            holders = self.roots.sys / "class/block" / slave / "holders"
            if holders.is_dir():
                (holders / name).symlink_to(node)
        return node

    def write(self, node: Path, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = node / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n")

    def proc(self, name: str, content: str) -> None:
        self.write(self.roots.proc, {name: content})

    def mount(self, number: str, point: Path, kind: str, source: str, options: str = "rw") -> None:
        self.mounted.append(f"30 1 {number} / {point} rw shared:1 - {kind} {source} {options}")
        (self.roots.proc / "self/mountinfo").write_text("\n".join(self.mounted) + "\n")
