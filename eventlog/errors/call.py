"""Errors of a wrong call: fix it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventlog.errors.base import EventlogError, brief, cut

__all__ = [
    "AlreadyExistsError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BlockedError",
    "CallError",
    "CursorError",
    "ErasedError",
    "ImportFormatError",
    "KeysError",
    "LimitError",
    "MessageTooLargeError",
    "NotFoundError",
    "ReadOnlyError",
    "RefusedError",
    "RequestReusedError",
    "RequestTooLargeError",
    "SummarizerRefusedError",
    "UnknownModelError",
    "UnknownStreamError",
    "WindowTooSmallError",
]


class CallError(EventlogError):
    """The call is wrong: fix it."""


class ArgumentTypeError(CallError, TypeError):
    """An argument is a single value, as a str, where a list is wanted."""


class ArgumentValueError(CallError, ValueError):
    """An argument is none of the words that are allowed."""


class NotFoundError(CallError):
    """Nothing has this id.  `kind` is "session", "message", "part", "body", "version" …."""

    def __init__(
        self, kind: str, name: str, *, session: str | None = None, known: Iterable[str] = (), gone: str = ""
    ) -> None:
        where = f" in session {cut(session)}" if session else ""
        shown = repr(name) if kind == "store" else brief(name)  # a path is of use only whole
        there = f"; there are {', '.join(known)}" if known else ""
        super().__init__(f"{kind} {shown}{where} was {gone}" if gone else f"no {kind} {shown}{where}{there}")
        self.kind = kind
        self.name = name
        self.session = session
        self.gone = gone
        """How it left the history: "removed" or "rolled back"; "" if nothing ever had this id."""


class ErasedError(NotFoundError):
    """The session was erased; its id is not used again."""

    def __init__(self, session: str) -> None:
        super().__init__("session", session)
        self.args: tuple[object, ...] = (f"session {cut(session)} was erased",)


class AlreadyExistsError(CallError):
    """The id is taken.  `kind` and `name` say which."""

    def __init__(self, kind: str, name: str, *, session: str | None = None) -> None:
        where = f" in session {cut(session)}" if session else ""
        super().__init__(f"{kind} {brief(name)} exists already{where}")
        self.kind = kind
        self.name = name
        self.session = session


class RefusedError(CallError):
    """The session's state does not allow the command; `expected` says what would be allowed."""

    def __init__(self, message: str, *, expected: str = "", session: str | None = None) -> None:
        super().__init__(f"{message}; expected {expected}" if expected else message)
        self.expected = expected
        self.session = session


class RequestReusedError(CallError):
    """The request id was used before in this session with other content."""

    def __init__(self, session: str, request: str) -> None:
        super().__init__(f"session {cut(session)}: request id {brief(request)} was used before with other content")
        self.session = session
        self.request = request


class LimitError(CallError):
    """`what` has the size `size`, over the documented `limit`, or is empty.

    Both are in the unit that `what` names. The `advice` is the end of the message.
    """

    def __init__(self, what: str, size: int, limit: int, advice: str = "") -> None:
        is_over = f"{size} is over the limit of {limit}"
        super().__init__(f"{what}: {is_over if size > limit else f'empty, 1 to {limit} are allowed'}{advice}")
        self.what = what
        self.size = size
        self.limit = limit


class BlockedError(CallError):
    """A loop cannot go on; `reason` is a word for programs, the message says what would help."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class WindowTooSmallError(BlockedError):
    """The system prompt and the tools alone fill the model's window."""


class MessageTooLargeError(CallError):
    """A message is too large for a summary request, even alone: `tokens` over `limit`.

    `summary` are tokens of the summary so far that the message would fit without, else 0.
    """

    def __init__(self, message: str, tokens: int, limit: int, summary: int = 0) -> None:
        what = f"message {brief(message)}: a request for its summary has"
        if summary:
            what = (
                f"the summary so far is too long, with {summary} tokens: let the summariser write a shorter one;"
                " with the next message a request has"
            )
        super().__init__(f"{what} {tokens} tokens, over the limit of {limit}")
        self.message = message
        self.summary = summary
        self.tokens = tokens
        self.limit = limit


class SummarizerRefusedError(CallError):
    """The summarizer refused the request; `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RequestTooLargeError(SummarizerRefusedError):
    """The provider refused the request because of its size."""


class UnknownStreamError(CallError):
    """A provider's answer is of an API that is not read; `api` is its name, "" if unknown.

    `chunk` is the type of the first chunk that was not known, or the names of its fields.
    """

    def __init__(self, chunk: str, api: str = "") -> None:
        whose = f"the answer is one of {api}" if api else "the answer is of an API that is not known"
        super().__init__(
            f"{whose} (chunk {brief(chunk)}); expected OpenAI Chat Completions, OpenAI Responses, Anthropic Messages or"
            " Gemini. Ask the provider for one of these, or fill the reply with the methods of `Reply`"
        )
        self.chunk = chunk
        self.api = api


class UnknownModelError(CallError):
    """The catalogue of models has no `model`; `near` are names that may be meant."""

    def __init__(self, model: str, near: Sequence[str] = (), date: str = "") -> None:
        of = f" of {date}" if date else ""
        meant = f"; did you mean {' or '.join(map(cut, near))}?" if near else ""
        what_to_do = (
            "give `limits=eventlog.Limits(context=…, output=…)`, `limits=eventlog.Limits()` for a model without limits,"
            " or add it to the catalogue (`open(models=…)`)"
        )
        super().__init__(f"the catalogue of models{of} has no {brief(model)}{meant}; {what_to_do}")
        self.model = model
        self.near: tuple[str, ...] = tuple(near)


class CursorError(CallError):
    """A cursor from which this store does not go on: begin again without one."""


class ReadOnlyError(CallError):
    """The store was opened for reading only, or lies on a read-only file system."""


class KeysError(CallError):
    """Wrong keys, keys for a plain store, or no keys for an encrypted one."""


class ImportFormatError(CallError):
    """The file is not of a known format or the named one, or has no conversation in it.

    `skipped` has the records without a conversation, each with its line and the reason.
    """

    def __init__(self, text: str, skipped: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(text)
        self.skipped = skipped
