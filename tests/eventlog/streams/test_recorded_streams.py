"""Recorded streams give the same parts live, by the packages of providers, and imported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import astuple

import eventlog
from eventlog import AsyncSession, Session
from eventlog import events as ev
from eventlog.errors import StreamError
from eventlog.importers import import_file
from eventlog.importers.common.importer import Report
from eventlog.importers.streams.sse import kind_of_stream, records
from eventlog.session.filling import Filled
from eventlog.values import Tokens
from projections import Transcript
from tests.support.sdk_streams import PACKAGES, asynchronous, helped, synchronous
from tests.support.shared import shared_path


class Parts(NamedTuple):
    """The content of an answer, part boundaries of its texts left out."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str, str], ...]


def recorded() -> list[Path]:
    """Every recorded stream of an API that is read."""
    found = sorted(shared_path("data").rglob("*.sse"))
    return [path for path in found if kind_of_stream(path.read_bytes()[:65_536]) in PACKAGES]


def parts_of(session: Session) -> list[Parts]:
    """The content of each answer."""
    found: list[Parts] = []
    for message in Transcript(session).oldest_first():
        if message.role == "assistant":
            parts = [part for part in message.parts if not part.removed]
            text, reasoning = (
                "".join(part.text for part in parts if part.kind == kind) for kind in ("text", "reasoning")
            )
            calls = tuple((part.call, part.tool, part.input or "") for part in parts if part.kind == "tool")
            found.append(Parts(text, reasoning, calls))
    return found


def usages(session: Session) -> list[Tokens]:
    """The tokens of each model call that told them."""
    return [each.event.usage.tokens for each in session.events() if isinstance(each.event, ev.UsageRecorded)]


def summed(tokens: list[Tokens]) -> list[int]:
    """The sums of all kinds of tokens but the total."""
    return [sum(each) for each in zip(*([*astuple(one)][:-1] for one in tokens), strict=True)]


def filled(answer: object) -> tuple[list[Parts], list[Any], Filled | None]:
    """Fill a reply from an answer; return its content, its tokens, and its end if it has one."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("hi")
        end: Filled | None = None
        with session.assistant("a/b") as reply:
            try:
                end = reply.fill(answer)
            except StreamError:
                reply.abort()
            else:
                _give_up(reply, end)
        return parts_of(session), usages(session), end


def filled_in_a_task(answer: Callable[[], object]) -> tuple[list[Parts], list[Any], Filled | None]:
    """Fill a reply for asyncio."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("hi")

        async def fill() -> Filled | None:
            async with AsyncSession(session).assistant("a/b") as reply:
                try:
                    end = await reply.fill(answer())
                except StreamError:
                    await reply.abort()
                    return None
                _give_up(reply.sync, end)
                return end

        end = asyncio.run(fill())
        return parts_of(session), usages(session), end


def _give_up(reply: eventlog.Reply, end: Filled) -> None:
    for call in end.calls:
        call.fail(interrupted=True)
    if reply.is_open:
        reply.finish("tool-calls")


def chunks_in(data: bytes) -> list[dict[str, Any]]:
    """The chunks of a recorded stream as they went over the wire."""
    return [each.value for each in records(BytesIO(data), Report("", "")) if each.value is not None]


def _blocking(kind: str, data: bytes) -> Any:
    return filled(synchronous(kind, data))


def _helped(kind: str, data: bytes) -> Any:
    return filled(helped(kind, data))


def told(found: tuple[list[Parts], list[Any], Filled | None]) -> tuple[Any, ...]:
    """The results on which two ways of filling have to agree."""
    parts, tokens, end = found
    return parts, tokens, None if end is None else (end.reason, end.usage, len(end.calls))


def test_a_recorded_stream_is_one_answer_live_and_imported() -> None:
    """Text, reasoning, calls and tokens of each recorded stream are the importer's."""
    wrong: list[str] = []
    for path in recorded():
        parts, tokens, _ = filled(chunks_in(path.read_bytes()))
        with eventlog.open("memory:") as store:
            import_file(store, path)
            (info,) = store.sessions()
            imported = store.session(info.id)
            counted = usages(imported)  # the importer has none of a stream without a finish reason
            if parts != parts_of(imported)[:1] or (counted and summed(tokens) != summed(counted)):
                wrong.append(path.name)
    assert wrong == []


@pytest.mark.parametrize("kind", PACKAGES)
def test_the_objects_of_a_package_are_read_as_the_wire_is(kind: str) -> None:
    """Chunks of the blocking and the asyncio client, and of helper streams, give one answer."""
    differing: list[str] = []
    for path in recorded():
        data = path.read_bytes()
        if kind_of_stream(data[:65_536]) != kind:
            continue
        expected = told(filled(chunks_in(data)))
        if expected[2] is None:  # an error in the stream, which the packages raise themselves
            continue
        ways: dict[str, Callable[[], Any]] = {
            "blocking": partial(_blocking, kind, data),
            "asyncio": partial(filled_in_a_task, partial(asynchronous, kind, data)),
            "helper": partial(_helped, kind, data),
        }
        for name, way in ways.items():
            try:
                found = told(way())
            except Exception as error:  # noqa: BLE001  # a package that cannot read a recording
                found = (f"{type(error).__name__}: {error}",)
            if found != expected:
                differing.append(f"{name} {path.name} {str(found)[:300]}")
    assert differing == []
