"""Promise 11: the ledger of scrubbed appends is protected from changes too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from eventlog import Session, Store
from eventlog import events as ev
from eventlog.codec.batch import Entry, decode
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import LEDGER
from eventlog.errors import DamagedError
from eventlog.history.catalog import entry_of
from eventlog.history.cursor import cursor_at
from eventlog.history.session_lists import lists_of
from eventlog.integrity.heads import StoreHead
from eventlog.integrity.scrub_ledger import read_ledger
from eventlog.log.commit import Commit
from eventlog.log.embedded.engine import open_log
from eventlog.log.merkle import leaf_of
from eventlog.maintenance.backup import restore
from eventlog.maintenance.repair import repair
from eventlog.values import Text
from projections.verify.verify import verify
from tests.support.forger import rewrite
from tests.support.head_comparison import conversations
from tests.support.sample_sessions import exchange, started
from tests.support.verifying import report_of

pytestmark = pytest.mark.promise(11)

SMALL: dict[str, Any] = {"map_bytes": 1 << 24, "journal_bytes": 64 << 10, "lists_of": lists_of}
SECRET = "the name of the king is Midas"
DIFFERS = "what was left of the append is not what was recorded"
_encode = msgspec.msgpack.Encoder().encode


def scrubbed(path: Path) -> tuple[StoreHead, StoreHead, list[Commit]]:
    """A scrubbed store, its heads before and after, and a session's commits now."""
    with Store(open_log(path, **SMALL)) as store:
        session = store.create_session(id="a")
        session.user("a harmless question", id="m1")
        with session.assistant(model="acme/one", id="m2") as reply:
            reply.add_text(SECRET)
            call = reply.tool("bash", call_id="c1", input={"command": "ls"})
            call.succeed("some output")
            reply.finish("stop")
        exchange(session)
        session.append([(5, ev.SessionRenamed("a title")), (6, ev.PartRedacted(part_of(session)))])
        before = store.head()
        assert store.scrub().emptied
        after = store.head()
        assert conversations(after) == conversations(before)
        assert verify(store, against=before, deep=True).sound
        return before, after, list(store.log.read("a"))


def part_of(session: Session) -> str:
    """The part with the secret."""
    for span in session.reader.spans():
        item = span.item
        if isinstance(item, DeltaRun) and SECRET in item.text:
            return item.keys[0][0]
        if isinstance(item, ev.PartStarted) and SECRET in str(item.kind):
            return item.part
    raise AssertionError("nobody said it")


def edited(commit: Commit) -> Commit:
    """The append with another kind of event in place of an unscrubbed one."""
    batch = decode(commit.payload)
    entries = [
        entry if isinstance(entry, DeltaRun) else replace(entry, event=ev.SessionRenamed("forged"))
        for entry in batch.entries[:1]
    ]
    return replace(commit, payload=_encode(replace(batch, entries=[*entries, *batch.entries[1:]])))


CHANGES: dict[str, Callable[[Commit], Commit]] = {
    "an event": edited,
    "the time": lambda commit: replace(commit, time=commit.time + 1),
    "the epoch": lambda commit: replace(commit, epoch=commit.epoch + 1),
    "the request": lambda commit: replace(commit, request="forged"),
    "the salt": lambda commit: replace(commit, salt=bytes(16)),
    "no salt": lambda commit: replace(commit, salt=b""),
    "the hash": lambda commit: replace(commit, leaf=bytes(32)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_left_of_a_scrubbed_append_is_named_when_it_changes(tmp_path: Path, name: str) -> None:
    """Promise 11: a change in what a scrub left of an append is named by `verify`."""
    path = tmp_path / "s"
    _, after, commits = scrubbed(path)
    emptied = [commit for commit in commits if commit.emptied]
    assert emptied
    for target in emptied:
        forged = [CHANGES[name](commit) if commit is target else commit for commit in commits]
        rewrite(path, "a", forged, tree=False)
        with Store(open_log(path, read_only=True)) as store:
            report = report_of(store, "a", against=after.by_session["a"])
            assert report.first_bad is not None, target.first
            assert report.first_bad <= target.first
    rewrite(path, "a", commits, tree=False)
    with Store(open_log(path, read_only=True)) as store:
        assert verify(store, against=after).sound


def forged(commit: Commit, part: str) -> Commit:
    """Return the append with other part contents under the same part id and hash."""
    batch = decode(commit.payload)
    entries: list[Entry | DeltaRun] = []
    for entry in batch.entries:
        if isinstance(entry, Entry) and isinstance(entry.event, ev.PartStarted):
            entries.append(replace(entry, event=replace(entry.event, part=part, kind=Text("forged"))))
        else:
            entries.append(entry)
    payload = _encode(replace(batch, entries=entries))
    assert payload != commit.payload
    return replace(commit, payload=payload, salt=b"", leaf=leaf_of(commit))


@pytest.mark.parametrize("target", ["a", "b", "c"])
@pytest.mark.parametrize("scrub", [False, True])
@pytest.mark.parametrize("row", [False, True])
def test_a_redaction_covers_no_other_content(tmp_path: Path, target: str, *, scrub: bool, row: bool) -> None:
    """Promise 11: a forged append is named against an older head, even for a redacted part."""
    path = tmp_path / "s"
    with Store(open_log(path, **SMALL)) as store:
        store.create_session(id="b").user("never redacted")
        session = store.create_session(id="a")
        session.user("a harmless question", id="m1")
        session.user(SECRET, id="m2")
        session.fork(id="c").user("in a fork")
        part = part_of(session)
        session.redact(part, search=False)
        before = store.head()
        if scrub:
            assert store.scrub().emptied
        commits = list(store.log.read(target))
        assert verify(store, against=before, deep=True).sound
    place = next(at for at, commit in enumerate(commits) if not commit.emptied and starts_a_part(commit))
    rewrite(path, target, [forged(one, part) if at == place else one for at, one in enumerate(commits)], tree=False)
    with Store(open_log(path, **SMALL)) as store:
        if row:
            store.vacuum()
            assert read_ledger(store.log)[target].appends
        bad = [
            (one.session, one.first_bad) for one in verify(store, against=before, deep=True).sessions if not one.sound
        ]
        assert (target, commits[place].first) in bad
        wanted = "the append lost its content, and no redaction says so"
        assert wanted in {one.problem for one in report_of(store, target).problems}
        missing = "no record says what was left of the append"
        assert any(one.problem in {missing, DIFFERS} for one in report_of(store, target).problems) != row


@pytest.mark.parametrize("fork", [False, True])
def test_a_redaction_in_an_append_that_is_emptied_itself_still_counts(tmp_path: Path, *, fork: bool) -> None:
    """Promise 11: a redaction event emptied by a scrub is recorded once more with its reason."""
    with Store(open_log(tmp_path / "s", **SMALL)) as store:
        session = store.create_session(id="a")
        for message, secret in ("m1", SECRET), ("m2", SECRET + " the second"):
            session.user(secret, id=message)
        first, second = started(session)
        if fork:
            session.fork(id="c").user("in a fork")
        third = "third"
        session.append(
            [
                (5, ev.PartRedacted(first, "why")),
                (6, ev.UserMessageAdded("m3")),
                (6, ev.PartStarted("m3", third, Text(SECRET + " the third"))),
            ]
        )
        before = store.head()
        assert store.scrub().emptied == 1
        version = session.version
        assert verify(store, against=before, deep=True).sound
        store.session("a").redact(third, search=False)
        assert store.scrub().emptied == 1
        assert verify(store, against=before, deep=True).sound, verify(store)
        session = store.session("a")
        assert session.version == version + 2, "that of the third, and that of the first anew"
        assert next(iter(session.reader.spans(version + 1))).item == ev.PartRedacted(first, "why")
        again = store.session("a").version
        store.session("a").redact(second, search=False)
        assert store.scrub().emptied == 1
        assert store.session("a").version == again + 1
        assert verify(store, against=before, deep=True).sound
        head = store.log.head("a")
        assert head is not None
        assert entry_of(head).redacted == (first, third, second)


def test_a_tombstone_still_explains_what_its_forks_lost(tmp_path: Path) -> None:
    """Promise 11: an erased session's tombstone still explains what its forks lost."""
    with Store(open_log(tmp_path / "s", **SMALL)) as store:
        session = store.create_session(id="a")
        session.user(SECRET, id="m1")
        fork = session.fork(id="c")
        with fork.assistant("p/m") as reply:
            reply.step(view_version=fork.version, view_digest=bytes(32), render=None)
            reply.add_text("yes")
            reply.finish()
        session.redact(part_of(session), search=False)
        assert store.scrub().emptied
        store.erase("a", forks="keep")
        head = store.head()
        store.vacuum()
        assert [commit.emptied for commit in store.log.read("c")].count(True) == 1
        assert verify(store, against=head).sound


def starts_a_part(commit: Commit) -> bool:
    """Whether a part starts in the append."""
    return any(isinstance(span.item, ev.PartStarted) for span in spans_of(commit))


def test_the_record_is_in_the_stores_head(tmp_path: Path) -> None:
    """Promise 11: changing the scrub ledger changes the store's head."""
    path = tmp_path / "s"
    before, after, _ = scrubbed(path)
    assert LEDGER in after.by_session
    assert LEDGER not in before.by_session
    with Store(open_log(path, read_only=True)) as store:
        (commit,) = list(store.log.read(LEDGER))
    for payload in (commit.payload[:-1] + bytes([commit.payload[-1] ^ 1]), commit.payload[:-3]):
        rewrite(path, LEDGER, [replace(commit, payload=payload)], tree=True)
        with Store(open_log(path, read_only=True)) as store:
            report = verify(store, against=after)
            assert {one.session for one in report.sessions if not one.sound} >= {LEDGER, "a"}
    with Store(open_log(path, read_only=True)) as store, pytest.raises(DamagedError):
        read_ledger(store.log)


@pytest.mark.promise(14)
def test_a_scrub_that_empties_nothing_records_nothing(tmp_path: Path) -> None:
    """Promise 14: a scrub or vacuum that changes nothing writes no ledger."""
    path = tmp_path / "s"
    with Store(open_log(path, **SMALL)) as store:
        store.create_session(id="b").user("never redacted")
        store.scrub()
        assert LEDGER not in store.head().by_session
    scrubbed_path = tmp_path / "t"
    _, after, _ = scrubbed(scrubbed_path)
    with Store(open_log(scrubbed_path, **SMALL)) as store:
        store.scrub()
        store.vacuum()
        assert store.head() == after
        session = store.session("a")
        part = started(session)[0]
        session.redact(part, search=False)
        kept = store.head()
        assert store.scrub().emptied
        assert store.head().by_session[LEDGER].version == 2
        assert verify(store, against=kept, deep=True).sound
        assert verify(store, against=after).sound
        assert [info.id for info in store.sessions()] == ["a"], "it is no conversation"


def test_a_conversation_of_that_name_is_left_alone(tmp_path: Path) -> None:
    """Where a caller's session has the ledger's id, the ledger takes another id."""
    path = tmp_path / "s"
    with Store(open_log(path, **SMALL)) as store:
        store.create_session(id=LEDGER).user("mine")
        session = store.create_session(id="a")
        session.user("something long enough", id="m")
        part = started(session)[0]
        session.redact(part, search=False)
        assert store.scrub().emptied
        assert set(store.head().by_session) == {LEDGER, f"{LEDGER}~2", "a"}
        assert verify(store, deep=True).sound


def test_copies_keep_what_was_recorded(tmp_path: Path) -> None:
    """Promise 11: the scrub ledger holds in a backup, an earlier restore and a repair."""
    path = tmp_path / "s"
    _, after, _ = scrubbed(path)
    with Store(open_log(path, **SMALL)) as store:
        session = store.session("a")
        part = started(session)[0]
        session.redact(part, search=False)
        last = store.log.last_positions()[0]
        assert store.scrub().emptied
        cursor = cursor_at(store.log, [last])
        store.backup(tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored", cursor=cursor)
    with Store(open_log(tmp_path / "restored")) as store:
        assert verify(store, deep=True).sound
        assert read_ledger(store.log)["a"].appends
    assert repair(path, tmp_path / "repaired").losses == ()
    for name in ("backup", "repaired"):
        with Store(open_log(tmp_path / name, read_only=True)) as store:
            assert verify(store, against=after, deep=True).sound
            assert store.head().by_session[LEDGER].version == 2
