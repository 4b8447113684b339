"""The commands by name: the module that has each, and the sentence that help shows of it.

A module is loaded when its command is called, so that a call does not pay for the others.  The sentences are those that the
commands' own help begins with (`tests/projections/cli/test_program.py` compares them).
"""

from __future__ import annotations

import sys
from collections import UserDict
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from projections.cli.exits import OutputGone

__all__ = ["COMMANDS", "Commands", "Entry", "plain"]


class Entry(NamedTuple):
    """Where a command is, and what it does."""

    module: str
    help: str


COMMANDS = {
    "import": Entry("import_", "Import recorded sessions and streams; makes the store if there is none."),
    "export": Entry("export", "Write a session to a file or to standard output."),
    "sessions": Entry(
        "sessions", "List the sessions of the store, the latest activity first; pages (--limit, --after) go by id."
    ),
    "events": Entry("sessions", "Print a session's events in order, also those that were inherited or rolled back."),
    "show": Entry("show", "Print a session's transcript."),
    "view": Entry("view", "Print the messages the model would be sent."),
    "rollback": Entry(
        "history", "Make the session what it was right after version V, also if an earlier rollback hid that."
    ),
    "fork": Entry(
        "history", "Begin a session that continues this one as it was right after version V, and print its id."
    ),
    "window": Entry(
        "window",
        "Show what fills the window: tokens by kind, tool, message and part, and what would be pruned or compacted next.",
    ),
    "prune": Entry("compact", "Clear old tool results from the view, if the policy finds that worth it."),
    "compact": Entry("compact", "Let a summary stand for the older messages in the view, whatever the window holds."),
    "undo": Entry("compact", "Take back the newest prune, compaction or rollback that is in force."),
    "recall": Entry(
        "recall",
        "Print the whole of a part or a message, also one that was truncated, pruned or covered by a compaction.",
    ),
    "stats": Entry("verify", "Count what a session holds and what it spent, or what the store holds."),
    "verify": Entry("verify", "Check that everything can be read, and that every event is the one that was committed."),
    "head": Entry(
        "head", "Print the digest of the store's history, to be kept where nobody who can write the store can write."
    ),
    "prove": Entry("head", "Prove that an event is in the history of the store, for somebody who has only its head."),
    "audit": Entry(
        "audit", "Rebuild what every model step was sent, and compare it with the digest that was recorded then."
    ),
    "diff": Entry(
        "audit",
        "Show what changed between two views of a session, in words and in tokens: added, pruned, compacted, rolled back.",
    ),
    "timeline": Entry(
        "audit",
        "Show what happened in a session and when: messages, steps and the window's fill, prunes, compactions, rollbacks, forks, cost.",
    ),
    "backup": Entry("backup", "Copy the store into the directory TO while it is being written."),
    "restore": Entry("backup", "Make a new store of a backup, as it was when event P was its newest."),
    "vacuum": Entry(
        "backup", "Write the store anew without the events of erased sessions, so that their space is free."
    ),
    "erase": Entry(
        "erase", "Erase a session: nothing of it can be read any more, and `vacuum` takes it out of the files."
    ),
    "expire": Entry(
        "erase",
        "Erase whole sessions, those longest without an event first, until what is left is within all limits given.",
    ),
    "redact": Entry(
        "redact", "Hide what a part says in every view of every version, in this session and in all its forks."
    ),
    "scrub": Entry(
        "redact", "Take what was redacted and erased out of every file of the store, which is written anew."
    ),
    "repair": Entry(
        "repair",
        "Save all that is sound of a damaged store into a new one, and list every loss by session and version.",
    ),
    "upgrade": Entry("upgrade", "Bring the store to this program's format, if it is of an earlier one that can be."),
    "demo": Entry("demo", "Show what it does, on a small recorded session."),
}
"""In the order of the help."""


def plain(**settings: Any) -> typer.Typer:
    """An application as all of these are: without colours, completion or errors of the library's own."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


class _Lazy(UserDict[str, Any]):
    """The commands, made when they are asked for."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            app = plain()
            import_module(f"projections.cli.commands.{COMMANDS[name].module}").register(app)
            self.data.update(typer.main.get_group(app).commands)
        return self.data[name]


class Commands(TyperGroup):
    """The group of all commands; tells apart that the output is gone, which the library would end as an error."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Lazy()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names."""
        del ctx
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without loading any."""
        del ctx
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, TyperCommand(name=name, help=entry.help).get_short_help_str(limit))
                    for name, entry in COMMANDS.items()
                ]
            )

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise OutputGone from error
        return result
