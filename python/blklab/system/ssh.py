"""The command that reaches another host, with the user's ssh configuration, keys and agent."""

import shutil

from blklab.errors import EnvironmentLacks, UsageError

SAFE = ("BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "RemoteCommand=none")
LASTING = (  # Of a connection that lasts: ssh sees a lost network after 15 s, and it is no part of a shared one
    *("ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3", "ControlMaster=no", "ControlPath=none"),
)


def command(host: str, remote: str, *options: str) -> list[str]:
    """Returns the command that runs `remote` on a host, in the user's login shell there.

    `options` are ssh's, `ConnectTimeout=10`. Raises UsageError for an invalid name, EnvironmentLacks without ssh.
    """
    check_name(host)
    program = shutil.which("ssh")
    if program is None:
        raise EnvironmentLacks("ssh is not installed", "apt-get install openssh-client")
    command = [program, "-T"]
    for option in (*SAFE, *options):
        command += ["-o", option]
    return [*command, "--", host, remote]


def check_name(host: str) -> None:
    """Raises UsageError for what ssh would not read as a host."""
    if not host or host.startswith("-") or not host.isprintable():
        raise UsageError(f"invalid host {host!r}: expected HOST, USER@HOST or ssh://…")


def last_line(stderr: bytes | bytearray) -> str:
    """Returns the last line that ssh, or the host, wrote."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")
