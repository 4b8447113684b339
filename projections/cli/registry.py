"""The commands by name and group, with the sentence that `eventlog --help` shows of each.

Command NAME is the function `run` of `commands/NAME.py`, which is loaded when NAME is called: a
call does not pay for the other commands. The sentence is the first line of that function's
docstring; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from typing import Any, get_type_hints

from projections.cli.exits import Exit
from projections.cli.grammar.context import Context
from projections.cli.grammar.parameters import parameters_of
from projections.cli.pager import paged

__all__ = ["COMMANDS", "GROUPS", "Command"]

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
_PAGED = frozenset(
    (
        "sessions",
        "show",
        "events",
        "recall",
        "timeline",
        "stats",
        "view",
        "diff",
        "audit",
        "explain",
        "window",
        "verify",
    )
)
"""Commands that go through a pager on a terminal."""
_MODULES = {"import": "import_"}
"""Modules that cannot be called as their command."""


class Command:
    """A command: its function and its parameters."""

    def __init__(self, name: str) -> None:
        self.name = name
        module = import_module(f"projections.cli.commands.{_MODULES.get(name, name)}")
        self.function: Callable[..., int | None] = module.run
        self.parameters = tuple(parameters_of(self.function))

    @property
    def text(self) -> str:
        """The docstring of the function, which its help shows."""
        return self.function.__doc__ or ""

    def call(self, context: Context, values: Mapping[str, Any]) -> int:
        """Run the command and return its exit code."""
        arguments: dict[str, Any] = {}
        groups: dict[str, dict[str, Any]] = {}
        for parameter in self.parameters:
            group, dot, name = parameter.name.rpartition(".")
            (groups.setdefault(group, {}) if dot else arguments)[name] = values[parameter.name]
        hints = get_type_hints(self.function)
        for group, fields in groups.items():
            arguments[group] = hints[group](**fields)
        if "context" in hints:
            arguments["context"] = context
        code: int | None = None  # what stays where the reader leaves the pager early
        with paged() if self.name in _PAGED else nullcontext():
            code = self.function(**arguments)
        return code or Exit.OK
