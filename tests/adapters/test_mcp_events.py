"""The event store of the Model Context Protocol that the page on records has."""

from __future__ import annotations

from typing import Any

from mcp.server.streamable_http import EventMessage, EventStore
from mcp_types import JSONRPCNotification, JSONRPCResponse

from projections import ModelView
from tests.support.engines import Engine
from tests.support.pages import example


def stream_store(store: Any) -> EventStore:
    """Return an object of the page's class."""
    names: dict[str, Any] = {}
    exec(compile(example("class StreamStore").code, "eventlog/records/README.md", "exec"), names)  # noqa: S102 - the page
    made: EventStore = names["StreamStore"](store)
    return made


async def test_a_client_gets_what_it_missed(engine: Engine) -> None:
    """A client gets the events behind the one it names, of that stream, in any process."""
    messages: list[Any] = [
        JSONRPCNotification(jsonrpc="2.0", method="progress", params={"n": number, "text": "a\x00b"})
        for number in range(5)
    ]
    messages.append(JSONRPCResponse(jsonrpc="2.0", id=1, result={"content": []}))
    one = stream_store(engine.open())
    first = await one.store_event("1", None)
    ids = [await one.store_event("1", message) for message in messages]
    await one.store_event("10", messages[0])
    for seen, missed in ((first, messages), (ids[2], messages[3:]), (ids[-1], [])):
        got: list[EventMessage] = []

        async def send(message: EventMessage, got: list[EventMessage] = got) -> None:
            got.append(message)

        assert await stream_store(engine.open()).replay_events_after(seen, send) == "1"
        assert [message.message for message in got] == missed
        assert [message.event_id for message in got] == ids[len(ids) - len(missed) :]


async def test_a_client_gets_nothing_of_conversations(engine: Engine) -> None:
    """An id that is of no stream, of a conversation too, gives nothing."""
    store = engine.open()
    conversation = store.create_session()
    conversation.user("secret")

    async def send(message: EventMessage) -> None:
        raise AssertionError(message)

    for id in ("", "x", "x:1", f"{conversation.id}:0", f"{conversation.id}:x"):
        assert await stream_store(store).replay_events_after(id, send) is None
    event = await stream_store(store).store_event("s", JSONRPCNotification(jsonrpc="2.0", method="m"))
    assert len(ModelView.of(store.session(event.rpartition(":")[0])).messages) == 0
