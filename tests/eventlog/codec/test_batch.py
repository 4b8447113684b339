"""The codec: exact round trips, typed errors for bad bytes, bytes stable per schema."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.codec import batch
from eventlog.codec.batch import Item, decode, decode_value, encode, encode_value, validate
from eventlog.codec.decoded import events_of, spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.upcast import UPCASTERS
from eventlog.errors import CallError, DamagedError, DataError
from eventlog.log.commit import Commit
from eventlog.values import Origin, Tokens, Usage
from tests.support.event_strategies import KINDS, events, items, texts

pytestmark = pytest.mark.promise(12)

ROUND_TRIP = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def commit_of(payload: bytes, count: int, first: int = 1) -> Commit:
    """Make a commit with this payload."""
    return Commit("s", first, count, 100, 3, 0, payload)


def facts(batch: list[Item], *, base: int) -> list[tuple[int, ev.Event]]:
    """Every event of a batch with its time, runs split into deltas."""
    found: list[tuple[int, ev.Event]] = []
    for item in batch:
        if isinstance(item, DeltaRun):
            found += zip(item.times(base), item.deltas(), strict=True)
        else:
            found.append(item)
    return found


@ROUND_TRIP
@given(items())
def test_every_event_comes_back_exactly(batch: tuple[int, list[Item]]) -> None:
    """Every event round-trips exactly: version, position, time and lone surrogates."""
    time, held = batch
    expected = facts(held, base=time)
    payload = encode(held, time)
    found = list(events_of(commit_of(payload, len(expected))))
    assert [(recorded.time, recorded.event) for recorded in found] == expected
    assert [recorded.version for recorded in found] == list(range(1, len(expected) + 1))
    assert [recorded.position for recorded in found] == list(range(100, 100 + len(expected)))
    assert {recorded.epoch for recorded in found} == {3}
    assert encode(held, time) == payload


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_every_kind_comes_back_with_surrogates_in_every_text(kind: type[ev.Base]) -> None:
    """Every event kind round-trips with lone surrogates and U+10FFFF in each of its texts."""

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.from_type(kind))
    def check(event: ev.Event) -> None:
        odd = msgspec.convert(
            [
                "\ud800\U0010ffffd800" if isinstance(field, str) and index and not number_like(event, index) else field
                for index, field in enumerate(msgspec.to_builtins(event, builtin_types=(bytes,)))
            ],
            kind,
        )
        (entry,) = decode(encode([(5, odd)], 5)).entries  # type: ignore[list-item]  # one kind of the union
        assert not isinstance(entry, DeltaRun)
        assert entry.event == odd

    check()


def number_like(event: ev.Base, index: int) -> bool:
    """Whether a field's text belongs to a closed set that other texts may not replace."""
    name = event.__struct_fields__[index - 1]
    return name in {"delivery", "purpose", "verdict"}


@ROUND_TRIP
@given(items(), st.data())
def test_a_range_of_a_commit_is_cut_exactly(batch: tuple[int, list[Item]], data: st.DataObject) -> None:
    """Reading versions `after + 1 .. upto` gives exactly those, also inside a run of deltas."""
    time, held = batch
    expected = facts(held, base=time)
    first = data.draw(st.integers(1, 50))
    after = data.draw(st.integers(0, first + len(expected) + 1))
    upto = data.draw(st.none() | st.integers(0, first + len(expected) + 1))
    commit = commit_of(encode(held, time), len(expected), first)
    found = list(events_of(commit, after, upto))
    numbered = [
        (first + number, *fact)
        for number, fact in enumerate(expected)
        if first + number > after and (upto is None or first + number <= upto)
    ]
    assert [(recorded.version, recorded.time, recorded.event) for recorded in found] == numbered
    assert all(recorded.position - 100 == recorded.version - first for recorded in found)
    assert all(span.last >= span.first for span in spans_of(commit, after, upto))


@ROUND_TRIP
@given(events)
def test_what_may_be_written_is_what_can_be_read(event: ev.Event) -> None:
    """`validate` accepts every event whose fields have their declared types."""
    validate(event)


@pytest.mark.parametrize(
    "event",
    [
        ev.MetadataSet("key", {"a": 1}),  # type: ignore[arg-type]  # the mistake it is about
        ev.SessionRenamed(None),  # type: ignore[arg-type]  # the same
        ev.UsageRecorded(Usage(Tokens(1 << 64))),
        ev.UserMessageAdded("m", delivery="soon"),  # type: ignore[arg-type]  # the same
        ev.MetadataSet("\ud800", 7),  # type: ignore[arg-type]  # the same, in a text that needs escaping
        ev.UsageRecorded(Usage(Tokens(1 << 64)), message="\ud800"),
    ],
    ids=["mapping", "none", "too big", "literal", "escaped", "too big beside escaped"],
)
def test_a_field_of_another_type_is_refused_before_it_is_written(event: ev.Event) -> None:
    """Promise 12: a field that could not be read back is a `CallError` before it is written."""
    with pytest.raises(CallError):
        validate(event)


def plain(payload: bytes) -> list[object]:
    """A batch as plain lists."""
    fields: list[object] = msgspec.msgpack.decode(payload)
    return fields


SAMPLE = encode(
    [(7, ev.SessionRenamed("tïtle")), DeltaRun.from_flat([("p", "text"), "abc", 8, ("p", "input"), "d", 9], 7)], 7
)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\x01",
        b"\x80",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\x91" * 5000,
        msgspec.msgpack.encode([ev.SCHEMA, 0, False]),
        msgspec.msgpack.encode(["2", 0, False, []]),
        msgspec.msgpack.encode([ev.SCHEMA, 0, False, 7]),
        msgspec.msgpack.encode([ev.SCHEMA, 0, False, [7]]),
        msgspec.msgpack.encode([ev.SCHEMA, 0, False, [[0, 0, [["x"]]]]]),
        msgspec.msgpack.encode([ev.SCHEMA, 0, False, [[0, 0, []]]]),
        msgspec.msgpack.encode([ev.SCHEMA, 0, False, [[9, 0]]]),
        msgspec.msgpack.encode([0, 0, False, [[0, 0, ["sr", "t"]]]]),
        msgspec.msgpack.encode([-1, 0, True, [[0, 0, ["sr", "t"]]]]),
    ],
)
def test_what_is_no_batch_is_damage(payload: bytes) -> None:
    """Promise 12: bytes that are no batch raise `DamagedError` and nothing else."""
    with pytest.raises(DamagedError):
        decode(payload)


@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_damage_at_every_position_is_a_typed_error_or_another_batch(escaped: bool) -> None:
    """Promise 12: a batch with any byte changed raises `DataError` or decodes whole events."""
    title = "\udc00" if escaped else "t"
    payload = encode(
        [(7, ev.SessionRenamed(title)), DeltaRun.from_flat([("p", "text"), "ab", 8, ("q", "text"), "c", 300], 7)], 7
    )
    damaged = [payload[:cut] for cut in range(len(payload))] + [payload + b"\x00"]
    damaged += [
        payload[:at] + bytes((value,)) + payload[at + 1 :]
        for at in range(len(payload))
        for value in {0, 0xFF, payload[at] ^ 1, payload[at] ^ 0x80, 0x93, 0xC0, 0xDD}
    ]
    for data in damaged:
        try:
            found = list(events_of(commit_of(data, 3)))
        except DataError as error:
            assert error.session == "s"  # noqa: PT017 - either outcome is right
        else:
            assert len(found) == 3


@pytest.mark.parametrize(
    "run",
    [
        [1, 0, 0, [["p", "text"]], b"", b"", b"", ""],
        [1, 0, 1, [], b"", b"\x01", b"\x00", "a"],
        [1, 0, 2, [["p", "text"]], b"", b"\x01\x01", b"\x00\x00", "abc"],
        [1, 0, 2, [["p", "text"]], b"", b"\x01\x01\x01", b"\x00\x00", "ab"],
        [1, 0, 2, [["p", "text"]], b"\x00\x01", b"\x01\x01", b"\x00\x00", "ab"],
        [1, 0, 1, [["p", "text"]], b"\xff" * 8, b"\x01", b"\x00", "a"],
        [1, 0, 2, [["p", "text"]], b"", b"\xff" * 8 + b"\x03" + bytes(7), b"\x00\x00", "ab"],
    ],
    ids=["no deltas", "no keys", "too much text", "odd column", "no such key", "negative key", "negative length"],
)
def test_a_run_whose_columns_do_not_fit_is_damage(run: list[object]) -> None:
    """Promise 12: a stored run of deltas is checked when it is read."""
    with pytest.raises(DamagedError):
        decode(msgspec.msgpack.encode([ev.SCHEMA, 0, False, [run]]))


def test_a_commit_that_holds_another_number_of_events_is_damage() -> None:
    """Promise 12: a payload with another number of events than its versions is damage."""
    with pytest.raises(DamagedError) as caught:
        list(events_of(commit_of(SAMPLE, 4, first=11)))
    assert (caught.value.version, caught.value.position) == (11, 100)


@pytest.mark.parametrize("title", ["new", "\ud800"])
def test_an_older_schema_is_read_as_the_current_one(monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    """Older schema versions are upcast on read: in an invented one titles end with a mark."""
    payload = encode([(52, ev.SessionRenamed(f"{title}!"))], 50)
    monkeypatch.setattr(batch, "SCHEMA", ev.SCHEMA + 1)
    with pytest.raises(DamagedError):
        list(events_of(commit_of(payload, 1)))
    monkeypatch.setitem(UPCASTERS, ev.SCHEMA, lambda event: [event[0], str(event[1]).removesuffix("!")])
    (renamed,) = events_of(commit_of(payload, 1))
    assert (renamed.time, renamed.event) == (52, ev.SessionRenamed(title))


@given(texts, texts)
def test_a_packed_value_keeps_every_text(title: str, scope: str) -> None:
    """Catalog entries keep lone surrogates exactly, and no text is mistaken for an escape."""
    origin = Origin(title, scope)
    assert decode_value(encode_value(origin), Origin) == origin
    assert (encode_value(origin) == encode_value(Origin(scope, title))) == (title == scope)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\xa1", b"\x01"])
def test_a_packed_value_that_cannot_be_read_is_damage(data: bytes) -> None:
    """Promise 12: a catalog entry that cannot be read is a typed error."""
    with pytest.raises(DamagedError):
        decode_value(data, Origin)
