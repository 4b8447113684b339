"""The client of a live page, which knows nothing but the updates it is sent."""

from __future__ import annotations

import json
from typing import Any

from eventlog.session.session import Session
from projections.transcript.message_json import Form
from projections.transcript.transcript import Transcript

Json = dict[str, Any]


class GapError(Exception):
    """Text is missing: the page begins again without a cursor."""


class LivePage:
    """The messages that a page shows, oldest first, and the cursor behind them."""

    def __init__(self) -> None:
        self.cursor: str | None = None
        self.messages: dict[str, Json] = {}
        self.next: int | None = None
        """Older messages began before this version; None if the page has all."""
        self.gone = False

    def take(self, cursor: str | None, data: bytes | str) -> None:
        """Apply an update."""
        for patch in json.loads(data):
            self.apply(patch)
        self.cursor = cursor or self.cursor

    def apply(self, patch: Json) -> None:
        """Apply a patch."""
        if "reset" in patch:
            self.messages = {}
            self.add_older(patch["reset"])
        elif "gone" in patch:
            self.messages, self.next, self.gone = {}, None, True
        elif "drop" in patch:
            self.messages = {k: m for k, m in self.messages.items() if m["version"] >= patch["drop"]}
            self.next = max(self.next or 0, patch["drop"])
        elif "message" in patch:
            message = patch["message"]
            if message["id"] in self.messages:
                self.messages[message["id"]].update(message)
            elif "parts" in message and (self.next is None or message["version"] >= self.next):
                self.messages[message["id"]] = message
        elif "of" in patch:
            parts = self.messages.get(patch["of"], {}).get("parts", [])
            if all(part["id"] != patch["part"] for part in parts):
                parts.append(patch["set"])
        else:
            self.change(patch)

    def change(self, patch: Json) -> None:
        """Apply a patch to a part, if the page has it."""
        for message in self.messages.values():
            for part in message["parts"]:
                if part["id"] == patch["part"]:
                    if "set" in patch:
                        part.update(patch["set"])
                    else:
                        part[patch["field"]] = grown(part[patch["field"]], patch)

    def add_older(self, page: Json) -> None:
        """Put a page of older messages before those that are shown."""
        self.messages = {message["id"]: message for message in page["messages"]} | self.messages
        self.next = page["next"]


def grown(text: str, patch: Json) -> str:
    """Return a text with a piece added, or cut.  Lengths are those of UTF-16."""
    have = text.encode("utf-16-le", "surrogatepass")
    if "end" in patch:
        return have[: 2 * patch["end"]].decode("utf-16-le", "surrogatepass")
    if len(have) < 2 * patch["at"]:
        raise GapError
    more: bytes = patch["text"].encode("utf-16-le", "surrogatepass")
    return (have + more[max(len(have) - 2 * patch["at"], 0) :]).decode("utf-16-le", "surrogatepass")


def as_utf16(value: Any) -> Any:
    """Return a JSON value as a browser has it: two halves of a character are one."""
    return json.loads(json.dumps(value, ensure_ascii=True))


def shown(session: Session, since: int | None = None, longest: int = 200_000) -> list[Any]:
    """Return the transcript as a page should show it, from a version on."""
    form = Form(longest)
    messages: list[Any] = as_utf16([form.message(message) for message in Transcript(session).oldest_first()])
    return [message for message in messages if since is None or message["version"] >= since]
