"""Server-sent events whose answer has an end, also when the server stops.

The library breaks its answers off when uvicorn stops: uvicorn then complains of each open page, and
a proxy of an answer that is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sse_starlette import EventSourceResponse

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


class EventStream(EventSourceResponse):
    """An answer of server-sent events."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, and the end of the answer if they broke off."""
        waits = False  # whether a client waits for more

        async def received() -> Message:
            nonlocal waits
            message = await receive()
            waits = waits and message["type"] != "http.disconnect"
            return message

        async def sent(message: Message) -> None:
            nonlocal waits
            waits = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await super().__call__(scope, received, sent)
        if waits:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
