"""Promise 11 outside folded chunks: the journal's tail, bodies and heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from eventlog import Store
from eventlog import events as ev
from eventlog.codec.batch import encode, encode_value
from eventlog.errors import EventlogError
from eventlog.history.catalog import entry_of
from eventlog.history.session_lists import lists_of
from eventlog.log.commit import Commit, Head
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.journal import frames
from eventlog.log.memory import MemoryLog
from eventlog.maintenance.repair import repair
from projections.verify.heads import tombstone_fault
from projections.verify.verify import SessionReport, verify
from tests.faults.tally import tally
from tests.support.embedded_log import abandon
from tests.support.forger import begun, forgeries
from tests.support.verifying import report_of

pytestmark = pytest.mark.promise(11)

SMALL: dict[str, Any] = {"map_bytes": 1 << 20, "journal_bytes": 256 << 10, "lists_of": lists_of}


def fill(store: Store) -> None:
    """One session, with deltas, a tool and a large text."""
    session = begun(store)
    session.user("and more", request_id="r")


def records_of(path: Path) -> list[frames.Record]:
    """Every record of the journal's first file."""
    data = path.read_bytes()
    salt, _ = frames.parse_file_header(data, 1)
    offset = frames.FILE_HEADER_BYTES
    found: list[frames.Record] = []
    while (header := frames.parse_frame_header(data, offset, salt)) is not None:
        begin = offset + frames.FRAME_HEADER_BYTES
        found += frames.decode_records(data[begin : begin + header.length], header.position)
        offset += header.total
    return found


def write_records(path: Path, records: list[frames.Record]) -> None:
    """Replace the journal's first file by these records, one frame each, checksums right."""
    data = path.read_bytes()
    salt, position = frames.parse_file_header(data, 1)
    made = bytearray(data[: frames.FILE_HEADER_BYTES])
    for record in records:
        frame = bytearray()
        frames.encode_records([record], frame)
        frames.finish_frame(frame, salt, position, 1, len(made))
        made += frame
        if isinstance(record, frames.CommitRecord):
            position = record.position + record.count - 1
    path.write_bytes(bytes(made).ljust(len(data), b"\0"))


def forged(records: list[frames.Record], commits: list[Commit]) -> Iterator[frames.Record]:
    """Yield the records of another history, with the extras of the commit of the same leaf."""
    by_leaf = {record.leaf: record for record in records if isinstance(record, frames.CommitRecord)}
    for commit in commits:
        yield replace(
            by_leaf[commit.leaf],
            first=commit.first,
            count=commit.count,
            position=commit.position,
            payload=commit.payload,
            base=0 if commit is commits[0] else None,
        )
        if commit is commits[0]:
            yield from (record for record in records if isinstance(record, frames.LeaseRecord))


def test_every_forgery_of_the_journals_tail_is_named(tmp_path: Path) -> None:
    """A forgery in the journal's unfolded tail is found and its version named."""
    path = tmp_path / "s"
    store = Store(open_log(path, **SMALL))
    fill(store)
    kept = store.head()
    commits = list(store.log.read("a"))
    writer = open_log(path, **SMALL)
    abandon(writer)
    with suppress(EventlogError):
        store.close()
    file = files_of(path) / "journal" / "0000000001.log"
    pristine, records = file.read_bytes(), records_of(file)
    assert len(records) >= len(commits)
    (path / "mark").unlink()  # an attacker who can write the journal can write the watermark
    tried = 0
    for forgery in forgeries(commits):
        file.write_bytes(pristine)
        write_records(file, list(forged(records, forgery.commits)))
        with Store(open_log(path, read_only=True)) as opened:
            report = report_of(opened, "a")
            against = report_of(opened, "a", against=kept.by_session["a"])
        shortened = forgery.commits == commits[: len(forgery.commits)]
        assert report.first_bad == (None if shortened else forgery.version), (forgery.name, report)
        assert against.first_bad is not None or forgery.name == "appended", forgery.name
        if against.first_bad is not None:
            assert against.first_bad <= forgery.version, forgery.name
        tried += 1
    assert tried > 4 * len(commits)
    tally("an event forged in the journal", tried)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_repair_leaves_out_appends_whose_positions_do_not_increase(place: int, tmp_path: Path) -> None:
    """Of two appends with one position one goes, is listed, and what is left verifies."""
    path = tmp_path / "s"
    store = Store(open_log(path, **SMALL))
    fill(store)
    abandon(open_log(path, **SMALL))
    with suppress(EventlogError):
        store.close()
    file = files_of(path) / "journal" / "0000000001.log"
    records = records_of(file)
    places = [number for number, record in enumerate(records) if isinstance(record, frames.CommitRecord)]
    before, changed = records[places[place - 1]], records[places[place]]
    assert isinstance(before, frames.CommitRecord)
    assert isinstance(changed, frames.CommitRecord)
    records[places[place]] = replace(changed, position=before.position)
    write_records(file, records)
    (path / "mark").unlink()
    assert repair(path, tmp_path / "new").losses
    with Store(open_log(tmp_path / "new", read_only=True)) as opened:
        report = verify(opened)
        assert report.sound, report


def memory() -> tuple[MemoryLog, Store]:
    """A store in memory, and its log for the test to change."""
    log = MemoryLog(lists_of=lists_of)
    store = Store(log)
    fill(store)
    store.session("a").user("y" * 3000)
    return log, store


def test_every_body_changed_lost_or_swapped_is_named() -> None:
    """A changed, missing or swapped body is found at the version that refers to it."""
    log, store = memory()
    with store:
        digests = list(log._bodies)
        assert len(digests) == 2
        pristine = dict(log._bodies)
        places = {
            body.digest: span.first
            for span in store.session("a").reader.spans()
            for body in [getattr(span.item, "output", None), getattr(getattr(span.item, "kind", None), "text", None)]
            if body is not None and not isinstance(body, str)
        }
        assert set(places) == set(digests)
        one, other = digests
        changes: list[tuple[dict[bytes, bytes], list[bytes]]] = [
            ({**pristine, one: pristine[other], other: pristine[one]}, [one, other]),
            *(({**pristine, digest: pristine[digest][:-1] + b"~"}, [digest]) for digest in digests),
            *(({key: pristine[key] for key in digests if key != digest}, [digest]) for digest in digests),
        ]
        for bodies, wrong in changes:
            log._bodies = bodies
            found = report_of(store, "a")
            assert sorted(one.version or 0 for one in found.problems) == sorted(places[digest] for digest in wrong)
        log._bodies = pristine
        assert verify(store).sound


HEADS: dict[str, Callable[[Head], Head]] = {
    "version less": lambda head: replace(head, version=head.version - 1),
    "version more": lambda head: replace(head, version=head.version + 1),
    "appends less": lambda head: replace(head, appends=head.appends - 1),
    "appends more": lambda head: replace(head, appends=head.appends + 1),
    "base": lambda head: replace(head, base=1),
    "peaks": lambda head: replace(head, peaks=head.peaks[:-1] + bytes([head.peaks[-1] ^ 1])),
    "no peaks": lambda head: replace(head, peaks=b""),
    "messages": lambda head: replace(head, messages=head.messages + 1),
    "title": lambda head: replace(head, entry=head.entry.replace(b"t", b"u", 1)),
    "created": lambda head: replace(head, created=head.created - 1),
    "updated": lambda head: replace(head, updated=head.updated + 1),
    "position": lambda head: replace(head, position=head.position + 1),
    "gone": lambda head: replace(head, gone=True),
}


@pytest.mark.parametrize("name", HEADS)
def test_every_field_of_a_head_is_compared(name: str) -> None:
    """A change of any field in a session's head contradicts its events and is found."""
    log, store = memory()
    with store:
        assert report_of(store, "a").sound
        log._heads["a"] = HEADS[name](log._heads["a"])
        found: SessionReport = report_of(store, "a")
        assert not found.sound, name


def recarded(head: Head, **changes: Any) -> Head:
    """The head with other facts in its catalog entry."""
    entry = entry_of(head)
    changed = structs.replace(entry, **changes)
    assert changed != entry
    return replace(head, entry=encode_value(changed))


TOMBSTONES: dict[str, Callable[[Head], Head]] = {
    "messages": lambda head: replace(head, messages=head.messages + 1),
    "title": lambda head: recarded(head, title="t"),
    "parent": lambda head: recarded(head, parent="b"),
    "fork": lambda head: recarded(head, fork_of="b", forked_at=1),
    "archived": lambda head: recarded(head, archived=True),
    "tokens": lambda head: recarded(head, tokens=1, calls=1),
    "cost": lambda head: recarded(head, cost=Decimal(1)),
    "reason": lambda head: recarded(head, reason="because"),
    "redacted": lambda head: recarded(head, redacted=("p",)),
    "not erased": lambda head: recarded(head, erased=False),
}


@pytest.mark.parametrize("name", TOMBSTONES)
def test_every_fact_on_a_tombstone_is_compared(name: str) -> None:
    """A change of any field on a tombstone is found while the erased events remain."""
    log, store = memory()
    with store:
        store.erase("a", reason="why")
        assert verify(store).sound
        log._heads["a"] = TOMBSTONES[name](log._heads["a"])
        assert not report_of(store, "a").sound, name


def test_a_tombstone_after_a_vacuum_says_what_a_tombstone_says(tmp_path: Path) -> None:
    """A tombstone whose events are gone is sound; one that shows a title is not."""
    path = tmp_path / "s"
    for keep in (False, True):
        with Store(open_log(path / str(keep), **SMALL)) as store:
            fill(store)
            if keep:
                store.session("a").fork(3, id="f").user("in the fork")
            store.erase("a", reason="why", forks="keep")
            store.vacuum()
            assert verify(store, deep=True).sound
            head = store.log.head("a")
            assert head is not None
            assert head.gone != keep
            assert tombstone_fault(store, head) is None
            assert tombstone_fault(store, recarded(head, title="t")) is not None


def test_a_session_that_only_its_head_calls_erased_is_named() -> None:
    """A head that calls its session erased, without an event that says so, is found."""
    log, store = memory()
    with store:
        log._heads["a"] = recarded(log._heads["a"], erased=True)
        for report in (report_of(store, "a"), *verify(store, session="a").sessions):
            assert "no event does" in report.problems[0].problem


def test_a_lease_older_than_the_events_is_named() -> None:
    """A lease whose epoch is before an event's, which would admit a fenced writer, is found."""
    log, store = memory()
    with store:
        head = log._heads["a"]
        assert head.lease.epoch > 0
        log._heads["a"] = replace(head, lease=replace(head.lease, epoch=0))
        assert "epoch 0" in report_of(store, "a").problems[0].problem


def test_a_fork_moved_to_another_place_is_named() -> None:
    """A fork whose origin was changed is found at its first event."""
    log, store = memory()
    with store:
        parent = store.session("a")
        fork = parent.fork(3, id="f")
        fork.user("in the fork")
        (first, *rest) = log._sessions["f"]
        for at, name in ((3, "b"), (2, "a")):
            event = ev.SessionForked(name, at)
            log._sessions["f"] = [replace(first, payload=encode([(first.time, event)], first.time)), *rest]
            assert report_of(store, "f").first_bad == 4
