"""Receipts of event JSONL: an imported file is not decoded again; nothing else changes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog import Session, Store
from eventlog.history import checkpoint_store
from eventlog.importers import Report, import_file
from eventlog.importers.event_jsonl.reader import EventReader
from eventlog.importers.event_jsonl.receipt import KIND
from tests.support.export_sessions import canonical, jsonl, read, talk
from tests.support.import_counts import recorded
from tests.support.shared import shared_path


@pytest.fixture
def source() -> Iterator[Store]:
    """Give a store whose sessions are exported."""
    with eventlog.open("memory:") as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give a store to import into."""
    with eventlog.open(tmp_path / "into") as opened:
        yield opened


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the lines that are decoded from here on."""
    read_line, seen = EventReader.read_line, list[int]()

    def counting(self: EventReader, number: int, raw: bytes) -> object:
        seen.append(number)
        return read_line(self, number, raw)

    monkeypatch.setattr(EventReader, "read_line", counting)
    return seen


def forget(store: Store) -> None:
    """Drop all receipts."""
    for info in store.sessions():
        checkpoint_store.forget(store.log, KIND, info.id)


def outcome(store: Store, data: bytes) -> tuple[Report, dict[str, list[tuple[int, bytes]]]]:
    """Import a file; return the report, and all sessions after it."""
    report = read(store, data)
    return report, {info.id: canonical(store.session(info.id)) for info in store.sessions()}


def test_a_file_is_decoded_once(source: Store, store: Store, lines: list[int]) -> None:
    """A file that is imported again is not decoded; the report says that nothing is new."""
    session = talk(source, "ses_a")
    session.fork(session.version - 2, id="ses_f").user("in the fork")
    data = jsonl(session, tree=True)
    first = read(store, data)
    assert len(lines) == data.count(b"\n") - 1
    lines.clear()
    again = read(store, data)
    assert lines == []
    assert again.events == 0
    assert (again.sessions, again.messages, again.parts) == (first.sessions, first.messages, first.parts)
    assert again.skipped == []
    forget(store)
    assert read(store, data) == again
    assert lines != []


def test_a_grown_file_is_decoded_behind_what_is_known(source: Store, store: Store, lines: list[int]) -> None:
    """Only the lines that came to a file are decoded; the sessions are those of one import."""
    session = talk(source, "ses_a")
    read(store, jsonl(session))
    for number in range(3):
        session.user("x" * 100_000 + str(number))
        talk_on(session)
        data = jsonl(session)
        lines.clear()
        report = read(store, data)
        assert 0 < len(lines) < data.count(b"\n") // 2 + 4
        assert lines[-1] == data.count(b"\n")
        assert report.skipped == []
        assert canonical(store.session("ses_a")) == canonical(session)
        with eventlog.open("memory:") as whole:
            expected = read(whole, data)
        assert (report.messages, report.parts, report.sessions) == (expected.messages, expected.parts, ["ses_a"])


def talk_on(session: Session) -> None:
    """Go on with a reply that names a body of the session again."""
    with session.assistant(model="p/one") as reply:
        reply.tool("bash", call_id="c", input={}).succeed("x" * 100_000 + "0")
        reply.finish("stop")


@pytest.mark.parametrize("place", [1, 3, -2])
def test_a_change_in_the_file_is_noticed(source: Store, store: Store, place: int) -> None:
    """A file with a changed line is imported as into a store without receipts."""
    session = talk(source, "ses_a")
    for _ in range(3):
        session.user("the same words")
    data = jsonl(session)
    read(store, data)
    parts = data.split(b"the same words")
    changed = b"the same words".join(parts[:place]) + b"the samE words" + b"the same words".join(parts[place:])
    assert len(changed) == len(data)
    with eventlog.open("memory:") as plain:
        read(plain, data)
        forget(plain)
        expected = outcome(plain, changed)
    assert outcome(store, changed) == expected
    assert expected[0].sessions == ["ses_a~2"]


def _said(session: Session) -> None:
    session.user("here")


def _rolled_back(session: Session) -> None:
    session.rollback(session.version - 3)


def _redacted(session: Session) -> None:
    session.redact(next(iter(session.reader.state().parts)), search=False)


def _grown_and_redone(session: Session) -> None:
    session.rollback(session.version - 3)
    session.redo()


@pytest.mark.parametrize("act", [_said, _rolled_back, _redacted, _grown_and_redone])
@pytest.mark.parametrize("grown", [False, True])
def test_what_happens_here_is_regarded(
    source: Store, store: Store, act: Callable[[Session], None], *, grown: bool
) -> None:
    """After an event here an import does what it does without receipts, for a grown file too."""
    session = talk(source, "ses_a")
    data = jsonl(session)
    read(store, data)
    act(store.session("ses_a"))
    copy = jsonl(store.session("ses_a"))
    if grown:
        session.user("more")
        data = jsonl(session)
    with eventlog.open("memory:") as plain:
        read(plain, copy)
        forget(plain)
        assert outcome(store, data) == outcome(plain, data)


def test_erased_and_scrubbed_content_stays_out(source: Store, store: Store, lines: list[int]) -> None:
    """A receipt counts no more once its session is redacted, scrubbed or erased."""
    session = talk(source, "ses_a")
    data = jsonl(session)
    read(store, data)
    _redacted(store.session("ses_a"))
    lines.clear()
    read(store, data)
    assert lines != []
    store.scrub()
    assert not checkpoint_store.versions(store.log, KIND, "ses_a")
    forget(store)
    lines.clear()
    assert read(store, data).sessions == ["ses_a~2"], "what was scrubbed differs from the file"
    assert lines != []
    store.erase("ses_a", forks="cascade")
    assert "erased" in read(store, data).skipped[0].reason


def test_an_encrypted_store_has_receipts_too(source: Store, tmp_path: Path, lines: list[int]) -> None:
    """In an encrypted store, opened again, the same file is not decoded."""
    session = talk(source, "ses_a")
    data = jsonl(session)
    with eventlog.open(tmp_path / "s", keys=True) as store:
        first = read(store, data)
    lines.clear()
    with eventlog.open(tmp_path / "s", keys=True) as store:
        assert read(store, data).sessions == first.sessions
        assert lines == []
        assert canonical(store.session("ses_a")) == canonical(session)


def test_an_import_that_broke_off_leaves_no_receipt(source: Store, store: Store, tmp_path: Path) -> None:
    """An import that was broken off anywhere is completed by the next one."""
    session = talk(source, "ses_a")
    for number in range(40):
        session.append([(number, eventlog.events.Custom("n", "x" * 1000))])
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(session))
    for most in (1, 7, 30):

        def broken(done: int, _: int | None, most: int = most) -> None:
            if done > most * 1000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            import_file(store, path, on_progress=broken)
        assert not checkpoint_store.versions(store.log, KIND, "ses_a")
    assert import_file(store, path).sessions == ["ses_a"]
    assert canonical(store.session("ses_a")) == canonical(session)
    assert [info.id for info in store.sessions()] == ["ses_a"]


def test_damage_leaves_no_receipt(source: Store, store: Store, lines: list[int]) -> None:
    """A file that is not read whole is read again, and damage is reported each time."""
    data = jsonl(talk(source, "ses_a"))
    for cut in (data[:-5], data.replace(b'"mf"', b'"??"', 1), data + b"\xff\n"):
        first = read(store, cut)
        lines.clear()
        again = read(store, cut)
        assert again.skipped == first.skipped != []
        assert lines != []


def test_a_damaged_receipt_is_passed_over(source: Store, store: Store, lines: list[int]) -> None:
    """A receipt that cannot be read costs time only."""
    data = jsonl(talk(source, "ses_a"))
    first = read(store, data)
    (version,) = checkpoint_store.versions(store.log, KIND, "ses_a")
    for value in (b"", b"\xff" * 40):
        store.log.put_derived([(checkpoint_store.key_of(KIND, "ses_a", version), value)])
        lines.clear()
        assert read(store, data).messages == first.messages
        assert lines != []
    checkpoint_store.save(store.log, KIND, "ses_a", version, b"\x91\x01", surplus=lambda _: ())
    lines.clear()
    assert read(store, data).events == 0
    assert lines != []


def test_recorded_sessions_are_imported_alike(source: Store, store: Store, lines: list[int]) -> None:
    """Files of recorded sessions, imported twice with receipts, leave what one import leaves."""
    data = shared_path("data")
    for path in recorded(data, "claude_code_jsonl")[::7]:
        try:
            report = import_file(source, path)
        except eventlog.errors.ImportFormatError:
            continue
        for name in report.sessions:
            file = jsonl(source.session(name))
            first = import_file(store, io.BytesIO(file))
            lines.clear()
            again = import_file(store, io.BytesIO(file))
            assert again.events == 0
            assert (again.messages, again.parts, again.sessions) == (first.messages, first.parts, first.sessions)
            assert first.sessions[-1] != name or lines == []
    assert {info.id for info in store.sessions()} == {info.id for info in source.sessions()}
    for info in source.sessions():
        assert canonical(store.session(info.id)) == canonical(source.session(info.id))
