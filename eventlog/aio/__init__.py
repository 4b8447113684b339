"""Sessions, replies and subscriptions for asyncio: awaited where others block.

    chat = AsyncSession(session)
    await chat.user("Fix the tests")
    async with chat.assistant(model="anthropic/claude") as reply:
        text = reply.stream_text()
        text.append(token)                     # accepted, as ever
        await reply.end(text)                  # durable

A command is decided in the calling task, in order, and only its durability is awaited. What may
wait for other owners or for the disk (taking a lease, `do`, `append`, a request id) runs in a
thread. A command that raises is not committed, and will not be. After a cancelled await the append
is committed whole or not at all; a retry with the same request id tells which.

    async for recorded in AsyncSubscription(store, after, session="s", provisional=True):
        await socket.send_text(...)
"""

from __future__ import annotations

from eventlog.aio.reply import AsyncReply
from eventlog.aio.session import AsyncSession
from eventlog.aio.subscription import AsyncSubscription
from eventlog.aio.turn import AsyncTurn

__all__ = ["AsyncReply", "AsyncSession", "AsyncSubscription", "AsyncTurn"]
