"""Pictures of a session are well-formed, with names of any kind, and have no text of it."""

from __future__ import annotations

import re
from decimal import Decimal
from importlib.resources import files
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


def test_a_step_whose_usage_came_in_pieces_is_one_step(tmp_path: Path) -> None:
    """A step whose usage is told in pieces is one in the picture, with their sum."""
    pytest.importorskip("matplotlib")
    store = eventlog.open(tmp_path / "store")
    session = store.create_session(model="p/m")
    session.set_settings(limits=Limits(200_000))
    with session.assistant("p/m") as reply:
        reply.step()
        session.record_usage(Usage(Tokens(40_000, 10)), message=reply.id)
        session.record_usage(Usage(Tokens(0, 500)), message=reply.id)
        reply.finish("stop")
    with session.assistant("p/m") as reply:
        reply.step()
        reply.finish("stop", usage=Usage(Tokens(41_000, 10)))
    steps = [entry for entry in timeline(session).entries if entry.kind == "step"]
    assert [(entry.step, entry.tokens) for entry in steps] == [(1, 40_010), (1, 500), (2, 41_010)]
    assert steps[0].fill is not None
    assert steps[1].fill is not None
    assert steps[1].fill > steps[0].fill
    assert "2 steps with reported tokens" in texts(plots.timeline_svg(timeline(session)))
    with session.assistant("p/m", summary=True) as reply:
        reply.step(purpose="summary")
        reply.finish("stop", usage=Usage(Tokens(9, 9)))
    assert "2 of 3 steps (turns with reported tokens)" in texts(plots.timeline_svg(timeline(session)))


def test_pictures_have_the_colours_of_the_page() -> None:
    """A kind of tokens, and a mark, has one colour in pictures and on the light page."""
    style = files("projections.inspector").joinpath("page/style.css").read_text(encoding="utf-8")
    page = dict(re.findall(r"--([a-z-]+): light-dark\((#\w+),", style))
    assert {name: page[f"kind-{name}"] for name in plots.COLOURS} == plots.COLOURS
    for kind in ("pruned", "compacted", "rolled-back"):
        assert plots.SIGNS[kind].colour == page[f"kind-jump-{kind}"]
    assert plots.SIGNS["forked"].colour == page["accent"]


def test_a_picture_shrinks_with_the_page_that_it_is_in(session: Session) -> None:
    """A picture has a view box, and is never wider than the window that shows it."""
    pytest.importorskip("matplotlib")
    root = ET.fromstring(plots.timeline_svg(timeline(session)))  # noqa: S314  # made here
    assert root.get("viewBox")
    assert root.get("style") == "max-width: 100%; height: auto"
