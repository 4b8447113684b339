"""Checkpoints and writes of tasks as values of a session, and their keys.

`c/NAMESPACE/ID` is a checkpoint, `w/NAMESPACE/ID/TASK` what a task wrote to it, `b/DIGEST` a value
of a channel, stored once, `h/NAMESPACE` the newest checkpoint, `r/RUN` says that a run was here,
`s/NAMESPACE/ID` what a checkpoint comes of whose parent was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec

MESSAGES = "messages"
"""Channel of the root namespace that the view shows."""
DELTAS = "counters_since_delta_snapshot"
"""Entry of a checkpoint's metadata with the `DeltaChannel`s of which it has no value."""
BLOB = "#"
"""Type of a channel's value that is stored under its digest."""

Typed = tuple[str, bytes]
"""A value as the serializer dumps it."""


class Stored(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint without the values of its channels, as it lies in the session."""

    ns: str
    id: str
    parent: str | None
    checkpoint: Typed
    metadata: Typed
    values: dict[str, Typed]
    told: str
    """How the checkpoint has the messages: "list", "snapshot", or "" for not at all."""

    def channels(self) -> list[str]:
        """Return the channels of which it has a value."""
        return [*self.values, MESSAGES] if self.told else list(self.values)

    def has(self, channel: str) -> bool:
        """Whether it has a value of a channel."""
        return channel in self.values or bool(self.told and channel == MESSAGES)


class Write(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True):
    """A value that a task wrote to a channel, with its place among the writes of a step."""

    channel: str
    value: Typed
    place: int
    path: str
    task: str = ""
    run: str = ""
    """The run that wrote it, "" if it does not say."""


class Since(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True):
    """The checkpoint that one comes of without a removed run, and what others wrote since."""

    id: str | None
    writes: list[Write]
    pruned: int = 0
    """The version that had the list of messages before its run, if that was pruned, else 0."""


encode: Callable[[Any], bytes] = msgspec.msgpack.encode
decode_checkpoint: Callable[[bytes], Stored] = msgspec.msgpack.Decoder(Stored).decode
decode_since: Callable[[bytes], Since] = msgspec.msgpack.Decoder(Since).decode
decode_writes: Callable[[bytes], list[Write]] = msgspec.msgpack.Decoder(list[Write]).decode


def key_of(kind: str, space: str, *ids: str) -> str:
    """Return the key of a namespace, a checkpoint of it, a task of that; or of a run."""
    return "/".join((kind, sha256(space.encode()).hexdigest()[:32] if space else "", *map(quoted, ids)))


def root_of(metadata: Mapping[str, Any]) -> str:
    """Return the checkpoint of the root graph in which a subgraph's one was made, "" for none."""
    parents: dict[str, str] = metadata.get("parents") or {}
    return parents.get("", "")


def run_in(metadata: Mapping[str, Any]) -> str:
    """Return the run that metadata names, "" for none."""
    run = metadata.get("run_id")
    return run if isinstance(run, str) else ""


def quoted(id: str) -> str:
    """Return an id as keys have it, without a slash."""
    return quote(id, safe="")


def bytes_of(value: str | bytes) -> bytes:
    """Return a value that was put as bytes."""
    return value if isinstance(value, bytes) else value.encode()
