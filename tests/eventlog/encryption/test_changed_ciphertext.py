"""Changed or moved ciphertext raises a typed error and never yields a wrong text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

import eventlog
from eventlog import Store
from eventlog import open_log as open_log_module
from eventlog.codec.batch import encode, encode_value
from eventlog.codec.decoded import spans_of
from eventlog.codec.payload import (
    FOREIGN,
    decode_encrypted_payload,
    decode_encrypted_value,
    encode_encrypted,
    is_encrypted,
)
from eventlog.encryption.key_ring import KeyRing, keys_from
from eventlog.encryption.log import EncryptedLog
from eventlog.errors import DamagedError, DataError, KeyMissingError, TooNewError
from eventlog.history.catalog import CatalogEntry, entry_of
from eventlog.log.commit import Append, Commit, Head
from eventlog.log.embedded.engine import open_log
from eventlog.log.memory import MemoryLog
from projections.verify.verify import verify
from tests.support.encrypted_store import SECRET, Service
from tests.support.engines import LastingLog
from tests.support.sample_sessions import exchange

BODY = bytes(range(32))
PLAIN = b"what was said to the messenger"


class Place(NamedTuple):
    """An encrypted log over one whose content a test can change."""

    log: EncryptedLog
    engine: MemoryLog

    def change(self, number: int, payload: bytes) -> None:
        """Replace a payload by other bytes."""
        self.engine._partitions[0][number] = replace(self.engine._partitions[0][number], payload=payload)


@pytest.fixture
def place() -> Iterator[Place]:
    """Two families: `a` with the fork `f`, and `b`; each with a body and a derived value."""
    service = Service()
    log = open_log_module.open_log("memory:", keys=service)
    assert isinstance(log, EncryptedLog)
    assert isinstance(log.engine, MemoryLog)
    entry, fork = (
        encode_value(CatalogEntry(title=SECRET)),
        encode_value(CatalogEntry(title=SECRET, fork_of="a", forked_at=1)),
    )
    for session, said, base in (("a", entry, 0), ("f", fork, 1), ("b", entry, 0)):
        given = Append(
            session=session, payload=PLAIN, count=1, time=5, entry=said, creates_at=base, bodies=[(BODY, PLAIN)]
        )
        log.submit(given).wait()
        log.submit(Append(session=session, payload=PLAIN + b"2", count=1, time=6)).wait()
        log.of(session).put_derived([(b"k" + session.encode(), PLAIN)])
    yield Place(log, log.engine)
    log.close()


def flips(data: bytes) -> Iterator[bytes]:
    """The bytes, with each byte changed in turn."""
    for at in range(len(data)):
        yield data[:at] + bytes((data[at] ^ 0x41,)) + data[at + 1 :]


def given(log: EncryptedLog, commit: Commit) -> bytes | None:
    """Return a stored commit's decrypted payload; None for a typed error or a missing key."""
    try:
        payload = log.decrypt(commit).payload
    except DataError:
        return None
    if not is_encrypted(payload):
        return payload
    with pytest.raises(KeyMissingError):
        spans_of(replace(commit, payload=payload))
    return None


def test_every_byte_of_an_append_is_authenticated(place: Place) -> None:
    """A payload with any byte changed, cut short or extended yields no content."""
    commit = place.engine._partitions[0][0]
    assert given(place.log, commit) == PLAIN
    for changed in (*flips(commit.payload), *(commit.payload[:at] for at in range(len(commit.payload)))):
        assert given(place.log, replace(commit, payload=changed)) is None
    assert given(place.log, replace(commit, payload=commit.payload + b"\0")) is None


def test_every_byte_of_a_card_is_authenticated(place: Place) -> None:
    """A catalog entry with any byte changed is an error or locked, never another title."""
    head = place.engine._heads["f"]
    assert entry_of(place.log._decrypt_head(head)).fork_of == "a"
    for changed in flips(head.entry):
        try:
            opened: Head = place.log._decrypt_head(replace(head, entry=changed))
        except DataError:
            continue
        assert is_encrypted(opened.entry)
        assert entry_of(opened).title == ""


def test_every_byte_of_a_body_and_of_a_derived_value_is_authenticated(place: Place) -> None:
    """A changed body raises `DamagedError` or is missing; a changed derived value is ignored."""
    own = place.log.of("a")
    name = own.name(BODY)
    body, derived = place.engine._bodies[name], place.engine._derived[b"ka"]
    assert (own.body(BODY), own.get_derived(b"ka")) == (PLAIN, PLAIN)
    for changed in flips(body):
        place.engine._bodies[name] = changed
        with suppress(DamagedError, TooNewError):
            assert own.body(BODY) == PLAIN  # what is changed is the name of the key, which is not needed here
            assert decode_encrypted_value(changed).key != decode_encrypted_value(body).key
    for changed in flips(derived):
        place.engine._derived[b"ka"] = changed
        assert own.get_derived(b"ka") is None
        assert own.scan_derived(b"ka") == []


def test_nothing_is_opened_in_another_place(place: Place) -> None:
    """Ciphertext of one session, append, body, entry or key decrypts in no other place."""
    commits, bodies, heads = place.engine._partitions[0], place.engine._bodies, place.engine._heads
    for number in range(1, len(commits)):
        assert given(place.log, replace(commits[0], payload=commits[number].payload)) is None
    for other in ("epoch", "time", "count"):
        assert given(place.log, replace(commits[0], **{other: 7})) is None
    assert given(place.log, replace(commits[0], request="r")) is None
    for one, other in (("a", "f"), ("a", "b")):
        with pytest.raises(DamagedError, match=f"session {one}"):
            place.log._decrypt_head(replace(heads[one], entry=heads[other].entry))
    names = [place.log.of(session).name(BODY) for session in ("a", "f", "b")]
    assert names[0] == names[1] != names[2]
    bodies[names[0]] = bodies[names[2]]
    with pytest.raises(DamagedError):
        place.log.of("a").body(BODY)
    place.engine._derived[b"ka"] = place.engine._derived[b"kf"]
    assert place.log.of("a").get_derived(b"ka") is None


def test_parts_of_an_envelope_cannot_be_exchanged(place: Place) -> None:
    """The clear fields of an encrypted append cannot be exchanged."""
    commit = place.engine._partitions[0][0]
    encrypted = decode_encrypted_payload(commit.payload)
    for other in (
        replace(encrypted, base=None),
        replace(encrypted, messages=9),
        replace(encrypted, entry=None),
        replace(encrypted, names=(BODY,)),
    ):
        assert given(place.log, replace(commit, payload=encode_encrypted(other))) is None
    head = place.engine._heads["f"]
    entry = decode_encrypted_value(head.entry)
    with pytest.raises(DamagedError):
        place.log._decrypt_head(
            replace(head, entry=encode_encrypted(replace(entry, clear=encode_value(CatalogEntry(fork_of="b")))))
        )


def test_plain_content_is_not_taken_in_an_encrypted_log(place: Place) -> None:
    """A plaintext append or entry in an encrypted log is damage, except a tombstone."""
    event = eventlog.events.UserMessageAdded("m")
    tombstone = encode([(1, eventlog.events.SessionErased("why"))], 1)
    commit = place.engine._partitions[0][0]
    for payload in (
        PLAIN,
        b"",
        FOREIGN + b"x",
        encode([(1, event)], 1),
        encode([(1, eventlog.events.SessionErased(""))] * 2, 1),
    ):
        with pytest.raises(DamagedError, match="session a, version 1, position 1"):
            place.log.decrypt(replace(commit, payload=payload))
    assert given(place.log, replace(commit, payload=tombstone)) == tombstone
    head = place.engine._heads["a"]
    encrypted = decode_encrypted_value(head.entry)
    for entry in (
        encode_value(CatalogEntry(title="x")),
        FOREIGN + b"x",
        encode_encrypted(replace(encrypted, clear=encode_value(CatalogEntry(title="x")), data=b"")),
    ):
        with pytest.raises(DamagedError, match="session a"):
            place.log._decrypt_head(replace(head, entry=entry))


def test_a_forged_catalog_entry_is_found(place: Place) -> None:
    """`check` names the session whose catalog entry is not the one that was encrypted."""
    assert place.log.check() == []
    heads = place.engine._heads
    heads["a"] = replace(heads["a"], entry=heads["b"].entry)
    (line,) = place.log.check()
    assert "session a" in line


@pytest.mark.parametrize("read_with", ["keys", "no keys"])
def test_another_key_in_a_head_is_no_key_that_is_gone(read_with: str) -> None:
    """A changed key name, entry or count in a head is found, and is no lost key."""
    service, engine = Service(), LastingLog()
    log = open_log_module.open_log("memory:", keys=service)
    assert isinstance(log, EncryptedLog)
    writing = EncryptedLog(engine, log._ring, log._own)
    with Store(writing) as store:
        for name in ("p", "q"):
            exchange(store.create_session(id=name, title="t"))
            store.session(name).rename("another title")
            store.session(name).user("the last words")
    renamed = next(
        commit for commit in reversed(list(engine.read("p"))) if decode_encrypted_payload(commit.payload).entry
    )
    before = next(entry for commit in engine.read("p") if (entry := decode_encrypted_payload(commit.payload).entry))
    head, other = engine._heads["p"], decode_encrypted_value(engine._heads["q"].entry).key
    encrypted = decode_encrypted_value(head.entry)
    without = EncryptedLog(engine, KeyRing(None), None)
    read = Store(writing if read_with == "keys" else without)
    assert verify(read).sound
    for changed in (
        replace(head, entry=encode_encrypted(replace(encrypted, key=bytes(16)))),
        replace(head, entry=encode_encrypted(replace(encrypted, key=other))),
        replace(
            head, entry=encode_encrypted(replace(encrypted, data=encrypted.data[:-1] + bytes([encrypted.data[-1] ^ 1])))
        ),
        replace(head, entry=before),
        replace(head, messages=head.messages + 1),
    ):
        engine._heads["p"] = changed
        writing._entries = {}
        report = next(one for one in verify(read).sessions if one.session == "p")
        assert report.first_bad == renamed.first, report
        assert any("head was changed" in problem.problem for problem in report.problems)
        assert not report.locked
    engine._heads["p"] = head
    writing._entries = {}
    assert verify(read).sound
    service.keys.clear()
    gone = verify(Store(EncryptedLog(engine, KeyRing(keys_from(service, None)), None)))
    assert gone.sound
    assert all(report.locked for report in gone.sessions)


def test_what_was_forged_below_the_hashes_is_found(tmp_path: Path) -> None:
    """A store rewritten without keys, hashes included, is damaged; verify names the version."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        exchange(store.create_session(id="p"))
        version = store.session("p").version
    log = open_log(tmp_path / "s")
    forged = encode([(1, eventlog.events.UserMessageAdded("m"))], 1)
    log.submit(Append(session="p", payload=forged, count=1, time=1, messages=1)).wait()
    log.close()
    with eventlog.open(tmp_path / "s", keys=True) as store:
        report = verify(store)
        assert report.sessions[0].first_bad == version + 1
        with pytest.raises(DamagedError):
            list(store.session("p").events())
