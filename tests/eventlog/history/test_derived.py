"""Derived rows: how those that are lost are made anew, in every look-up in the same way."""

from __future__ import annotations

import pytest

import eventlog
from eventlog import events as ev
from eventlog.codec.decoded import events_of_kinds
from eventlog.errors import StorageError
from eventlog.history import checkpoint_store
from eventlog.history.derived import WINDOW, LostRowError, decoded, found, store, windows
from eventlog.history.effective_history import END, StreamRange
from eventlog.log.contract import Log


def rows_of(log: Log, last: int, reads: list[tuple[int, int]], after: int = 0) -> list[tuple[int, int, list[int]]]:
    """Return the windows of a stream whose rows are the versions that they have."""

    def read(begin: int, end: int) -> list[int]:
        reads.append((begin, end))
        return [begin, end]

    return list(windows(log, "a kind", StreamRange("s", 1, END), after=after, last=last, read=read, of=list[int]))


@pytest.mark.promise(12)
def test_a_lost_row_is_made_anew_once() -> None:
    """A look-up that meets a lost row looks again once the rows are made."""
    rows: dict[str, bytes] = {}
    assert found(lambda: decoded(bytes.decode, rows.get("a")), lambda: rows.update(a=b"made")) == "made"
    with pytest.raises(LostRowError):
        found(lambda: decoded(bytes.decode, rows.get("b")), list)
    with pytest.raises(LostRowError):
        decoded(bytes.decode, b"\xff")


@pytest.mark.promise(12)
def test_windows_are_stored_once_complete(store: eventlog.Store) -> None:
    """Complete windows are read from their rows; lost or damaged ones from their events again."""
    log, reads = store.log, list[tuple[int, int]]()
    wanted = [(0, WINDOW, [0, WINDOW]), (WINDOW, 2 * WINDOW, [WINDOW, 2 * WINDOW])]
    last = 2 * WINDOW + 5
    newest = (2 * WINDOW, last, [2 * WINDOW, last])
    assert rows_of(log, last, reads) == [*wanted, newest]
    assert len(reads) == 3
    assert rows_of(log, last, reads) == [*wanted, newest]
    assert reads[3:] == [(2 * WINDOW, last)]
    assert rows_of(log, last, reads, after=7)[0] == (0, WINDOW, [7, WINDOW]), "a part of a window is read"
    log.put_derived([(checkpoint_store.key_of("a kind", "s", WINDOW), b"spoilt" * 9)])
    del reads[:]
    assert rows_of(log, last, reads) == [*wanted, newest]
    assert reads == [(0, WINDOW), (2 * WINDOW, last)]


def test_a_log_that_takes_no_rows_is_left_alone(store: eventlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that cannot be stored now is no error: the next reader makes it again."""
    assert store_rows(store.log)

    def refuse(items: object) -> None:
        raise StorageError(f"no space for {items}")

    monkeypatch.setattr(store.log, "put_derived", refuse)
    assert not store_rows(store.log)


def store_rows(log: Log) -> bool:
    """Store a row; return whether it is stored."""
    return store(log, [(b"a key", b"a row")])


def test_events_of_some_kinds_are_found_in_any_append(store: eventlog.Store) -> None:
    """They are found among many others, beside runs of deltas, and in odd texts."""
    session = store.create_session(id="s")
    with session.pipeline():
        session.user("one")
        session.values.put("a", "1")
        session.values.put("b", "vp")
    with session.assistant() as reply, session.pipeline():
        reply.stream_text().append("text")
        session.values.put("c", "\ud800")
        session.values.put("d", "2")
    keys = [
        (version, event.key)
        for commit in store.log.read("s")
        for version, event in events_of_kinds(commit, (ev.ValuePut,))
    ]
    expected = [(one.version, one.event.key) for one in session.events() if isinstance(one.event, ev.ValuePut)]
    assert keys == expected
    assert [key for _, key in keys] == ["a", "b", "c", "d"]
