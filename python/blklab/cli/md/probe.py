"""`blklab md probe`: the script that is run on other machines."""

import click


@click.command()
def probe() -> None:
    """Print the script that `blklab md audit --host` runs on other machines, to be run by other
    means: by Ansible, from a rescue system, by somebody whom you ask.

    It wants nothing but a POSIX shell, changes nothing, and prints what --probed reads.

    \b
    Examples:
      blklab md probe > probe.sh                  # there: sh probe.sh > web1.probe
      blklab md audit --probed web1.probe
    """
    from blklab.md.remote import PROBE

    click.echo(PROBE.read_text(), nl=False)
