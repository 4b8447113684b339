"""The commands by name and group, with the sentence that `eventlog --help` shows of each.

Command NAME is `run` of `commands/NAME.py`, which is loaded when NAME is called: a call does not
pay for the other commands. The sentence is the first line of its help; a test compares the two.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from projections.cli.words import Command

GROUPS = {
    "First steps": {
        "demo": "Show the engine at work on a small recorded session.",
        "import": "Import recorded sessions and streams into the store.",
        "export": "Write a session to a file or to standard output.",
        "completion": "Print the script with which a shell completes commands and ids.",
    },
    "Read": {
        "sessions": "List the sessions of the store, the latest activity first.",
        "search": "Find what was said: messages, reasoning, calls and results.",
        "show": "Print the transcript of a session.",
        "tail": "Print the newest messages of a session, and follow it.",
        "events": "Print every event of a session in order.",
        "serve": "Show the sessions of the store in the browser, until Ctrl-C.",
        "recall": "Print a part or message in full, also if it left the view.",
        "timeline": "Print what happened in a session, and when.",
        "stats": "Count what a session or the store holds, and what it cost.",
    },
    "The model's view": {
        "view": "Print the messages that the model would be sent.",
        "explain": "Say why a part or message is in the model's view, or not.",
        "diff": "Show what changed between two views of a session.",
        "audit": "Rebuild the request of each model step and check its digest.",
    },
    "The context window": {
        "window": "Show what fills the context window and what would leave it next.",
        "prune": "Clear old content from the view where that is worth it.",
        "compact": "Replace the older messages in the view by a summary.",
    },
    "Calls that wait": {
        "asked": "List the calls that wait for a person, the oldest first.",
        "answer": "Say whether a call that waits for a person may run.",
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
        "erase": "Erase a session, or all sessions of a scope, for good.",
        "expire": "Erase the least recently used sessions, down to given limits.",
        "redact": "Hide a part in every view of its session and its forks.",
        "scrub": "Remove redacted and erased content from every file.",
    },
}
"""The groups in the order of the help."""
COMMANDS = {name: sentence for commands in GROUPS.values() for name, sentence in commands.items()}


def load(name: str) -> Command:
    """Return a command from its module."""
    module = import_module(f"projections.cli.commands.{'import_' if name == 'import' else name}")
    found: Command = module.run
    found.name = name
    return found


class Commands(click.Group):
    """The program: a group whose commands are loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Command:
        """Return a command by its name; raises `NoSuchCommand`."""
        if cmd_name not in COMMANDS:
            raise click.NoSuchCommand(cmd_name, possibilities=COMMANDS, ctx=ctx)
        return load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and its words; a `--json` before it is one of them."""
        name, found, words = super().resolve_command(ctx, args)
        return name, found, ["--json"] * bool(ctx.params.get("json")) + words

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by group, without loading them."""
        longest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{longest}}", sentence) for name, sentence in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the commands with their sentences, without loading them, or the options."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=does) for name, does in COMMANDS.items() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)
