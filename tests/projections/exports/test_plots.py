"""Pictures of a session are well-formed, with names of any kind, and have no text of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import eventlog
from eventlog import Limits, Tokens, Usage
from eventlog.errors import CallError
from eventlog.session.session import Session
from projections import ContextWindow
from projections.exports import plots
from projections.reports.timeline import timeline
from projections.window.report import window_report


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session with steps, a failure, a rollback and a fork."""
    store = eventlog.open(tmp_path / "store")
    session = store.create_session(id="a $x_1$ <b>\x1b", model="p/m")
    session.set_settings(limits=Limits(200_000))
    for number in range(4):
        session.user("private words", id=f"q{number}")
        with session.assistant("p/m") as reply:
            reply.step()
            reply.tool(f"tool <{number}> $a$", call_id="c", input={}).succeed("private output " * 50)
            reply.tool("broken", call_id="d", input={}).fail("no")
            reply.end_step(usage=Usage(Tokens(1_000 * number, 50), Decimal("0.01")))
            reply.finish("stop")
    session.rollback(before="q3")
    return session


def texts(picture: bytes) -> str:
    """Return the words of a picture."""
    return " ".join(ET.fromstring(picture).itertext())  # noqa: S314  # made here


def test_pictures_are_well_formed(session: Session) -> None:
    """Timeline and window are SVG with numbers and names, and nothing that was said."""
    pytest.importorskip("matplotlib")
    line = plots.timeline_svg(timeline(session))
    window = plots.window_svg(window_report(ContextWindow(session, limits=Limits(200_000))))
    for picture in (line, window):
        assert picture.startswith(b"<?xml")
        assert b"<script" not in picture
        assert "a $x_1$ <b>\u241b" in texts(picture)
        assert "private" not in texts(picture)
    assert all(word in texts(line) for word in ("tokens of a step", "rollback", "usable", "tool failed", "US dollars"))
    assert all(word in texts(window) for word in ("usable", "tool results", "tool <0> $a$"))


def test_an_empty_session_has_pictures(tmp_path: Path) -> None:
    """A session without steps is a picture that says so."""
    pytest.importorskip("matplotlib")
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        assert "no step" in texts(plots.timeline_svg(timeline(session)))
        assert texts(plots.window_svg(window_report(ContextWindow(session, limits=Limits(1_000)))))


def test_a_missing_library_is_named(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(CallError, match=r"everdelta\[plots\]"):
        plots.timeline_svg(timeline(session))
