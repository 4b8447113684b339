"""Redaction hides at once in every view; a scrub clears every file; `verify` still passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.redaction import contents, part_of
from eventlog.errors import NotFoundError
from eventlog.history.cursor import cursor_at
from eventlog.store import Store
from eventlog.testing.file_search import files_with, holds
from projections.exports.markdown import markdown_blocks
from projections.exports.opencode import opencode_pieces
from projections.reports.audit import audit
from projections.requests.forms import RequestForm, digest
from projections.transcript.transcript import Transcript
from projections.verify.verify import verify
from projections.view.model_view import LiveView, ModelView
from tests.support.engines import ENGINES, Engine
from tests.support.head_comparison import conversations

FORM = RequestForm("openai-chat")
SECRET = "hunter2 is the pass phrase"
OLD, NEW = "the old plan of attack ", "the new plan of peace"
LONG = f"{SECRET}\n" + "".join(f"line {number} of the listing\n" for number in range(200))


def talk(store: Store) -> eventlog.Session:
    """Make a session with the secret in a message, file, stream, input, output and preview."""
    session = store.create_session(id="a")
    session.user("hello", id="m1")
    session.user([eventlog.Text(SECRET)], files=[eventlog.File("text/plain", f"data:,{SECRET}", "f")], id="m2")
    with session.assistant("p/m", id="m3") as reply:
        reply.step()
        text = reply.stream_text()
        for word in SECRET.split():
            text.append(f"{word} ")
        text.end()
        call = reply.tool("bash", call_id="c1", input={"command": f"echo '{SECRET}'"})
        call.succeed(LONG, truncation=eventlog.Truncation(SECRET, 201, len(LONG)))
        reply.finish("tool-calls")
    return session


def parts_with(session: eventlog.Session, text: str) -> list[str]:
    """The parts that have a text in one of their events."""
    found: dict[str, None] = {}
    for span in session.reader.spans():
        if isinstance(span.item, DeltaRun):
            found.update({part: None for (part, _), said in span.item.joined().items() if text in said})
        elif (part := part_of(span.item)) and any(text in session.store.text(one) for one in contents(span.item)):
            found[part] = None
    return list(found)


def shown(session: eventlog.Session) -> Iterator[str]:
    """Everything shown of a session: its views at every version, transcripts, exports."""
    for version in range(1, session.version + 1):
        yield str(list(ModelView.of(session, version).messages))
    yield str(Transcript(session).oldest_first())
    yield "".join(markdown_blocks(session))
    yield b"".join(opencode_pieces(session)).decode()


@pytest.mark.parametrize("name", ENGINES)
def test_a_redacted_part_is_hidden_everywhere_at_once(name: str, tmp_path: Path) -> None:
    """A redacted part shows in no view, transcript or export of its session and forks."""
    engine = Engine(name, tmp_path)
    store, second = engine.open(), engine.open()
    session = talk(store)
    early = store.fork(session, session.version, id="f")
    deeper = store.fork(early, early.version, id="g")
    live = [LiveView(one) for one in (session, early, deeper, second.session("a"), second.session("f"))]
    assert all("hunter2" in str(list(view.view.messages)) for view in live)
    for part in parts_with(session, "hunter2"):
        (deeper if "prt" in part else session).redact(part, "asked for")
    late = store.fork(session, session.version - 1, id="h")
    for one in (session, early, deeper, late, second.session("g")):
        for text in shown(one):
            assert "hunter2" not in text
    for view in live:
        assert "hunter2" not in str(list(view.advance().messages))
    assert verify(store, deep=True).sound
    engine.close()


def test_where_else_the_text_stands_is_listed(tmp_path: Path) -> None:
    """Other parts, forks and sessions with the redacted text, line or body are named."""
    with eventlog.open(tmp_path / "s") as store:
        session = talk(store)
        fork = store.fork(session, session.version, id="f")
        copied = fork.user(f"as you said: {SECRET}")
        other = store.create_session(id="b")
        other.user(LONG, id="same")
        other.rename(f"about {SECRET}")
        other.user("nothing to see here, nor there")
        output = parts_with(session, "of the listing")[0]
        found = session.redact(output).occurrences
        places = {(one.session, one.kind) for one in found}
        assert {("b", "PartStarted"), ("b", "SessionRenamed"), ("f", "PartStarted"), ("a", "PartStarted")} <= places
        assert all(one.part != output for one in found)
        assert copied
        assert not session.redact(output, search=False).occurrences
        with pytest.raises(NotFoundError):
            session.redact("no such part")


def redact_all(store: Store) -> None:
    """Redact every part with the secret, first where it was written, then each copy."""
    waiting = [(name, part) for name in ("a", "f") for part in parts_with(store.session(name), "hunter2")]
    done: set[str] = set()
    while waiting:
        name, part = waiting.pop()
        if part not in done:
            done.add(part)
            waiting += [(one.session, one.part) for one in store.session(name).redact(part).occurrences if one.part]


def test_scrub_takes_the_bytes_out_of_every_file(tmp_path: Path) -> None:
    """After a scrub no file or later backup has the text, plain or packed; `verify` passes."""
    path = tmp_path / "s"
    with eventlog.open(path) as store:
        session = talk(store)
        fork = store.fork(session, session.version, id="f")
        fork.user(f"again {SECRET}")
        session.user("kept " * 500, request_id="r1")
        assert ModelView.of(fork).tokens  # counts are stored by the hash of the counted text
        store.backup(tmp_path / "b")
    with eventlog.open(path) as store:
        assert files_with(path, SECRET)
        assert files_with(tmp_path / "b", SECRET)
        head = store.head()
        redact_all(store)
        before = store.head()
        views = {name: [ModelView.of(store.session(name), v).digest for v in range(1, 12)] for name in ("a", "f")}
        done = store.scrub()
        assert done.emptied
        assert not files_with(path, "hunter2")
        assert not [key for key, _ in store.log.scan_derived(b"") if not key.startswith(b"checkpoint\0")]
        assert conversations(store.head()) == conversations(before)
        for name, digests in views.items():
            assert [ModelView.of(store.session(name), v).digest for v in range(1, 12)] == digests
        for kept in (head, before):
            report = verify(store, against=kept, deep=True)
            assert report.sound, report
        assert "kept " in str(list(ModelView.of(store.session("a")).messages))
        version = store.session("a").version
        store.session("a").user("kept " * 500, request_id="r1")
        assert store.session("a").version == version
        assert store.backup(tmp_path / "b").whole
        assert not files_with(tmp_path / "b", "hunter2")
        assert store.scrub().emptied == 0
    with eventlog.open(path) as store:
        store.session("a").user("and on")
        assert verify(store, against=head, deep=True).sound
    eventlog.restore(tmp_path / "b", tmp_path / "r")
    with eventlog.open(tmp_path / "r") as store:
        assert verify(store, against=head, deep=True).sound
        assert not files_with(tmp_path / "r", "hunter2")


def view_digests(session: eventlog.Session) -> tuple[list[bytes | None], list[bytes | None]]:
    """The digests of views, and of bodies, that the steps recorded."""
    steps = [span.item for span in session.reader.spans() if isinstance(span.item, ev.StepStarted)]
    return [step.view_digest for step in steps], [step.body_digest for step in steps]


def test_scrub_ends_the_digests_of_views_that_had_it(tmp_path: Path) -> None:
    """A scrub removes the digests of views with the text; the audit says redacted."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        for text in ("hello", SECRET, "bye"):
            session.user(text, id=text)
            view = ModelView.of(session)
            with session.assistant("p/m") as reply:
                body = digest(FORM.body(view.messages, view.system))
                reply.step(view_version=view.version, view_digest=view.digest, form=FORM.record, body_digest=body)
                reply.add_text("yes")
                reply.finish()
        digests, bodies = view_digests(session)
        assert len({*digests, *bodies}) == 6
        (part,) = parts_with(session, "hunter2")
        session.redact(part)
        assert store.scrub().emptied
        assert view_digests(session) == ([digests[0], b"", b""], [bodies[0], b"", b""])
        files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        for found in (digests, bodies):
            assert [any(holds(data, each or b"") for data in files) for each in found] == [True, False, False]
        assert [step.verdict for step in audit(session)][1:] == ["redacted", "redacted"]
        assert verify(store, deep=True).sound


def test_a_restore_before_a_redaction_says_what_was_scrubbed_since(tmp_path: Path) -> None:
    """After a restore to before a redaction a scrubbed part is redacted, in forks too."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        session.user(f"say {SECRET}")
        session.user("kept")
        session.fork(id="f").user("in the fork")
        past = store.head()
        position = max(event.position for event in store.session("f").events())
        (part,) = [one.event.part for one in session.events(0, 3) if isinstance(one.event, ev.PartStarted)]
        session.redact(part)
        store.scrub()
        cursors = {upto: cursor_at(store.log, [upto]) for upto in (position, 3)}
        store.backup(tmp_path / "b")
    for upto, names in ((position, ["a", "f"]), (3, ["a"])):
        eventlog.restore(tmp_path / "b", tmp_path / f"r{upto}", cursor=cursors[upto])
        with eventlog.open(tmp_path / f"r{upto}") as store:
            report = verify(store, deep=True, against=past if upto == position else None)
            assert report.sound, report
            for name in names:
                first = Transcript(store.session(name)).oldest_first()[0].parts[0]
                assert (first.id, first.redacted) == (part, True)
            store.session("a").user("and on")
            assert store.scrub().emptied == 0
            assert verify(store, deep=True).sound
