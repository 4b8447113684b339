"""The embedder's note of a session (`Session.set_note`)."""

from __future__ import annotations

import pytest

from eventlog import events as ev
from eventlog.errors import CallError, LimitError
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places

engine = places(*ENGINES, ENCRYPTED)


def test_a_note_is_bounded(engine: Engine) -> None:
    """A note has at most 1,024 bytes of UTF-8, in every call; a longer one changes nothing."""
    with engine.open() as store:
        session = store.create_session()
        session.set_note("é" * 512)
        for note in ("é" * 513, "x" * 1025):
            with pytest.raises(LimitError, match="1024") as caught:
                session.set_note(note)
            assert (caught.value.size, caught.value.limit) == (len(note.encode()), 1024)
            with pytest.raises(LimitError):
                session.append([(1, ev.NoteSet(note))])
        with pytest.raises(CallError):
            session.set_note(3)  # type: ignore[arg-type]
        assert session.info.note == "é" * 512


def test_a_note_needs_no_lease_and_is_no_activity(engine: Engine) -> None:
    """A note is set while another handle runs the session, and moves it in no list."""
    with engine.open() as store, engine.open() as second:
        for number, name in enumerate(("old", "new")):
            store.create_session(id=name, time=1000 + number)
        with second.session("old").lease():
            store.session("old").set_note("busy")
        assert [(info.id, info.note) for info in store.newest_sessions().sessions] == [("new", ""), ("old", "busy")]
