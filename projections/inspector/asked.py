"""Calls that wait for a person, shown with the command that answers or answered here.

An answer in the page names the person, and brings the token of the ask that the page showed: made
with a secret of this server from what was asked. So no answer is for other arguments than those
that the person saw.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from eventlog import Allow, Deny, Edit
from eventlog.errors import CallError, RefusedError
from projections.inspector.comparison import shortened
from projections.inspector.large_text import MOST

if TYPE_CHECKING:
    from eventlog import AskedCall, Store
    from eventlog.session.answering import Answer


class AskedCalls:
    """The calls of a store that wait for a person, for the page."""

    def __init__(self, store: Store, *, answers: bool) -> None:
        """`answers`: whether a person may answer in the page."""
        self._store = store
        self._answers = answers
        self._secret = token_bytes(32)

    def listed(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the calls of a session that wait, the oldest first."""
        session = self._store.session(query.get("session", ""))
        return {"calls": [self._shown(session.id, call) for call in session.asked_calls()], "answers": self._answers}

    def _shown(self, session: str, call: AskedCall) -> dict[str, Any]:
        token = {"token": self._token(session, call)} if self._answers else {}
        return {**shortened(asdict(call), MOST), "part": call.part, "session": call.session, **token}

    def answer(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Answer for a call as the page was asked to.

        `RefusedError` if the call does not wait, or is another one than the page showed.
        """
        if not self._answers:
            raise CallError("this inspector takes no answers: it is served with --allow-answers --token")
        session = self._store.session(given.get("session", ""))
        by = given.get("by", "").strip()
        if not by:
            raise CallError("an answer names the person who gives it: `by`")
        answer: Answer
        match given.get("answer"):
            case "allow":
                answer = Allow()
            case "deny":
                answer = Deny(given.get("reason", ""))
            case "edit":
                answer = Edit(given.get("arguments", ""))
            case _:
                raise CallError("an answer is allow, deny or edit")
        call = next((call for call in session.asked_calls() if call.part == given.get("part")), None)
        if call is None:
            raise RefusedError("the call does not wait", expected="a call that waits for a person", session=session.id)
        if not hmac.compare_digest(self._token(session.id, call).encode(), given.get("token", "").encode()):
            raise RefusedError(
                "the call is not the one that was shown", expected="the token of its ask", session=session.id
            )
        return {"version": session.answer_call(call.message, call.call, answer, by=by)}

    def _token(self, session: str, call: AskedCall) -> str:
        said = json.dumps([session, asdict(call)]).encode()
        return hmac.new(self._secret, said, "sha256").hexdigest()
