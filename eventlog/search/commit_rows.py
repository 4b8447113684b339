"""Commits to texts of the index, in the order of their streams.

A text is taken in when it is complete. One that still streams is *open*: the index knows where it
begins, and a search reads it in the log. Long texts are taken in as pieces; a piece never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from eventlog import events as ev
from eventlog.codec.decoded import Span, spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import checked_body_text
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.errors import DamagedError
from eventlog.history.ancestry import forked_from, stream_spans
from eventlog.history.catalog import entry_of, is_shelf_id
from eventlog.log.commit import Commit
from eventlog.log.contract import Log
from eventlog.log.digests import digests_in
from eventlog.search.rows import Named, Rows, name_of
from eventlog.search.said import said_by
from eventlog.values import Content, MessageError, Reasoning, Tool

PIECE = 65_536
"""Characters of a piece at most; the words of a search are all in one piece."""
_OVERLAP = 128
"""Characters of a piece that the next one has, too: a phrase between the two is found."""
_LOOK_BACK = 1_024
"""Characters at the end of a piece in which a space is looked for."""
_MARK = 4_096
"""Characters after which a delta is noted, from which a next piece may be read."""
_USER, _ASSISTANT, _REASONING, _CALL, _RESULT = range(5)


def reader_of(log: Log, session: str, note_damage: Callable[[str], None]) -> Callable[[Content], str]:
    """Return a function that reads the contents of a session; of a damaged one "".

    `note_damage` is told the session then.
    """
    own = log.of(session)

    def text(content: Content) -> str:
        if isinstance(content, str):
            return content
        try:
            packed = own.body(content.digest)
            if packed is not None:
                return checked_body_text(content, packed)
        except DamagedError:
            packed = b""
        # else erased, or redacted and scrubbed, since the commit was read
        if packed is not None or any(content.digest in digests_in(commit.payload) for commit in log.read(session)):
            note_damage(session)
        return ""

    return text


def deltas_of(
    log: Log, session: str, first: int, upto: int | None = None, *, field: str, part: str | int, characters: int
) -> str:
    """Return the text that deltas of a part add in versions `first .. upto`, cut at a length.

    The part goes by its id, or by its name in the index.
    """
    texts: list[str] = []
    left = characters
    for span in stream_spans(log, session, first - 1, upto):
        item = span.item
        if isinstance(item, ev.PartDelta):
            item = DeltaRun.from_deltas([(0, item)])
        if isinstance(item, DeltaRun):
            for (id, of), text in item.joined().items():
                if of == field and part == (id if isinstance(part, str) else name_of("part", id)):
                    texts.append(text)
                    left -= len(text)
            if left <= 0:
                break
    return "".join(texts)[:characters]


class _Saying(NamedTuple):
    """Where a text is said: session, time and version of its event."""

    session: str
    time: int
    version: int


class Update:
    """Takes commits into the rows of a transaction."""

    def __init__(self, log: Log, rows: Rows, *, words: bool = True) -> None:
        """Without `words` the rows have no text: what was used by day, and no more."""
        self._log = log
        self._rows = rows
        self._words = words
        self._grown: dict[tuple[int, int], list[str]] = {}
        """Open texts that began in this transaction, as far as they are not in the index."""
        self._opened: dict[int, set[int]] = {}
        """The names of these, by stream."""
        self._ancestors: dict[str, list[tuple[str, int]]] = {}
        self._eldest: dict[str, str] = {}
        """By session: the one of which it is a fork of forks; itself of no fork."""

    def take(self, commit: Commit, after: int) -> None:
        """Take in the events of a commit behind version `after`."""
        if is_foreign(commit) or is_encrypted(commit.payload) or is_shelf_id(commit.session):
            return
        text = reader_of(self._log, commit.session, self._rows.note_damage) if self._words else _no_text
        if not self._words:
            self._rows.characters += len(commit.payload)  # so that a transaction has its end
        for span in spans_of(commit, after):
            if isinstance(span.item, DeltaRun):
                self._deltas(span, span.item)
            else:
                self._event(span, span.item, text)

    def close_open(self, before: int) -> None:
        """Take in the open texts that began before a time; their parts may never end."""
        question = (
            "SELECT s.name, n.stream, n.name FROM names n JOIN streams s ON s.id = n.stream"
            " WHERE n.field IS NOT NULL AND n.time < ?"
        )
        for session, stream, name in self._rows.connection.execute(question, (before,)).fetchall():
            named = self._rows.named(stream, name)
            if named is not None:
                self._close(session, named)

    def _close_stream(self, span: Span) -> None:
        """Take in the open texts of a stream: what deltas add from here on is another text."""
        stream = self._stream(span)
        question = "SELECT name FROM names WHERE stream = ? AND field IS NOT NULL"
        stored = {name for (name,) in self._rows.connection.execute(question, (stream,))}
        for name in stored | self._opened.get(stream, set()):
            part = self._rows.named(stream, name)
            if part is not None:
                self._close(span.session, part)

    def _event(self, span: Span, event: ev.Event, text: Callable[[Content], str]) -> None:
        match event:
            case ev.PartStarted():
                self._begin(span, event, text)
            case ev.PartDelta():
                self._deltas(span, DeltaRun.from_deltas([(span.time, event)]))
            case ev.PartEnded():
                self._close(span.session, self._own(span, "part", event.part))
            case ev.ToolRunning() | ev.ToolCompleted() | ev.ToolFailed() | ev.PartEdited():
                self._say(span, event, text)
            case ev.CallAnswered(verdict="deny" | "stop"):
                self._say(span, event, text)
            case ev.UserMessageAdded() | ev.AssistantMessageStarted():
                begun = self._rows.put(self._message(span, event, span.first))
                if isinstance(event, ev.AssistantMessageStarted) and not self._is_copy(span, event):
                    reply = self._telling(span, "reply", event.message)
                    self._rows.spend(begun.stream, span.first, span.time, begun.tool, reply=reply)
            case ev.MessageFinished(error=MessageError(name=name)) if name != "aborted":  # a stop is no error
                model = self._find(span, "message", event.message).tool
                error = self._telling(span, "error", event.message)
                self._rows.spend(self._stream(span), span.first, span.time, model, error=error)
            case ev.UsageRecorded():
                error = event.failed and event.message is None  # else its reply ends with one
                model = self._rows.model(event.model)
                self._rows.spend(self._stream(span), span.first, span.time, model, error=error, call=event)
            case ev.MessageRemoved():
                self._rows.removals.append((self._stream(span), name_of("message", event.message), span.first))
            case ev.PartRemoved():
                self._rows.removals.append((self._stream(span), name_of("part", event.part), span.first))
            case ev.RolledBack():
                self._close_stream(span)
                self._rows.rollbacks.append((self._stream(span), span.first, event.to))
            case ev.SessionStarted():
                self._rows.add_stream(span.session, event.scope, None)
            case ev.SessionForked():
                self._rows.add_stream(span.session, event.scope, event.parent)
            case _:
                pass

    def _begin(self, span: Span, event: ev.PartStarted, text: Callable[[Content], str]) -> None:
        part = self._rows.put(self._part(span, event, span.first))
        self._add(part, part.kind, said_by(event, "", text), _saying(span))

    def _part(self, span: Span, event: ev.PartStarted, begun: int) -> Named:
        """Return a part that an event begins; of a call it is the result."""
        tool = 0
        if isinstance(event.kind, Tool):
            kind, tool = _RESULT, self._rows.label(event.kind.tool)
        elif isinstance(event.kind, Reasoning):
            kind = _REASONING
        else:
            kind = self._find(span, "message", event.message).kind
        return Named(self._stream(span), name_of("part", event.part), begun, kind, tool)

    def _message(self, span: Span, event: ev.UserMessageAdded | ev.AssistantMessageStarted, begun: int) -> Named:
        """Return a message that an event begins; of an answer it has the model's label."""
        found = Named(self._stream(span), name_of("message", event.message), begun, _USER)
        if isinstance(event, ev.AssistantMessageStarted):
            found.kind, found.tool = _ASSISTANT, self._rows.model(event.model)
        return found

    def _is_copy(self, span: Span, begun: ev.AssistantMessageStarted) -> bool:
        """Whether a summary had not seen the request that it answers.

        Then a sub-session wrote it, where it counts.
        """
        if not begun.summary or begun.seen is None or begun.reply_to is None:
            return False
        return begun.seen < self._find(span, "message", begun.reply_to).begun

    def _telling(self, span: Span, kind: str, message: str) -> int:
        """Return 1 if no fork of one session told this of a message before, else -1.

        An import into a fork tells again what came behind the fork.
        """
        if span.session not in self._eldest:
            *_, (eldest, _) = forked_from(self._log, span.session)
            self._eldest[span.session] = eldest.session
        name = name_of(kind, f"{self._eldest[span.session]} {message}")
        return self._rows.telling(name, self._stream(span), span.first)

    def _say(
        self,
        span: Span,
        event: ev.ToolRunning | ev.ToolCompleted | ev.ToolFailed | ev.PartEdited | ev.CallAnswered,
        text: Callable[[Content], str],
    ) -> None:
        part = self._own(span, "part", event.part)
        if isinstance(event, (ev.ToolFailed, ev.CallAnswered)) and part.field == "input":
            self._close(span.session, part)  # it never ran, so only its deltas say how it was called
        self._end(part)  # the event has all that deltas said
        kind = _CALL if isinstance(event, ev.ToolRunning) else part.kind
        said = said_by(event, self._rows.label_name(part.tool), text)
        self._add(part, kind, said, _saying(span))

    # -- deltas ----------------------------------------------------------------------------------

    def _deltas(self, span: Span, run: DeltaRun) -> None:
        if not self._words:
            return
        if len(run.keys) == 1:
            self._grow(span, run.keys[0], span.first, run.text)
            return
        firsts: dict[tuple[str, str], int] = {}
        for version, key in enumerate(run.key_column(), span.first):
            firsts.setdefault(key, version)
        for key, text in run.joined().items():
            self._grow(span, key, firsts[key], text)

    def _grow(self, span: Span, key: tuple[str, str], version: int, text: str) -> None:
        """Add deltas to the open text of a part; take in pieces of it that are complete."""
        part = self._own(span, "part", key[0])
        place = part.stream, part.name
        if part.field != key[1]:
            self._end(part)
            part.field, part.first, part.mark, part.time = key[1], version, version, span.time
            self._grown[place] = []
            self._opened.setdefault(part.stream, set()).add(part.name)
        elif part.chars - part.before > _MARK:
            part.mark, part.before = version, part.chars
        part.chars += len(text)
        self._rows.characters += len(text)
        if place in self._grown:
            self._grown[place].append(text)
        if part.chars - part.start > PIECE:
            whole = self._open_text(span.session, part)
            part.start = self._pieces(span.session, part, whole, part.start)
            skipped = part.before if part.before <= part.start else 0
            self._grown[place] = [whole[skipped:]]
            if skipped:
                part.first, part.before = part.mark, 0
                part.start, part.chars = part.start - skipped, part.chars - skipped

    def _open_text(self, session: str, part: Named) -> str:
        grown = self._grown.get((part.stream, part.name))
        if grown is None:
            assert part.field is not None
            return deltas_of(self._log, session, part.first, field=part.field, part=part.name, characters=part.chars)
        return "".join(grown)

    def _close(self, session: str, part: Named) -> None:
        """Take in all of a part's open text."""
        if part.field is not None:
            whole = self._open_text(session, part)
            start = self._pieces(session, part, whole, part.start)
            kind = _CALL if part.field == "input" else part.kind
            self._row(part, kind, whole[start:], _Saying(session, part.time, part.first), start)
            self._end(part)

    def _end(self, part: Named) -> None:
        """Forget the open text of a part."""
        self._grown.pop((part.stream, part.name), None)
        self._opened.get(part.stream, set()).discard(part.name)
        part.field, part.first, part.start, part.chars, part.mark, part.before, part.time = None, 0, 0, 0, 0, 0, 0

    # -- texts -----------------------------------------------------------------------------------

    def _add(self, part: Named, kind: int, text: str, saying: _Saying) -> None:
        """Take in the text that an event says."""
        for begin, end in _cuts(text, 0) if text else ():
            self._row(part, kind, text[begin:end], saying, begin)

    def _pieces(self, session: str, part: Named, text: str, start: int) -> int:
        """Take in the whole pieces of an open text; return where the rest begins."""
        kind = _CALL if part.field == "input" else part.kind
        *whole, (start, _) = _cuts(text, start)
        for begin, end in whole:
            self._row(part, kind, text[begin:end], _Saying(session, part.time, part.first), begin)
        return start

    def _row(self, part: Named, kind: int, text: str, saying: _Saying, start: int) -> None:
        if text and self._words:
            stream = self._rows.stream(saying.session)
            assert stream is not None
            tags = f"k{kind} s{stream[0]} c{stream[1]}" + (f" t{part.tool}" if part.tool else "")
            self._rows.add(part, kind, tags, text, time=saying.time, first=saying.version, start=start)

    # -- where things began ------------------------------------------------------------------------

    def _stream(self, span: Span) -> int:
        known = self._rows.stream(span.session)
        if known is None:  # its first events are gone, and only what a fork kept is left
            head = self._log.head(span.session)
            entry = None if head is None else entry_of(head)
            known = self._rows.add_stream(span.session, entry.scope if entry else "", entry.fork_of if entry else None)
        return known[0]

    def _own(self, span: Span, kind: str, id: str) -> Named:
        """Return a part as one of the stream of this event; an inherited one has new rows here."""
        found = self._find(span, kind, id)
        stream = self._stream(span)
        if found.stream == stream:
            return found
        return self._rows.put(Named(stream, found.name, found.begun, found.kind, found.tool))

    def _find(self, span: Span, kind: str, id: str) -> Named:
        """Return a message or part of a session, also one that began before a fork."""
        name = name_of(kind, id)
        found = self._rows.named(self._stream(span), name)
        if found is not None:
            return found
        if span.session not in self._ancestors:
            streams = [(head.session, last) for head, last in forked_from(self._log, span.session)]
            self._ancestors[span.session] = streams[1:]
        for session, last in self._ancestors[span.session]:
            stream = self._rows.stream(session)
            found = None if stream is None else self._rows.named(stream[0], name)
            if found is not None and found.begun <= last:
                return found
        return self._searched(span, kind, id)

    def _searched(self, span: Span, kind: str, id: str) -> Named:
        """Return a message or part that began in a partition that is not taken in yet."""
        for session, last in self._ancestors[span.session]:
            for other in stream_spans(self._log, session, 0, last):
                item = other.item
                if isinstance(item, DeltaRun) or getattr(item, kind, None) != id:
                    continue
                if kind == "message" and isinstance(item, (ev.UserMessageAdded, ev.AssistantMessageStarted)):
                    return self._message(span, item, other.first)
                if kind == "part" and isinstance(item, ev.PartStarted):
                    return self._part(span, item, other.first)
        raise DamagedError(f"the event that begins a {kind} is missing", session=span.session, version=span.first)


def _no_text(_content: Content) -> str:
    return ""


def _saying(span: Span) -> _Saying:
    return _Saying(span.session, span.time, span.first)


def _cuts(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where the pieces of a text from `start` on begin and end; the last is its rest."""
    while len(text) - start > PIECE:
        latest = start + PIECE
        end = max(text.rfind(space, latest - _LOOK_BACK, latest) for space in " \n")
        end = latest if end < 0 else end
        yield start, end
        spaces = [at for space in " \n" if (at := text.find(space, end - _OVERLAP, end)) >= 0]
        start = min(spaces) + 1 if spaces else end - _OVERLAP
    yield start, len(text)
