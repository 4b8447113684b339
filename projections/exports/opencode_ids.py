"""Ids that OpenCode takes: with its prefixes, and in the order of the messages and parts, by which OpenCode sorts.

Ids that fit are kept; else all of a document's message or part ids are made anew, from the session and the old
id and so always the same: `msg_` or `prt_`, twelve hexadecimal digits that grow, fourteen of a hash.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from typing import Any, TypeAlias

__all__ = ["NOBODY", "renamed", "session_id"]

Record: TypeAlias = dict[str, Any]
NOBODY = "msg_" + "0" * 26
"""The parent of an answer that nobody asked for: OpenCode needs one."""
_BITS = 48
"""What fits into twelve hexadecimal digits; OpenCode lets its times run over, too."""


def session_id(name: str) -> str:
    """The id of a session, if need be with OpenCode's prefix."""
    return name if name.startswith("ses") else "ses_" + _hash("", name, 26)


def renamed(document: Record, *, fresh: bool) -> None:
    """Give messages and parts ids that OpenCode takes; `fresh`: others than those of the session that this one continues."""
    messages: list[Record] = document["messages"]
    session: str = document["info"]["id"]
    infos: list[Record] = [message["info"] for message in messages]
    parts = [(info, part) for message, info in zip(messages, infos, strict=True) for part in message["parts"]]
    names = _names("msg_", session, [(info, info["id"]) for info in infos], fresh or not _fit("msg", [infos]))
    in_order = [message["parts"] for message in messages]
    own = _names("prt_", session, [(info, part["id"]) for info, part in parts], fresh or not _fit("prt", in_order))
    asked = NOBODY
    for info in infos:
        info["id"], info["sessionID"] = names[info["id"]], session
        if info["role"] == "user":
            asked = info["id"]
        else:
            info["parentID"] = names.get(info["parentID"], asked)
    for info, part in parts:
        part.update(id=own[part["id"]], sessionID=session, messageID=info["id"])
        if "tail_start_id" in part:
            part["tail_start_id"] = names.get(part["tail_start_id"], part["tail_start_id"])
        for number, file in enumerate(part.get("state", {}).get("attachments", ())):
            file.update(sessionID=session, messageID=info["id"])
            if fresh or not str(file.get("id", "")).startswith("prt"):
                file["id"] = f"{part['id']}{number}"
    revert: Record | None = document["info"].get("revert")
    if revert is not None:
        revert.update({key: names.get(revert[key], revert[key]) for key in ("messageID",) if key in revert})
        revert.update({key: own.get(revert[key], revert[key]) for key in ("partID",) if key in revert})


def _fit(prefix: str, rows: list[list[Record]]) -> bool:
    """Whether the ids can stay: of OpenCode's kind, each there once, and in order within each row."""
    ids = [record["id"] for row in rows for record in row]
    return (
        all(name.startswith(prefix) for name in ids)
        and len({*ids}) == len(ids)
        and all(_order(one) < _order(two) for row in rows for one, two in pairwise(row))
    )


def _order(record: Record) -> tuple[int, str]:
    """By what OpenCode sorts: messages by their time first, parts by their ids alone."""
    return (record["time"]["created"] if "role" in record else 0), record["id"]


def _names(prefix: str, session: str, found: list[tuple[Record, str]], fresh: bool) -> dict[str, str]:
    """The new id of each old one."""
    if not fresh:
        return {name: name for _, name in found}
    names: dict[str, str] = {}
    number = 0
    for info, name in found:
        number = max(number + 1, info["time"]["created"] << 12)
        names[name] = f"{prefix}{number & ((1 << _BITS) - 1):012x}{_hash(session, name, 14)}"
    return names


def _hash(session: str, name: str, length: int) -> str:
    return sha256(f"{session}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:length]
