"""Ids for OpenCode: with its prefixes, and in the order by which OpenCode sorts.

If all message ids of a document fit, they stay; else all are replaced, and likewise the part ids. A
new id is `msg_` or `prt_`, twelve growing hexadecimal digits, and fourteen of a hash of the session
and the old id, so it never changes.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

from eventlog.importers.opencode.values import Record

NO_PARENT = "msg_" + "0" * 26
"""Parent of an answer without a question; OpenCode requires a parent."""
_BITS = 48
"""Bits in twelve hexadecimal digits; OpenCode lets its times overflow, too."""


def session_id(name: str) -> str:
    """Return the id of a session with OpenCode's prefix."""
    return name if name.startswith("ses") else "ses_" + _hash("", name, 26)


def rename(document: Record, *, fresh: bool) -> None:
    """Give messages and parts ids that OpenCode accepts.

    With `fresh` all are replaced: a fork must not share ids with its parent.
    """
    messages: list[Record] = document["messages"]
    session: str = document["info"]["id"]
    infos: list[Record] = [message["info"] for message in messages]
    parts = [(info, part) for message, info in zip(messages, infos, strict=True) for part in message["parts"]]
    names = _names("msg_", session, [(info, info["id"]) for info in infos], fresh or not _fit("msg", [infos]))
    in_order = [message["parts"] for message in messages]
    own = _names("prt_", session, [(info, part["id"]) for info, part in parts], fresh or not _fit("prt", in_order))
    question = NO_PARENT
    for info in infos:
        info["id"], info["sessionID"] = names[info["id"]], session
        if info["role"] == "user":
            question = info["id"]
        else:
            info["parentID"] = names.get(info["parentID"], question)
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
    """Return whether the ids have the prefix, are unique, and in order within each row."""
    ids = [record["id"] for row in rows for record in row]
    return (
        all(name.startswith(prefix) for name in ids)
        and len({*ids}) == len(ids)
        and all(_order(one) < _order(two) for row in rows for one, two in pairwise(row))
    )


def _order(record: Record) -> tuple[int, str]:
    """Return OpenCode's sort key: of messages time and id, of parts the id."""
    return (record["time"]["created"] if "role" in record else 0), record["id"]


def _names(prefix: str, session: str, records: list[tuple[Record, str]], fresh: bool) -> dict[str, str]:
    """Return the new id of each old one."""
    if not fresh:
        return {name: name for _, name in records}
    names: dict[str, str] = {}
    number = 0
    for info, name in records:
        number = max(number + 1, info["time"]["created"] << 12)
        names[name] = f"{prefix}{number & ((1 << _BITS) - 1):012x}{_hash(session, name, 14)}"
    return names


def _hash(session: str, name: str, length: int) -> str:
    return sha256(f"{session}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:length]
