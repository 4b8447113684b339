"""Pages of sessions, newest activity first, and their cursors (`Store.newest_sessions`)."""

from __future__ import annotations

import base64
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import eventlog
from eventlog.encryption.key_ring import KeyRing
from eventlog.encryption.log import EncryptedLog
from eventlog.errors import CursorError, KeyMissingError
from eventlog.history import session_page
from eventlog.history.session_page import page_of
from eventlog.maintenance.backup import restore
from eventlog.maintenance.repair import repair
from eventlog.open_store import open_store
from eventlog.store import Store
from eventlog.values import Text
from projections.verify.verify import verify
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.python_process import printed
from tests.support.sample_sessions import started

WRITER = """
import sys
import eventlog
with eventlog.open(sys.argv[1]) as store:
    for name in sys.argv[2:]:
        store.session(name).user("by another process")
"""


engine = places(*ENGINES, ENCRYPTED)


def fill(store: Store, sessions: int, scopes: int = 1) -> None:
    """Begin sessions `s00`, `s01`, … in turn for the scopes `u0`, `u1`, …, two at each time."""
    for number in range(sessions):
        time = 1000 + (number // 2 if store.log.partitions == 1 else number)
        store.create_session(id=f"s{number:02}", scope=f"u{number % scopes}", time=time)


def ids(page: eventlog.SessionPage) -> list[str]:
    """Ids of the sessions on a page."""
    return [info.id for info in page.sessions]


def pages(store: Store, scope: str | None = None, **filters: Any) -> list[list[str]]:
    """Every page of a list."""
    found: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = store.newest_sessions(scope, cursor=cursor, **filters)
        found.append(ids(page))
        cursor = page.next
        if cursor is None:
            return found


def test_a_list_over_all_and_one_of_a_scope(engine: Engine) -> None:
    """Sessions come by activity, newest first, and by position where the time is the same."""
    with engine.open() as store:
        fill(store, 12, scopes=3)
        assert pages(store, limit=5) == [
            ["s11", "s10", "s09", "s08", "s07"],
            ["s06", "s05", "s04", "s03", "s02"],
            ["s01", "s00"],
        ]
        assert pages(store, "u1", limit=2) == [["s10", "s07"], ["s04", "s01"]]
        assert pages(store, "u1", limit=4) == [["s10", "s07", "s04", "s01"]]
        assert pages(store, "nobody") == [[]]
        assert store.newest_sessions("u2").sessions[0] == replace(store.info("s11"), state="waiting")
        store.session("s02").user("hi")
        assert ids(store.newest_sessions(limit=2)) == ["s02", "s11"]
        assert ids(store.newest_sessions("u2", limit=1)) == ["s02"]


def test_pages_while_sessions_begin_and_go_on(engine: Engine) -> None:
    """Changes between two pages shift nothing: no session is shown twice or left out."""
    with engine.open() as store:
        fill(store, 10)
        first = store.newest_sessions("u0", limit=4)
        store.session("s09").user("hi")
        store.session("s01").user("hi")
        store.create_session(id="new", scope="u0")
        store.erase("s05")
        rest = store.newest_sessions("u0", limit=9, cursor=first.next)
        assert ids(first) == ["s09", "s08", "s07", "s06"]
        assert ids(rest) == ["s04", "s03", "s02", "s00"]
        assert rest.next is None


def test_a_page_longer_than_what_is_read_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long page is read in pieces, and is whole."""
    monkeypatch.setattr(session_page, "_AT_ONCE", 3)
    with engine.open() as store:
        fill(store, 10, scopes=2)
        everything = [f"s{number:02}" for number in range(9, -1, -1)]
        for limit in (2, 3, 4, 9, 10, 99):
            cut = [everything[at : at + limit] for at in range(0, 10, limit)]
            assert pages(store, limit=limit) == cut
        assert pages(store, "u0", limit=4) == [["s08", "s06", "s04", "s02"], ["s00"]]


def test_few_pieces_are_read_where_few_sessions_are_chosen(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces double, as without an index each of them passes over all sessions."""
    with engine.open() as store:
        fill(store, 100)
        log, pieces = store.log, list[int]()
        newest = log.newest

        def counted(*given: Any, limit: int, **named: Any) -> Any:
            pieces.append(limit)
            return newest(*given, limit=limit, **named)

        monkeypatch.setattr(log, "newest", counted)
        page = page_of(log, limit=2, chosen=lambda info: info.id in {"s03", "s07"}, state_of=lambda _, info: info.state)
        assert (ids(page), page.next) == (["s07", "s03"], None)
        assert len(pieces) <= 7
        pieces.clear()
        since = store.info("s90").updated
        page = page_of(
            log, limit=2, since=since, chosen=lambda info: info.id < "s95", state_of=lambda _, info: info.state
        )
        assert (ids(page), len(pieces)) == (["s94", "s93"], 3)
        rest = page_of(log, limit=9, since=since, cursor=page.next, state_of=lambda _, info: info.state)
        assert (ids(rest), rest.next) == (["s92", "s91", "s90"], None)


def test_names_and_the_like_are_no_activity(engine: Engine) -> None:
    """A name, archiving, metadata or a redaction leaves a session where it is in the list."""
    clock = count(5000)
    with engine.open(clock=lambda: next(clock)) as store:
        fill(store, 6)
        store.session("s01").user([Text("secret")])
        store.session("s05").user("hi")
        before = pages(store)
        updated = [info.updated for info in store.newest_sessions().sessions]
        quiet = store.session("s01")
        quiet.rename("a name")
        quiet.archive()
        quiet.unarchive()
        quiet.set_metadata("a", "1")
        (part,) = started(quiet)
        quiet.redact(part)
        assert pages(store) == before == [["s05", "s01", "s04", "s03", "s02", "s00"]]
        assert [info.updated for info in store.newest_sessions().sessions] == updated
        assert [recorded.time for recorded in quiet.events()][-1] > updated[1]
        with quiet.pipeline():
            quiet.rename("another")
            quiet.user("and a word")
        assert ids(store.newest_sessions(limit=1)) == ["s01"]
        assert store.log.check() == []
    with engine.open() as store:
        assert ids(store.newest_sessions(limit=2)) == ["s01", "s05"]
        assert verify(store).sound


def test_archived_and_sub_sessions_are_chosen(engine: Engine) -> None:
    """Each filter takes those that are, those that are not, or both."""
    with engine.open() as store:
        fill(store, 4)
        store.create_session(id="sub", parent="s00", scope="u0", time=2000)
        for name in ("s03", "sub"):
            store.session(name).archive()
        everything = sorted(["s00", "s01", "s02", "s03", "sub"])
        for scope in (None, "u0"):
            assert sorted(ids(store.newest_sessions(scope))) == everything
            assert ids(store.newest_sessions(scope, archived=False)) == ["s02", "s01", "s00"]
            assert set(ids(store.newest_sessions(scope, archived=True))) == {"s03", "sub"}
            assert set(ids(store.newest_sessions(scope, subsessions=True))) == {"sub"}
            assert ids(store.newest_sessions(scope, archived=True, subsessions=False)) == ["s03"]
        store.session("s03").unarchive()
        assert pages(store, "u0", archived=False, subsessions=False, limit=2) == [["s03", "s02"], ["s01", "s00"]]


def test_another_process_moves_a_session_to_the_front(tmp_path: Path) -> None:
    """A list shows at once what another process has committed."""
    with open_store(tmp_path / "s") as store:
        fill(store, 6)
        assert ids(store.newest_sessions(limit=2)) == ["s05", "s04"]
        printed(WRITER, tmp_path / "s", "s01", "s03")
        assert ids(store.newest_sessions(limit=3)) == ["s03", "s01", "s05"]
        first = store.newest_sessions(limit=3)
        printed(WRITER, tmp_path / "s", "s00")
        assert ids(store.newest_sessions(cursor=first.next)) == ["s04", "s02"]


def test_a_cursor_that_is_none(store: Store) -> None:
    """Text that is no cursor is `CursorError`, not the first page."""
    fill(store, 3)
    cursor = store.newest_sessions(limit=1).next
    assert cursor is not None
    said = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))

    def changed(*fields: Any) -> str:
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(fields)).decode()

    assert ids(store.newest_sessions(cursor=changed(*said))) == ["s01", "s00"]
    for text in (
        "",
        "x",
        "no cursor",
        "\udc80",
        "é",
        cursor[:-3],
        cursor + "AAAA",
        changed(1),
        changed(*said, 1),
        changed(*said[:3], 1 << 63, 1),
        changed(*said[:3], 5, -1),
    ):
        with pytest.raises(CursorError, match="no cursor"):
            store.newest_sessions(cursor=text)
    with pytest.raises(CursorError, match="ahead"):
        store.newest_sessions(cursor=changed(*said[:4], said[4] + 99))


def test_a_cursor_of_another_list(store: Store) -> None:
    """A cursor goes on in the list that it comes from, with the same filters."""
    fill(store, 4, scopes=2)
    cursor = store.newest_sessions("u0", archived=False, limit=1).next
    assert ids(store.newest_sessions("u0", archived=False, limit=9, cursor=cursor)) == ["s00"]
    for scope, archived in (("u1", False), (None, False), ("u0", None), ("u0", True)):
        with pytest.raises(CursorError, match="other filters"):
            store.newest_sessions(scope, archived=archived, cursor=cursor)


def test_a_cursor_of_another_store(engine: Engine, tmp_path: Path) -> None:
    """A cursor of another store is refused, also if that one has the same sessions."""
    with engine.open() as store, open_store("memory:") as memory, open_store(tmp_path / "other") as other:
        for each in (store, memory, other):
            fill(each, 3)
        for one, another in ((store, memory), (memory, other), (other, store)):
            cursor = one.newest_sessions(limit=1).next
            with pytest.raises(CursorError, match="another store"):
                another.newest_sessions(cursor=cursor)


@pytest.mark.parametrize("keys", [None, True])
def test_copies_and_rewritings(tmp_path: Path, *, keys: bool | None) -> None:
    """Backup, restore, repair and vacuum keep the list; a cursor outlives the copies only."""
    path = tmp_path / "s"
    with open_store(path, keys=keys) as store:
        fill(store, 6, scopes=2)
        whole, scoped = pages(store), pages(store, "u1")
        first = store.newest_sessions(limit=2)
        early = store.cursor()
        store.backup(tmp_path / "backup")
        store.session("s00").user("later")
        later = store.newest_sessions(limit=1)
        assert ids(later) == ["s00"]
        store.erase("s04")
        store.vacuum()
        assert pages(store) == [["s00", "s05", "s03", "s02", "s01"]]
        assert pages(store, "u1") == [["s05", "s03", "s01"]]
        assert ids(store.newest_sessions(cursor=first.next)) == ["s03", "s02", "s01"]
        assert store.log.check() == []
    restore(tmp_path / "backup", tmp_path / "restored", cursor=early)
    repair(path, tmp_path / "repaired")
    with open_store(tmp_path / "restored", keys=_key_file(path, keys)) as store:
        assert (pages(store), pages(store, "u1")) == (whole, scoped)
        assert ids(store.newest_sessions(cursor=first.next)) == ["s03", "s02", "s01", "s00"]
        with pytest.raises(CursorError, match="ahead"):
            store.newest_sessions(cursor=later.next)
    with open_store(tmp_path / "repaired", keys=_key_file(path, keys)) as store:
        assert pages(store) == [["s00", "s05", "s03", "s02", "s01"]]
        assert pages(store, "u0") == [["s00", "s02"]]


def _key_file(path: Path, keys: bool | None) -> Path | None:
    return path.with_name(f"{path.name}.keys") if keys else None


def test_a_store_without_its_keys_lists_locked_sessions(tmp_path: Path) -> None:
    """Without keys sessions are listed in their order, marked, and without title or scope."""
    path = tmp_path / "s"
    with open_store(path, keys=True) as store:
        fill(store, 4, scopes=2)
        store.session("s01").archive()
        store.create_session(id="sub", parent="s00", scope="u0", time=5000)
        wanted = store.newest_sessions()
    with open_store(path, read_only=True) as store:
        page = store.newest_sessions()
        assert ids(page) == ids(wanted)
        assert all(info.locked and not info.scope and not info.title for info in page.sessions)
        assert [info.archived for info in page.sessions] == [info.archived for info in wanted.sessions]
        assert ids(store.newest_sessions(subsessions=True)) == ["sub"]
        assert ids(store.newest_sessions("")) == []
        with pytest.raises(KeyMissingError):  # not an empty list
            store.newest_sessions("u0")


def test_a_session_whose_key_is_gone_stays_in_its_list(tmp_path: Path) -> None:
    """One lost key: the session is listed as locked, in its scope too, and shows nothing."""
    with open_store(tmp_path / "s", keys=True) as store:
        fill(store, 3)
        log = store.log
        assert isinstance(log, EncryptedLog)
        ring: KeyRing = log._ring
        family = log.family("s01")
        assert family is not None
        ring.destroy(family.id)
    with open_store(tmp_path / "s", keys=True) as store:
        page = store.newest_sessions("u0")
        assert [(info.id, info.locked, info.scope) for info in page.sessions] == [
            ("s02", False, "u0"),
            ("s01", True, ""),
            ("s00", False, "u0"),
        ]


def test_an_encrypted_store_has_no_scope_in_clear(tmp_path: Path) -> None:
    """The files have a keyed hash of the scope, the same for the same scope, and no scope."""
    path = tmp_path / "s"
    with open_store(path, keys=True) as store:
        for number in range(3):
            store.create_session(id=f"s{number}", scope="secret-scope", title="secret-title")
        assert pages(store, "secret-scope") == [["s2", "s1", "s0"]]
    for file in path.rglob("*"):
        if file.is_file():
            assert b"secret" not in file.read_bytes()
