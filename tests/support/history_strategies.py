"""Hypothesis strategies for legal histories of one session, with every kind of event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Literal

from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.errors import CallError
from eventlog.state.evolve import evolve
from eventlog.state.rules import check
from eventlog.state.settling import closing
from eventlog.state.state import State
from eventlog.state.waiting_calls import asked_at
from eventlog.values import (
    Attachment,
    File,
    MessageError,
    Model,
    Patch,
    Reasoning,
    Subtask,
    Text,
    Tokens,
    Tool,
    Truncation,
    Usage,
)

Command = tuple[str, int, str]
"""A command: its name, a choice among the possible targets, and a text."""

MODELS = (Model("p", "one"), Model("p", "two"))


class Grower:
    """Grows a history command by command; `items` are its events with their times."""

    def __init__(self) -> None:
        self.items: list[tuple[int, ev.Event]] = []
        self.state = State()
        self._time = 1_000
        self._made = 0
        self._append(ev.SessionStarted(title="t"))

    def do(self, command: Command) -> None:
        """Carry out one command, if it is legal."""
        name, pick, text = command
        _COMMANDS[name](self, pick, text)

    # -- helpers -------------------------------------------------------------------------------

    def _append(self, *events: ev.Event) -> bool:
        for event in events:
            try:
                check(self.state, event)
            except CallError:
                return False
            evolve(self.state, event)
            self._time += 7
            self.items.append((self._time, event))
        return True

    def _new(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}{self._made}"

    def _open(self, pick: int) -> str | None:
        messages = self.state.open_messages()
        return messages[pick % len(messages)] if messages else None

    def _parts(self, kind: str, *states: str) -> list[str]:
        return [
            part
            for part, facts in self.state.parts.items()
            if (not kind or facts.kind == kind)
            and self.state.history.holds(facts.added)
            and (not states or self.state.status(facts) in states)
        ]

    def _part(self, pick: int, kind: str, *states: str) -> str | None:
        found = self._parts(kind, *states)
        return found[pick % len(found)] if found else None

    def _messages(self) -> list[str]:
        return [
            name
            for name, facts in self.state.messages.items()
            if self.state.history.holds(facts.added) and self.state.now(facts.changes) != "removed"
        ]

    # -- commands ------------------------------------------------------------------------------

    def user(self, pick: int, text: str) -> None:
        """Add a user message with one to three parts."""
        message = self._new("m")
        self._append(ev.UserMessageAdded(message, "build", MODELS[pick % 2], system=text if pick % 5 == 4 else None))
        self._append(ev.PartStarted(message, self._new("p"), Text(text, pick % 3 == 2, pick % 7 == 6)))
        if pick % 4 == 3:
            self._append(
                ev.PartStarted(message, self._new("p"), File("image/png", "data:image/png;base64,AAAA", "a.png"))
            )
        if pick % 6 == 5:
            self._append(ev.PartStarted(message, self._new("p"), Subtask(text)))

    def start(self, pick: int, text: str) -> None:
        """Start an assistant message."""
        del text
        message = self._new("m")
        if not self.state.open_messages():
            version, history = self.state.version, self.state.history
            seen = None if pick % 5 < 3 else history.shared_with(max(version - pick // 5 % 9, 0))
            self._append(
                ev.AssistantMessageStarted(message, self.state.last_message or None, model=MODELS[pick % 2], seen=seen),
                ev.StepStarted(message, self._new("p")),
            )

    def part(self, pick: int, text: str) -> None:
        """Start a text, reasoning, tool or patch part."""
        message = self._open(0)
        if message is None:
            return
        kinds = (
            Text(text),
            Text(),
            Reasoning(),
            Tool(self._new("c"), "bash", provider_executed=pick % 9 == 8),
            Patch("h"),
        )
        self._append(ev.PartStarted(message, self._new("p"), kinds[pick % len(kinds)]))

    def delta(self, pick: int, text: str) -> None:
        """Add a delta of text, input or output."""
        part = self._part(pick, "", "open", "pending", "running")
        if part is not None:
            facts = self.state.parts[part]
            field = {"open": "text", "pending": "input", "running": "output"}[self.state.status(facts)]
            self._append(ev.PartDelta(part, field, text))

    def end(self, pick: int, text: str) -> None:
        """End a text or reasoning part."""
        part = self._part(pick, "", "open")
        if part is not None:
            self._append(ev.PartEnded(part, '{"p":{"s":1}}' if text else None))

    def run(self, pick: int, text: str) -> None:
        """Run a tool."""
        part = self._part(pick, "tool", "pending")
        if part is not None:
            given = '{"a":1,"b":"' + "x" * (500 * (pick % 3)) + '"}'
            self._append(ev.ToolRunning(part, given, text), ev.ToolProgress(part, text))

    def complete(self, pick: int, text: str) -> None:
        """Complete a tool."""
        part = self._part(pick, "tool", "running")
        if part is not None:
            cut = Truncation("short", 3, 99) if pick % 5 == 4 else None
            files = (Attachment("image/png", "data:image/png;base64,AAAA"),) if pick % 4 == 3 else ()
            self._append(ev.ToolCompleted(part, text, cut, "done", None, files))

    def fail(self, pick: int, text: str) -> None:
        """Fail a tool."""
        part = self._part(pick, "tool", "pending", "running")
        if part is not None:
            self._append(ev.ToolFailed(part, text, pick % 2 == 1, text if pick % 3 == 1 else None))

    def ask(self, pick: int, text: str) -> None:
        """Ask a person for a call, answer for one, or run one that was allowed."""
        part = self._part(pick, "tool", "asked", "allowed", "pending")
        if part is None:
            return
        facts = self.state.parts[part]
        if self.state.status(facts) == "asked":
            edit = '{"a":2}' if pick % 4 == 3 else None
            verdict: Literal["allow", "deny"] = "allow" if edit or pick % 2 else "deny"
            self._append(ev.CallAnswered(part, asked_at(self.state, facts), verdict, "ann", text, edit))
        elif self.state.status(facts) == "allowed" and pick % 3:
            self._append(ev.ToolRunning(part, '{"a":1}', text))
        else:
            self._append(ev.CallAsked(part, '{"a":1}', text))

    def finish(self, pick: int, text: str) -> None:
        """Finish the open message, its parts closed first."""
        message = self._open(0)
        if message is None:
            return
        closed = [
            event
            for event in closing(self.state, "x")
            if not isinstance(event, (ev.MessageFinished, ev.CompactionFailed))
        ]
        self._append(*closed)
        self._append(ev.StepFinished(message, self._new("p"), "stop"))
        self._append(ev.UsageRecorded(Usage(Tokens(1, 2), Decimal("0.5")), message))
        errors = (None, None, None, MessageError("aborted", text), MessageError("api", text))
        self._append(ev.MessageFinished(message, ("stop", "tool-calls")[pick % 2], errors[pick % 5]))

    def answer(self, pick: int, text: str) -> None:
        """Add a whole answer: text in two deltas, a call, its result."""
        self.finish(0, "")
        self.user(0, text or "q")
        self.start(pick, "")
        self.part(1, "")
        self.delta(-1, text)
        self.delta(-1, "and so on")
        self.end(-1, "")
        if pick % 3:
            self.part(3, "")
            self.run(-1, text)
            self.complete(pick, text)
        if pick % 4:
            self.finish(pick % 3, text)

    def prune(self, pick: int, text: str) -> None:
        """Prune or restore a result, arguments, a thought or a file."""
        del text
        call = self._part(pick, "tool", "completed", "failed")
        other = self._part(pick, "reasoning", "ended") or self._part(pick, "file")
        part = other if pick % 3 == 0 and other is not None else call
        parts = () if part is None or pick % 4 == 1 else (part,)
        calls = () if call is None or pick % 4 > 1 else (call,)
        if (parts or calls) and not self._append(ev.Pruned(parts, "recency", 10, calls)):
            self._append(ev.Restored(parts, calls))

    def media(self, pick: int, text: str) -> None:
        """Name a file or a result's attachments instead of sending them, or send them again."""
        part = self._part(pick, "file") or self._part(pick, "tool", "completed")
        if part is not None and not (pick % 3 == 0 and self._append(ev.MediaRestored(part))):
            target = ("", "p/one")[pick % 2]
            self._append(ev.MediaReplaced(part, "image/png", ("a.png", text)[pick % 2], "refused", target))

    def edit(self, pick: int, text: str) -> None:
        """Replace a part's text."""
        part = self._part(pick, "", "ended", "completed")
        if part is not None:
            self._append(ev.PartEdited(part, text))

    def remove(self, pick: int, text: str) -> None:
        """Remove a part or a message."""
        del text
        if pick % 2:
            part = self._part(pick // 2, "")
            if part is not None:
                self._append(ev.PartRemoved(part))
        else:
            messages = self._messages()
            if messages:
                self._append(ev.MessageRemoved(messages[pick // 2 % len(messages)]))

    def redact(self, pick: int, text: str) -> None:
        """Redact a part."""
        part = self._part(pick, "")
        if part is not None:
            self._append(ev.PartRedacted(part, text))

    def compact(self, pick: int, text: str) -> None:
        """Run a whole compaction: completed, failed, or left requested."""
        if pick % 2:
            self.finish(0, "")
        if self.state.open_messages():
            return
        covered = self._messages()
        marker, part, summary, said = self._new("m"), self._new("p"), self._new("m"), self._new("p")
        self._append(ev.UserMessageAdded(marker), ev.CompactionRequested(marker, part, auto=True))
        if pick % 5 == 4 or not covered:
            return
        place = pick % len(covered)
        tail = covered[place] if place else None
        started = ev.CompactionStarted(part, covered[place - 1] if place else None, tail)
        told = ev.AssistantMessageStarted(summary, marker, model=MODELS[0], summary=True)
        if not self._append(started, told, ev.PartStarted(summary, said, Text(text)), ev.PartEnded(said)):
            return
        self._append(ev.MessageFinished(summary, "stop"))
        failed = ev.CompactionFailed(part, "empty", summary)
        self._append(failed if pick % 5 == 3 else ev.CompactionCompleted(part, summary))

    def undo(self, pick: int, text: str) -> None:
        """Undo the latest compaction."""
        del pick, text
        for _, part, status in reversed(self.state.compactions):
            if status == "completed" and self._append(ev.CompactionUndone(part)):
                return

    def rollback(self, pick: int, text: str) -> None:
        """Roll back or redo to some version."""
        del text
        self._append(ev.RolledBack(1 + pick % self.state.version))

    def setting(self, pick: int, text: str) -> None:
        """Change the system prompt, the tools or the settings."""
        events: Sequence[ev.Event] = (
            ev.SystemPromptSet("header", text),
            ev.ToolsSet("[]"),
            ev.SettingsSet(MODELS[pick % 2]),
            ev.TodosSet(()),
            ev.Custom("test", "{}"),
            ev.ForeignKept("session", "{}"),
        )
        self._append(events[pick % len(events)])


_COMMANDS: dict[str, Callable[[Grower, int, str], None]] = {
    name: getattr(Grower, name)
    for name in (
        "user",
        "start",
        "part",
        "delta",
        "end",
        "run",
        "complete",
        "fail",
        "ask",
        "finish",
        "answer",
        "prune",
        "media",
        "edit",
        "remove",
        "redact",
        "compact",
        "undo",
        "rollback",
        "setting",
    )
}

COMMANDS = tuple(_COMMANDS)
"""The names of all commands."""

_OFTEN = ("user", "start", "part", "delta", "delta", "end", "run", "complete", "finish", *("answer",) * 5)
"""The commands that conversations mostly consist of."""

texts = st.text(alphabet=st.sampled_from("ab \n中\ud800é"), max_size=6)


def commands(without: Sequence[str] = ()) -> st.SearchStrategy[Command]:
    """Single commands, the ordinary ones more often."""
    names = [name for name in (*_OFTEN, *COMMANDS) if name not in without]
    return st.tuples(st.sampled_from(names), st.integers(0, 60), texts)


def histories(
    *, without: Sequence[str] = (), min_size: int = 8, max_size: int = 40
) -> st.SearchStrategy[list[tuple[int, ev.Event]]]:
    """Histories of one session, as events with their times."""

    def grown(steps: list[Command]) -> list[tuple[int, ev.Event]]:
        grower = Grower()
        for step in steps:
            grower.do(step)
        return grower.items

    return st.lists(commands(without), min_size=min_size, max_size=max_size).map(grown)
