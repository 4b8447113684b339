"""Messages of the contract, and the conversation as the contract sees it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from eventlog.session.session import Session

Kind: TypeAlias = Literal["user", "call", "result"]


class Said(msgspec.Struct, frozen=True):
    """One message: of the user, an answer with one call of a tool, or the call's result."""

    text: str
    """Words of the user, JSON of the call's arguments, or the tool's output."""
    kind: Kind = "user"
    call: str = ""
    """Id of the call."""
    data: Any = None
    """A value that the framework's message carries beside the text of a user."""


class Chat(Protocol):
    """A conversation of the framework, reached through the adapter; made by one worker.

    Its methods do what a program of the framework does; the adapter under test is inside.
    """

    @property
    def session(self) -> Session:
        """The session of the conversation, begun if there is none."""
        ...

    async def add(self, said: Sequence[Said]) -> None:
        """Add messages in one write, behind what this object has read or added last."""
        ...

    async def read(self) -> list[Said]:
        """Return all messages, oldest first; none for a conversation that is not there."""
        ...

    async def erase(self) -> None:
        """Delete the conversation, whether or not it is there."""
        ...


def _nested(levels: int) -> Any:
    value: Any = "at the bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


_Text, _Number, _Table = (type(f"Odd{kind.__name__}", (kind,), {}) for kind in (str, int, dict))

ODD_VALUES: dict[str, Any] = {
    "NaN": {"not a number": float("nan"), "more": [float("inf"), float("-inf")]},
    "zeros": [0, 0.0, -0.0, 1, 1.0, True, False, None],
    "surrogates": {"lone \ud800": "\udfff", "pair": "\U0001f99c"},
    "NUL": {"a\x00b": "\x00", "": ""},
    "numbers": [2**53 + 1, -(2**63), 2**64, 1e-320, 1.7976931348623157e308],
    "subclasses": _Table(text=_Text("said"), number=_Number(7), table=_Table(a=1)),
    "nested": _nested(300),
    "order": {"b": 1, "a": 2, "10": 3, "9": 4},
}
"""Values that encoders lose, by what is odd about each."""


def plain(value: Any) -> Any:
    """Return a value of the types of JSON alone: a subclass's values as those of its base."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool):
        return value
    return next((kind(value) for kind in (str, int, float) if isinstance(value, kind)), value)


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are deep-equal: types, order of keys, signs of zero, NaN too."""
    return repr(plain(left)) == repr(plain(right))


def user(*texts: str) -> list[Said]:
    """Return messages of a user."""
    return [Said(text) for text in texts]


def words_of(session: Session) -> list[str]:
    """Return the texts and tool outputs of the model view, which `projections` builds."""
    view: Any = import_module("projections").ModelView.of(session)
    parts = [part for message in view.messages for part in message.parts]
    found = [getattr(part, "text", None) or getattr(part, "output", None) for part in parts]
    return [text for text in found if text]
