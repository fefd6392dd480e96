"""`blklab completion`: the script that makes a shell complete blklab's commands and options."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete blklab's commands and options.

    \b
    Install it for yourself:
      bash   blklab completion bash > ~/.local/share/bash-completion/completions/blklab
      zsh    blklab completion zsh > ~/.zfunc/_blklab
             (with fpath+=~/.zfunc before compinit in ~/.zshrc)
      fish   blklab completion fish > ~/.config/fish/completions/blklab.fish

    \b
    Or for every user of this machine:
      bash   blklab completion bash > /usr/share/bash-completion/completions/blklab

    Make the directory first if it is not there, then start a new shell. The script asks blklab
    itself, so it need not be printed again after an upgrade.
    """
    from click.shell_completion import get_completion_class

    from blklab.cli.root import blklab

    completer = get_completion_class(shell)
    assert completer is not None  # noqa: S101  # every choice is one of click's own
    click.echo(completer(blklab, {}, "blklab", "_BLKLAB_COMPLETE").source())
