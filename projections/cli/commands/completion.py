"""`completion`: print the completion script of a shell."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from projections.cli.completion import SCRIPTS
from projections.cli.grammar import Argument

__all__ = ["run"]


def run(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument("SHELL", help="One of bash, zsh and fish.")],
) -> None:
    """Print the script with which a shell completes commands and ids.

    In bash: `source <(eventlog completion bash)` in ~/.bashrc. In zsh the same in ~/.zshrc, after
    compinit. In fish: `eventlog completion fish > ~/.config/fish/completions/eventlog.fish`.
    """
    sys.stdout.write(SCRIPTS[shell])
