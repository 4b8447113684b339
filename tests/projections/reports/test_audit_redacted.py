"""A step that showed a redacted text gives its request to no report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.session.session import Session
from eventlog.values import Limits, Model
from projections.cli.app import run
from projections.inspector import answers
from projections.inspector.room import Room
from projections.loop.context.window import ContextWindow
from projections.reports.audit import audited_step
from projections.view.model_view import ModelView
from tests.projections.reports.test_audit import verdicts, work

SECRET = "xyzzy"


def part_of(session: Session, message: str) -> str:
    """The one part of a user message."""
    items = [span.item for span in session.reader.spans()]
    (part,) = (item.part for item in items if isinstance(item, ev.PartStarted) and item.message == message)
    return part


def pinned(session: Session) -> str:
    """A pinned part is in the view behind a compaction, too, where its message is not."""
    part = part_of(session, session.user(f"The password is {SECRET}"))
    work(session, 1)
    session.pin(part=part)
    for number in range(3):
        session.user(f"question {number} " + "word " * 300)
        work(session, 1)
    with ContextWindow(session, model=Model("p", "m"), limits=Limits(9_000, 1_000)) as window:
        assert window.compact().completed
    session.user("And now?")
    work(session, 1)
    return part


def said(session: Session) -> str:
    """A part of a message in the view."""
    part = part_of(session, session.user(f"The password is {SECRET}"))
    work(session, 1)
    return part


@pytest.mark.parametrize("shown", [pinned, said], ids=["a pin beside a summary", "a message"])
@pytest.mark.parametrize("is_fork", [False, True], ids=["session", "fork"])
@pytest.mark.parametrize("is_scrubbed", [False, True], ids=["marked", "scrubbed"])
def test_no_report_has_the_request_of_a_redacted_step(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    shown: Callable[[Session], str],
    *,
    is_fork: bool,
    is_scrubbed: bool,
) -> None:
    """The audit, the command line and the inspector say "redacted", and nothing of the text."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        part = shown(session)
        step = len(verdicts(session))
        assert verdicts(session)[-1] == "match"
        assert SECRET in str([*ModelView.of(session).messages])
        sent = audited_step(session, step)[1]
        assert sent is not None
        assert SECRET in str([*sent.messages])
        fork = session.fork() if is_fork else session
        session.redact(part)
        if is_scrubbed:
            store.scrub()
        audited, sent = audited_step(fork, step)
        assert (audited.verdict, audited.rebuilt, sent) == ("redacted", None, None)
        assert SECRET not in str(audited)
        room = Room(store, fork.id)
        pages = [
            answers.request(room, {"step": str(step)}),
            answers.steps(room, {}),
            answers.verdicts(room, {"first": str(step)}),
        ]
        assert pages[0]["request"] is None
        assert pages[0]["verdict"] == "redacted"
        assert SECRET not in json.dumps(pages)
        name = fork.id
    for more in ([], ["--json"]):
        capsys.readouterr()
        run(["--store", str(tmp_path / "store"), "audit", name, "--step", str(step), *more])
        captured = capsys.readouterr()
        assert "redacted" in captured.out
        assert SECRET not in captured.out + captured.err
