"""Operations of a session: reading, messages, settings, history, window, lease."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import eventlog
from eventlog import Session
from eventlog import events as ev
from eventlog.history import checkpoint_store
from eventlog.state.loader import STATE
from eventlog.values import File, Media, Todo, Tokens, Usage
from tests.growth.operation import Table, constant, history, output
from tests.growth.place import Place

EARLY = 3
"""Checkpoints of both stores lie behind the first third of their histories."""
_ALL = "gives every event"
_SEARCHES = "looks for the same text in every event"


def _consumed(found: Any) -> int:
    return sum(1 for _ in found)


def _tail(at: Place) -> int:
    return at.long.version - 50


@contextmanager
def _message(at: Place) -> Generator[str]:
    """A new message with one text."""
    yield at.long.user("a question", id=at.name("m"))


@contextmanager
def _part(at: Place) -> Generator[str]:
    """The part of a new message."""
    with at.long.assistant() as reply:
        part = reply.add_text("an answer")
        reply.finish()
    yield part


@contextmanager
def _result(at: Place) -> Generator[str]:
    """A tool part with a result."""
    with at.long.assistant() as reply:
        call = reply.tool("bash", call_id=at.name("c"), input={})
        call.succeed("done " * 20)
        reply.finish()
    yield call.id


@contextmanager
def _pruned(at: Place) -> Generator[str]:
    with _result(at) as part:
        at.long.context.prune([part])
        yield part


@contextmanager
def _image(at: Place) -> Generator[Media]:
    """An image of the user."""
    before = at.long.version
    at.long.user("look", files=[File("image/png", "https://example.com/a.png", "a.png")])
    (part,) = (
        found.event.part
        for found in at.long.events(after=before)
        if isinstance(found.event, ev.PartStarted) and isinstance(found.event.kind, File)
    )
    yield Media(part, "image/png", "a.png")


@contextmanager
def _refused_image(at: Place) -> Generator[Media]:
    with _image(at) as media:
        at.long.context.replace_media([media])
        yield media


@contextmanager
def _pin(at: Place) -> Generator[str]:
    yield at.long.pin("a fact")


@contextmanager
def _queued(at: Place) -> Generator[str]:
    yield at.long.user("later", id=at.name("q"), delivery="queue")


@contextmanager
def _held(at: Place) -> Generator[Session]:
    with at.long.lease():
        yield at.long


@contextmanager
def _free(at: Place) -> Generator[Session]:
    yield at.long
    at.long.executor.release()


@contextmanager
def _taken(at: Place) -> Generator[Session]:
    at.long.executor.acquire()
    yield at.long


@contextmanager
def _rolled_back(at: Place) -> Generator[None]:
    at.long.user("not meant")
    at.long.rollback(at.long.version - 2)
    yield


@contextmanager
def _compacting(at: Place) -> Generator[tuple[str, str]]:
    """A running compaction whose summary is written: its part and its message."""
    session = at.long
    with _requested(at) as part:
        session.context.start_compaction(part)
        with session.assistant(reply_to=session.reader.state().last_user(), summary=True) as reply:
            reply.add_text("a summary")
            reply.finish()
        yield part, reply.id


@contextmanager
def _requested(at: Place) -> Generator[str]:
    session = at.long
    with session.lease():
        part = session.context.request_compaction()
        yield part
        state = session.reader.state()
        if state.status(state.parts[part]) in {"requested", "started"}:
            session.context.fail_compaction(part, "given up")


@contextmanager
def _compacted(at: Place) -> Generator[None]:
    with _compacting(at) as made:
        at.long.context.complete_compaction(*made)
    yield


def _reply(at: Place, _: object) -> None:
    with at.long.assistant() as reply:
        reply.add_text("an answer")
        reply.finish()


def _pipeline(at: Place, _: object) -> None:
    with at.long.pipeline():
        at.long.rename("one")
        at.long.rename("two")


def _collecting(at: Place, _: object) -> None:
    with at.long.executor.collecting() as pipeline:
        at.long.rename("one")
    pipeline.commit()


def _deciding(at: Place, _: object) -> None:
    with at.long.reader.deciding() as state:
        assert state.version


def _checked(at: Place, _: object) -> int:
    """Replay up to each checkpoint; return the number of events replayed."""
    version = at.long.version
    assert not [*at.long.reader.wrong_checkpoints(version)]
    return sum(kept for kept, _ in checkpoint_store.valid(at.store.log, STATE, "long", version))


@contextmanager
def _held_elsewhere(at: Place) -> Generator[None]:
    """Hold the lease in another handle."""
    with eventlog.open(at.path) as other, other.session("long").lease():
        yield


def _taken_over(at: Place, _: object) -> None:
    with at.long.lease(take_over=True):
        pass


def _writing(at: Place, _: object) -> None:
    at.long.executor.writing(lambda _lease: None)


def _lease(at: Place, _: object) -> None:
    with at.long.lease():
        pass


SESSION: Table = {
    # -- reading
    "SessionReader.answered": constant(lambda at, _: at.long.reader.answered),
    "SessionReader.ancestry": constant(lambda at, _: at.long.reader.ancestry()),
    "SessionReader.deciding": constant(_deciding),
    "SessionReader.effective_ranges": constant(lambda at, _: at.long.reader.effective_ranges()),
    "Session.events, the newest 50": constant(lambda at, _: _consumed(at.long.events(_tail(at)))),
    "Session.events, 50 old ones": constant(lambda at, _: _consumed(at.long.events(100, 150))),
    "Session.events, all": history(lambda at, _: _consumed(at.long.events()), _ALL),
    "SessionReader.find": constant(lambda at, _: at.long.reader.find("u000100")),
    "Session.head": constant(lambda at, _: at.long.head()),
    "Session.history, the newest 50": constant(lambda at, _: _consumed(at.long.history(after=_tail(at)))),
    "Session.history, all": history(lambda at, _: _consumed(at.long.history()), _ALL),
    "Session.info": constant(lambda at, _: at.long.info),
    "SessionReader.inherited, by a fork from now": constant(lambda at, _: at.long.reader.inherited(at.long.version)),
    "SessionReader.inherited_redactions": constant(lambda at, _: at.long.reader.inherited_redactions()),
    "SessionReader.redactions": constant(lambda at, _: at.long.reader.redactions()),
    "SessionReader.forgotten": constant(lambda at, _: at.long.reader.forgotten()),
    "SessionReader.spans, the newest 50": constant(lambda at, _: _consumed(at.long.reader.spans(_tail(at)))),
    "SessionReader.spans, all": history(lambda at, _: _consumed(at.long.reader.spans()), _ALL),
    "SessionReader.state": constant(lambda at, _: at.long.reader.state()),
    "SessionReader.decoded_commits, the newest 50": constant(
        lambda at, _: _consumed(at.long.reader.decoded_commits(_tail(at)))
    ),
    "SessionReader.decoded_commits, all": history(lambda at, _: _consumed(at.long.reader.decoded_commits()), _ALL),
    "Session.text": constant(lambda at, _: at.long.text("a text")),
    "SessionReader.texts": output(lambda at, _: _consumed(at.long.reader.texts([]))),
    "Session.version": constant(lambda at, _: at.long.version),
    "SessionReader.wrong_checkpoints": output(_checked),
    "SessionReader.events, the newest 50": constant(lambda at, _: _consumed(at.long.reader.events(_tail(at)))),
    "SessionReader.head": constant(lambda at, _: at.long.reader.head()),
    "SessionReader.history, the newest 50": constant(lambda at, _: _consumed(at.long.reader.history(after=_tail(at)))),
    "SessionReader.info": constant(lambda at, _: at.long.reader.info),
    "SessionReader.resolve": constant(lambda at, _: at.long.reader.resolve(None)),
    "SessionReader.text": constant(lambda at, _: at.long.reader.text("a text")),
    "SessionReader.data": constant(lambda at, _: at.long.reader.data(b"data")),
    "SessionReader.version": constant(lambda at, _: at.long.reader.version),
    # -- messages
    "Session.assistant": constant(_reply),
    "Session.edit_part": constant(lambda at, part: at.long.edit_part(part, "another"), _part),
    "Session.redact": history(lambda at, part: at.long.redact(part), _SEARCHES, _part),
    "Session.redact, without a search": constant(lambda at, part: at.long.redact(part, search=False), _part),
    "Session.remove_message": constant(lambda at, message: at.long.remove_message(message), _message),
    "Session.remove_part": constant(lambda at, part: at.long.remove_part(part), _part),
    "Session.user": constant(lambda at, _: at.long.user("a question")),
    "Session.user, with a request id": constant(lambda at, _: at.long.user("a question", request_id=at.name("r"))),
    # -- the session and its settings
    "Session.append": constant(lambda at, _: at.long.append([(1, ev.SessionRenamed("a title"))])),
    "Session.archive": constant(lambda at, _: at.long.archive()),
    "Executor.interrupt_requested": constant(lambda at, _: at.long.executor.interrupt_requested()),
    "Executor.require_seen": constant(lambda at, _: at.long.executor.require_seen(1)),
    "Executor.pass_stop_on": constant(lambda at, _: at.long.executor.pass_stop_on()),
    "Executor.command": constant(lambda at, _: at.long.executor.command([ev.SessionRenamed("a title")])),
    "Executor.commit": constant(lambda at, _: at.long.executor.commit([ev.SessionRenamed("a title")])),
    "Executor.once": constant(lambda at, _: at.long.redo(request_id=at.name("redo")), _rolled_back),
    "Session.interrupt": constant(lambda at, _: at.long.interrupt()),
    "Session.pin": constant(lambda at, _: at.long.unpin(at.long.pin("a fact"))),
    "Session.record_custom": constant(lambda at, _: at.long.record_custom("test", "{}")),
    "Session.record_usage": constant(lambda at, _: at.long.record_usage(Usage(Tokens(1, 1)))),
    "Session.rename": constant(lambda at, _: at.long.rename("a title")),
    "Session.set_metadata": constant(lambda at, _: at.long.set_metadata("key", '"value"')),
    "Session.set_settings": constant(lambda at, _: at.long.set_settings(model="a/b")),
    "Session.set_system_prompt": constant(lambda at, _: at.long.set_system_prompt("be brief")),
    "Session.set_todos": constant(lambda at, _: at.long.set_todos([Todo("one")])),
    "Session.set_tools": constant(lambda at, _: at.long.set_tools("[]")),
    "Session.unarchive": constant(lambda at, _: at.long.unarchive()),
    "Session.unpin": constant(lambda at, pin: at.long.unpin(pin), _pin),
    # -- branches
    "Session.fork": constant(lambda at, _: at.long.fork(id=at.name("fork"))),
    "Session.fork, from an old version": history(
        lambda at, _: at.long.fork(at.long.version // EARLY, id=at.name("fork")),
        "takes the facts of then from a replay of all that is behind the checkpoint before it",
    ),
    "Session.fork, before the newest message": constant(
        lambda at, message: at.long.fork(before=message, id=at.name("fork")), _message
    ),
    "Session.redo": constant(lambda at, _: at.long.redo(), _rolled_back),
    "Session.rollback, the newest message": constant(lambda at, m: at.long.rollback(before=m), _message),
    "Session.rollback, to the middle": history(
        lambda at, _: at.long.rollback(at.long.version // 2), "names every file state behind that", copied=True
    ),
    "Session.subsession": constant(lambda at, _: at.long.subsession(id=at.name("sub"))),
    # -- what the model sees
    "ContextCommands.complete_compaction": constant(
        lambda at, made: at.long.context.complete_compaction(*made), _compacting
    ),
    "ContextCommands.fail_compaction": constant(
        lambda at, part: at.long.context.fail_compaction(part, "no"), _requested
    ),
    "ContextCommands.promote": constant(lambda at, message: at.long.context.promote(message), _queued),
    "ContextCommands.prune": constant(lambda at, part: at.long.context.prune([part]), _result),
    "ContextCommands.request_compaction": constant(
        lambda _, held: held.context.fail_compaction(held.context.request_compaction(), "no"), _held
    ),
    "ContextCommands.replace_media": constant(lambda at, media: at.long.context.replace_media([media]), _image),
    "ContextCommands.restore_media": constant(
        lambda at, media: at.long.context.restore_media([media.part]), _refused_image
    ),
    "ContextCommands.unprune": constant(lambda at, part: at.long.context.unprune([part]), _pruned),
    "ContextCommands.start_compaction": constant(lambda at, part: at.long.context.start_compaction(part), _requested),
    "ContextCommands.undo_compaction": constant(lambda at, _: at.long.context.undo_compaction(), _compacted),
    # -- appending together, and the lease
    "Executor.acquire": constant(lambda _, session: session.executor.acquire(), _free),
    "Executor.collecting": constant(_collecting),
    "Session.flush": constant(lambda at, _: at.long.flush()),
    "Session.lease": constant(_lease),
    "Session.lease, taken over": constant(_taken_over, _held_elsewhere),
    "Session.set_note": constant(lambda at, _: at.long.set_note("a note")),
    "Session.pipeline": constant(_pipeline),
    "Executor.require_no_owner": constant(lambda _, session: session.executor.require_no_owner(), _free),
    "Executor.release": constant(lambda _, session: session.executor.release(), _taken),
    "Executor.run": constant(lambda at, _: at.long.executor.run([ev.TodosSet(())])),
    "Executor.append": constant(lambda at, _: at.long.executor.append([(1, ev.SessionRenamed("a title"))])),
    "Executor.bulk": constant(lambda at, _: at.long.executor.bulk()),
    "Executor.in_pipeline": constant(lambda at, _: at.long.executor.in_pipeline),
    "Executor.holds_lease": constant(lambda at, _: at.long.executor.holds_lease),
    "Executor.lease": constant(_lease),
    "Executor.writing": constant(_writing),
    "Executor.pipeline": constant(_pipeline),
}


@contextmanager
def _fresh(at: Place) -> Generator[Session]:
    """The session in a store opened just now, with nothing of it in memory."""
    with eventlog.open(at.closed.path, flush_interval=60.0) as store:
        yield store.session("long")


COLD: Table = {
    "SessionReader.state, cold": constant(lambda _, session: session.reader.state(), _fresh),
    "Session.version, cold": constant(lambda _, session: session.version, _fresh),
    "Session.info, cold": constant(lambda _, session: session.info, _fresh),
    "Session.events, the newest 50, cold": constant(
        lambda _, session: _consumed(session.events(session.version - 50)), _fresh
    ),
    "Session.user, cold": constant(lambda _, session: session.user("a question"), _fresh),
    "Session.fork, cold": constant(lambda at, session: session.fork(id=at.name("cold")), _fresh),
}
"""The first call of a process."""
