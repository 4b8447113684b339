"""Importer of lists of messages with other names of roles: client, human, bot ….

A file is one array of objects, most with a role of `ROLES` and a text in `content`; at least one of
these roles is not a provider's own. Its messages mean what OpenAI's with the same role mean.
"""

from __future__ import annotations

import io
from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_document import beginning
from eventlog.importers.common.json_lines import is_object
from eventlog.importers.common.message_lists import array_conversations
from eventlog.importers.common.message_reader import RecordLists
from eventlog.importers.openai.messages import OpenAIChatMapping
from eventlog.streams.records import text_of

_NAMES = {
    "user": ("user", "human", "client", "customer", "patient", "prompter", "seeker", "student", "visitor"),
    "assistant": (
        "assistant", "ai", "bot", "chatbot", "counselor", "counsellor", "doctor", "gpt", "model", "supporter",
        "therapist", "tutor",
    ),
    "system": ("system", "developer"),
}  # fmt: skip
ROLES: dict[str, str] = {name: role for role, names in _NAMES.items() for name in names}
"""The role of each name."""


class RoleListMapping(OpenAIChatMapping):
    """The mapping; a record is a message."""

    format = "role_list"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one message means: that of its role, by OpenAI's mapping."""
        role = _role(record)
        if role:
            super().read({**record, "role": role}, to)
        else:
            to.skip("a message of an unknown role" if is_object(record) else "not an object")


def _role(record: object) -> str:
    return ROLES.get(text_of(record.get("role")).casefold(), "") if is_object(record) else ""


def _is_role_list(start: bytes) -> bool:
    if not start.lstrip().startswith(b"["):
        return False
    found, _ = beginning(io.BytesIO(start))
    known = [text_of(one["role"]) for one in found if _role(one) and isinstance(one.get("content"), str)]
    own = set(known) - {"user", "assistant", "system", "developer"}
    return bool(own) and len(set(known)) > 1 and len(known) * 4 >= len(found) * 3


ROLE_LISTS = RecordLists(RoleListMapping(), _is_role_list, array_conversations)
