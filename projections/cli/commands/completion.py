"""`completion`: print the completion script of a shell."""

from __future__ import annotations

import sys

import click
from click import Choice, argument

from projections.cli.store_option import Context
from projections.cli.words import COMPLETION, command


@command(json=False)
@argument("shell", type=Choice(["bash", "zsh", "fish"]), help="The shell that reads the script.")
def completion(_: Context, shell: str) -> None:
    """Print the script with which a shell completes commands and ids.

    In bash: `source <(eventlog completion bash)` in ~/.bashrc. In zsh the same in ~/.zshrc, after
    compinit. In fish: `eventlog completion fish > ~/.config/fish/completions/eventlog.fish`.
    """
    from click.shell_completion import get_completion_class

    program = click.get_current_context().find_root().command
    scripts = get_completion_class(shell)
    assert scripts is not None
    sys.stdout.write(scripts(program, {}, "eventlog", COMPLETION).source())
