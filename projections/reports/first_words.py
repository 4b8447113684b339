"""The first words of messages, errors and titles, gathered in one pass over a history."""

from __future__ import annotations

from itertools import chain

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.history.catalog import TITLES
from eventlog.history.forgotten import untitled_ranges
from eventlog.history.ranges import covers
from eventlog.session.session import Session
from eventlog.values import Content, Text, Tool
from projections.view.opening_words import opening
from projections.view.part_rendering import REDACTED

_ENOUGH = 400
"""Characters of a text in which its first words are."""


class FirstWords:
    """The beginning of each message's first text, else its tools, to stand for it in lists."""

    def __init__(self) -> None:
        self._added: dict[str, int] = {}
        self._place: dict[str, int] = {}
        self._said: dict[int, list[Content]] = {}
        self._tools: dict[int, list[str]] = {}
        self._of: dict[str, list[int]] = {}
        """By part: the places of the words that it has, or that quote it."""
        self._titles: list[int] = []

    def event(self, event: ev.Event, version: int) -> None:
        """Note what an event begins, says or takes back."""
        match event:
            case ev.UserMessageAdded() | ev.AssistantMessageStarted():
                self._added[event.message] = version
            case ev.PartStarted(kind=Text(text=text)):
                place = self._added.get(event.message)
                if place is not None and place not in self._said:
                    self._place[event.part] = place
                    self._say(place, text, event.part)
            case ev.PartStarted(kind=Tool(tool=tool)) if event.message in self._added:
                self._tools.setdefault(self._added[event.message], []).append(tool)
            case ev.CallAsked() | ev.CallAnswered():
                self._say(version, event.reason, event.part)
            case ev.ToolFailed():
                self._say(version, event.error, event.part)
            case ev.SessionRenamed():
                self._say(version, event.title, event.part)
                self._titles.append(version)
            case ev.PartEdited() if event.part in self._place:
                self._said[self._place[event.part]] = [event.text]
            case _:
                pass

    def _say(self, place: int, text: Content, part: str | None) -> None:
        self._said[place] = [text]
        if part is not None:
            self._of.setdefault(part, []).append(place)

    def deltas(self, run: DeltaRun) -> None:
        """Note what is streamed, of texts that have not enough yet."""
        for part, field in run.keys:
            place = self._place.get(part)
            if place is None or field != "text":
                continue
            said = self._said[place]
            if sum(len(piece) for piece in said if isinstance(piece, str)) < _ENOUGH:
                said.append(run.joined()[part, field][:_ENOUGH])

    def by_version(self, session: Session) -> dict[int, str]:
        """Return the words by the version of the event that added, ended or named something."""
        found = {place: opening("-> " + ", ".join(tools)) for place, tools in self._tools.items()}
        untitled = untitled_ranges(session.store.log, session.reader.ancestry())
        hidden = [version for version in self._titles if covers(untitled, version)]
        hidden += chain.from_iterable(self._of.get(part, ()) for part in session.reader.redactions() if part != TITLES)
        said = self._said | {place: [REDACTED] for place in hidden}
        return found | {place: opening("".join(map(session.text, words))) for place, words in said.items()}
