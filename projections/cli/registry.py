"""The commands by name and group, with the sentence that `eventlog --help` shows of each.

Command NAME is the function `run` of `commands/NAME.py`, which is loaded when NAME is called: a
call does not pay for the other commands. The sentence is the first line of that function's
docstring; a test compares the two.
"""

from __future__ import annotations

import sys
from collections import UserDict
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from projections.cli.exits import PipeFault

__all__ = ["COMMANDS", "GROUPS", "CommandGroup", "new_app"]

GROUPS = {
    "First steps": {
        "demo": "Show the engine at work on a small recorded session.",
        "import": "Import recorded sessions and streams into the store.",
        "export": "Write a session to a file or to standard output.",
    },
    "Read": {
        "sessions": "List the sessions of the store, the latest activity first.",
        "search": "Find what was said: messages, reasoning, calls and results.",
        "show": "Print the transcript of a session.",
        "events": "Print every event of a session in order.",
        "serve": "Show the sessions of the store in the browser, until Ctrl-C.",
        "recall": "Print a part or message in full, also if it left the view.",
        "timeline": "Print what happened in a session, and when.",
        "stats": "Count what a session or the store holds, and what it cost.",
    },
    "The model's view": {
        "view": "Print the messages that the model would be sent.",
        "diff": "Show what changed between two views of a session.",
        "audit": "Rebuild the request of each model step and check its digest.",
    },
    "The context window": {
        "window": "Show what fills the context window and what would leave it next.",
        "prune": "Clear old tool results from the view where that is worth it.",
        "compact": "Replace the older messages in the view by a summary.",
    },
    "Go back": {
        "rollback": "Return a session to an earlier version.",
        "fork": "Start a new session that continues this one.",
        "undo": "Undo the newest prune, compaction or rollback in force.",
    },
    "Check": {
        "verify": "Check that every event is readable and as it was committed.",
        "head": "Print the digest of the store's history, to keep elsewhere.",
        "prove": "Prove that an event is in the store's history.",
    },
    "Maintain": {
        "backup": "Copy the store to a directory while programs write to it.",
        "restore": "Make a new store from a backup.",
        "repair": "Save what is sound of a damaged store into a new store.",
        "vacuum": "Rewrite the store without erased sessions, to free space.",
        "upgrade": "Bring the store to the format of this program.",
    },
    "Erase": {
        "erase": "Erase a session, so that it can no longer be read.",
        "expire": "Erase the least recently used sessions, down to given limits.",
        "redact": "Hide a part in every view of its session and its forks.",
        "scrub": "Remove redacted and erased content from every file.",
    },
}
"""The groups in the order of the help."""
COMMANDS = {name: sentence for commands in GROUPS.values() for name, sentence in commands.items()}


def new_app(**settings: Any) -> typer.Typer:
    """Return an application without the library's own colours, completion and error output."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


class _LazyCommands(UserDict[str, Any]):
    """The commands, each loaded on first access."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            app = new_app()
            module = "import_" if name == "import" else name
            app.command(name)(import_module(f"projections.cli.commands.{module}").run)
            self.data[name] = typer.main.get_command(app)
        return self.data[name]


class CommandGroup(TyperGroup):
    """The group of all commands; reports a closed output as a `PipeFault` of this program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names."""
        del ctx
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without loading any."""
        del ctx
        longest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{longest}}", sentence) for name, sentence in commands.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the named command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise PipeFault from error
        return result
