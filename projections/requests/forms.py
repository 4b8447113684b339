"""The forms of a request by name, with their versions: the body of a view, and its digest.

A body may be other than before for some view only if its form has a new version in `FORMS`: a step
records the version, and an audit makes the body again where it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from eventlog.errors import CallError
from eventlog.errors.base import brief
from eventlog.validation import require
from eventlog.values import Json
from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import Cache, anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.requests.servers import DEFAULT
from projections.view.neutral import NeutralMessage

__all__ = ["FORMS", "FormVersion", "RequestForm", "digest", "form_named", "recorded_form"]


class FormVersion(NamedTuple):
    """The version of a form that this program has."""

    number: int
    request: Callable[..., dict[str, Any]]
    """Makes the body of messages, system segments and options."""
    options: tuple[str, ...] = ()
    """Options of the form, which are fields of `RequestForm`."""


def _chat(messages: Iterable[NeutralMessage], system: Sequence[str], **options: Any) -> dict[str, Any]:
    return {"messages": chat_messages(messages, system, **options)}


def _ai_sdk(messages: Iterable[NeutralMessage], system: Sequence[str]) -> dict[str, Any]:
    return {"messages": model_messages(messages, system)}


FORMS: dict[str, FormVersion] = {
    "openai-chat": FormVersion(1, _chat, ("server",)),
    "openai-responses": FormVersion(1, responses_request, ("store",)),
    "anthropic": FormVersion(1, anthropic_request, ("cache", "prefill")),
    "gemini": FormVersion(1, gemini_request, ("ids",)),
    "ai-sdk": FormVersion(1, _ai_sdk),
}
"""The forms by name."""
_TYPES: dict[str, Any] = {"server": str, "store": bool, "cache": Cache, "prefill": bool, "ids": bool}


class RequestForm(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A form of requests with its options; None is the default of the form's function.

    `CallError` for an unknown name, and for an option that the form does not have.
    """

    name: str
    """A key of `FORMS`."""
    server: str | None = None
    """Of "openai-chat": a row of `servers.SERVERS`."""
    store: bool | None = None
    """Of "openai-responses"; see `responses_request`."""
    cache: Cache | None = None
    """Of "anthropic"; see `anthropic_request`."""
    prefill: bool | None = None
    """Of "anthropic"; see `anthropic_request`."""
    ids: bool | None = None
    """Of "gemini"; see `gemini_request`."""

    def __post_init__(self) -> None:
        require(str, self.name, "a form is named by a str")
        if self.name not in FORMS:
            raise CallError(f"there is no form {brief(self.name)}; the forms are {', '.join(FORMS)}")
        known = FORMS[self.name].options
        for option, value in self.options.items():
            if option not in known:
                raise CallError(f"the form {self.name} has no option {option}; it has {', '.join(known) or 'none'}")
            try:
                msgspec.convert(value, _TYPES[option])
            except msgspec.ValidationError as error:
                raise CallError(f"the option {option} of the form {self.name} is {brief(value)}: {error}") from None
        if "server" in known and self.server is None:
            msgspec.structs.force_setattr(self, "server", DEFAULT)  # so that each step records its server

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not None, by name."""
        return {option: value for option in _TYPES if (value := getattr(self, option)) is not None}

    @property
    def version(self) -> str:
        """Name and version, such as "anthropic/1"."""
        return f"{self.name}/{FORMS[self.name].number}"

    @property
    def record(self) -> Json:
        """The JSON that a step records: the version as `name`, and the options."""
        return msgspec.json.encode({"name": self.version, **self.options}).decode()

    def body(self, messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> dict[str, Any]:
        """Return the part of a request that the view decides, under the names of the API."""
        return FORMS[self.name].request(messages, system, **self.options)


def without_prefill(form: RequestForm, messages: Sequence[NeutralMessage]) -> RequestForm:
    """Return the form in which these messages end with the user; a given option stays."""
    is_open = form.prefill is None and "prefill" in FORMS[form.name].options
    ends = bool(messages) and messages[-1].role == "assistant"
    return msgspec.structs.replace(form, prefill=False) if is_open and ends else form


def form_named(form: RequestForm | str) -> RequestForm:
    """Return the form of a name; a form as it is."""
    require((RequestForm, str), form, "a form is a RequestForm, or the name of one")
    return form if isinstance(form, RequestForm) else RequestForm(form)


def recorded_form(record: Json) -> RequestForm | None:
    """Return the form in a step's record; None if this program lacks its version."""
    try:
        found = msgspec.json.decode(record, type=dict[str, Any])
        version = str(found.get("name"))
        form = msgspec.convert({**found, "name": version.partition("/")[0]}, RequestForm)
    except (CallError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    return form if form.version == version else None


def digest(body: dict[str, Any]) -> bytes:
    """Return the SHA-256 of a body as JSON with sorted members, without white space."""
    return sha256(msgspec.json.encode(body, order="deterministic")).digest()
