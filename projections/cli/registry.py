"""The commands by name and group, with their files and the sentences that `--help` shows.

A file of `commands` is loaded when a command of it is called: a call does not pay for the others.
The sentence is the first line of the command's help; a test compares the two.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

GROUPS = {
    "First steps": {
        "demo": ("demo", "Show the engine at work on a small recorded session."),
        "import": ("import_", "Import recorded sessions and streams into the store."),
        "export": ("export", "Write a session to a file or to standard output."),
        "completion": ("completion", "Print the script with which a shell completes commands and ids."),
    },
    "Read": {
        "sessions": ("sessions", "List the sessions of the store, the latest activity first."),
        "search": ("search", "Find what was said: messages, reasoning, calls and results."),
        "show": ("history", "Print the transcript of a session."),
        "tail": ("history", "Print the newest messages of a session, and follow it."),
        "events": ("history", "Print every event of a session in order."),
        "serve": ("serve", "Show the sessions of the store in the browser, until Ctrl-C."),
        "recall": ("recall", "Print a part or message in full, also if it left the view."),
        "timeline": ("timeline", "Print what happened in a session, and when."),
        "stats": ("stats", "Count what a session or the store holds, and what it cost."),
    },
    "The model's view": {
        "view": ("views", "Print the messages that the model would be sent."),
        "explain": ("views", "Say why a part or message is in the model's view, or not."),
        "diff": ("views", "Show what changed between two views of a session."),
        "audit": ("audit", "Rebuild the request of each model step and check its digest."),
    },
    "The context window": {
        "window": ("window", "Show what fills the context window and what would leave it next."),
        "prune": ("clearing", "Clear old content from the view where that is worth it."),
        "compact": ("clearing", "Replace the older messages in the view by a summary."),
    },
    "Calls that wait": {
        "asked": ("asking", "List the calls that wait for a person, the oldest first."),
        "answer": ("asking", "Say whether a call that waits for a person may run."),
    },
    "Go back": {
        "rollback": ("going_back", "Return a session to an earlier version."),
        "fork": ("going_back", "Start a new session that continues this one."),
        "undo": ("going_back", "Undo the newest prune, compaction or rollback in force."),
    },
    "Check": {
        "verify": ("checking", "Check that every event is readable and as it was committed."),
        "head": ("checking", "Print the digest of the store's history, to keep elsewhere."),
        "prove": ("checking", "Prove that an event is in the store's history."),
    },
    "Maintain": {
        "backup": ("maintaining", "Copy the store to a directory while programs write to it."),
        "restore": ("maintaining", "Make a new store from a backup."),
        "repair": ("maintaining", "Save what is sound of a damaged store into a new store."),
        "vacuum": ("maintaining", "Rewrite the store without erased sessions, to free space."),
        "upgrade": ("maintaining", "Bring the store to the format of this program."),
    },
    "Erase": {
        "erase": ("erasing", "Erase a session, or all sessions of a scope, for good."),
        "expire": ("erasing", "Erase the least recently used sessions, down to given limits."),
        "redact": ("erasing", "Hide a part in every view of its session and its forks."),
        "scrub": ("maintaining", "Remove redacted and erased content from every file."),
    },
}
"""The groups in the order of the help."""
COMMANDS = {name: sentence for commands in GROUPS.values() for name, (_, sentence) in commands.items()}


def load(name: str) -> click.Command:
    """Return a command from its file."""
    file = next(commands[name][0] for commands in GROUPS.values() if name in commands)
    found: click.Command = getattr(import_module(f"projections.cli.commands.{file}"), name.replace("import", "import_"))
    found.name = name
    return found


class Commands(click.Group):
    """The program: a group whose commands are loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
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
                formatter.write_dl([(f"{name:<{longest}}", sentence) for name, (_, sentence) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the commands with their sentences, without loading them, or the options."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=does) for name, does in COMMANDS.items() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)
