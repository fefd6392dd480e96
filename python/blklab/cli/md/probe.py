"""`blklab md probe`: prints the script that reads the arrays of a host."""

import click


@click.command()
def probe() -> None:
    """Print the script that `blklab md audit --host` runs on other hosts.

    Use it if you cannot reach a host over ssh: run it with Ansible or in a rescue system. The
    script needs only a POSIX shell and changes nothing. `md audit --probed` reads its output.

    \b
    Examples:
      blklab md probe > probe.sh                  # there: sh probe.sh > web1.probe
      blklab md audit --probed web1.probe
    """
    from blklab.md.remote import PROBE

    click.echo(PROBE.read_text(), nl=False)
