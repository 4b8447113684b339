"""A store full of secrets, and a key provider that is a function."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

import eventlog
from eventlog.codec.payload import decode_encrypted_payload
from eventlog.compression import unpack
from eventlog.encryption.log import EncryptedLog
from eventlog.log.digests import digests_in
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.view.model_view import LiveView, ModelView
from projections.view.neutral import Text

SECRET = "the name of the king is Rumpelstiltskin"
_LONG = f"{SECRET}, said the queen to the messenger. " * 60
"""A text long enough to be a body and to be compressed."""


class Service:
    """A key management service as one function that records its calls."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.asked: list[str] = []

    def __call__(self, verb: str, name: str) -> bytes | None:
        """Find, make or destroy a key."""
        self.asked.append(verb)
        if verb == "make":
            self.keys[name] = os.urandom(32)
        if verb == "destroy":
            self.keys.pop(name, None)
        return self.keys.get(name)


def confess(store: Store, name: str = "p", turns: int = 2) -> eventlog.Session:
    """Make a session with the secret as title, text, stream, tool, body, pin, prompt, usage."""
    session = store.create_session(id=name, title=SECRET, scope=f"scope of {SECRET}", directory=SECRET)
    session.set_system_prompt(SECRET, _LONG)
    session.set_tools(f'[{{"name": "{SECRET}"}}]')
    session.set_metadata("note", f'"{SECRET}"')
    session.pin(SECRET)
    for turn in range(turns):
        session.user(_LONG, request_id=f"r{turn}", files=[eventlog.File("text/x", SECRET, SECRET)])
        with session.assistant(model="acme/one") as reply:
            reply.step()
            text = reply.stream_text()
            for word in _LONG.split(" ")[:40]:
                text.append(word + " ")
            text.end()
            reply.tool("bash", call_id="c", input={"command": SECRET}).succeed(_LONG, title=SECRET)
            reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(10, 5)))
    view = LiveView(session)
    assert view.advance().tokens
    view.save()
    return session


def rendered(session: eventlog.Session) -> str:
    """All texts of a session, as one text."""
    return "\n".join(repr(recorded.event) for recorded in session.events())


def texts(session: eventlog.Session) -> list[str]:
    """The texts that the model would be sent."""
    return [part.text for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Text)]


def opened_by_the_keys(store: Store) -> bytes:
    """All that the keys open: appends and their catalog entries, heads, texts, derived values."""
    log, found = store.log, list[bytes]()
    for commit in chain(*(log.commits_after(0, 100_000, partition=number) for number in range(log.partitions))):
        found.append(commit.payload)
        head = log.head(commit.session)
        if commit.stored and head is not None and (entry := decode_encrypted_payload(commit.stored).entry) is not None:
            assert isinstance(log, EncryptedLog)
            found.append(log.opened(commit.session, replace(head, entry=entry)).entry)
    found += (head.entry for head in log.heads())
    found += (unpack(log.body(digest) or b"") for digest in digests_in(b"".join(found)) if log.body(digest))
    return b"".join([*found, *(value for _, value in log.scan_derived(b""))])


def leaks(*paths: Path) -> list[str]:
    """The files that contain the secret, plain or inside compressed data."""
    return [file for path in paths for word in ("Rumpelstil", "messenger") for file in files_with(path, word)]
