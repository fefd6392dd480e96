"""`blklab completion`: print the completion script for a shell."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Install it for one user:
      bash   blklab completion bash > ~/.local/share/bash-completion/completions/blklab
      zsh    blklab completion zsh > ~/.zfunc/_blklab
             (with fpath+=~/.zfunc before compinit in ~/.zshrc)
      fish   blklab completion fish > ~/.config/fish/completions/blklab.fish

    \b
    Install it for all users:
      bash   blklab completion bash > /usr/share/bash-completion/completions/blklab

    Create the directory first if necessary, then start a new shell. The script calls blklab, so an
    upgrade of blklab needs no new script.
    """
    from click.shell_completion import get_completion_class

    from blklab.cli.root import blklab

    completer = get_completion_class(shell)
    assert completer is not None  # noqa: S101  # every choice is one of click's own
    click.echo(completer(blklab, {}, "blklab", "_BLKLAB_COMPLETE").source())
