"""Calls that wait for a person, shown with the command that answers or answered here.

An answer in the page names the person, and brings the token of the ask that the page showed: made
with a secret of this server from what was asked. So no answer is for other arguments than those
that the person saw.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from eventlog import Allow, Deny, Edit
from eventlog.errors import CallError, RefusedError
from projections.exports.html_text import visible
from projections.inspector.large_text import MOST, cut

if TYPE_CHECKING:
    from eventlog import AskedCall, Store


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
        return {
            "message": call.message,
            "call": call.call,
            "part": call.part,
            "tool": visible(call.tool),
            "arguments": visible(cut(call.arguments, MOST)),
            "reason": visible(cut(call.reason, MOST)),
            "time": call.time,
            "session": call.session,
            **({"token": self._token(session, call)} if self._answers else {}),
        }

    def answer(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Answer for a call as the page was asked to.

        `RefusedError` if the call does not wait, or is another one than the page showed.
        """
        if not self._answers:
            raise CallError("this inspector takes no answers: it is served with --allow-answers --token")
        session = self._store.session(given.get("session", ""))
        by, verdict = given.get("by", "").strip(), given.get("answer", "")
        if not by:
            raise CallError("an answer names the person who gives it: `by`")
        if verdict not in {"allow", "deny", "edit"}:
            raise CallError("an answer is allow, deny or edit")
        call = next((call for call in session.asked_calls() if call.part == given.get("part")), None)
        if call is None:
            raise RefusedError("the call does not wait", expected="a call that waits for a person", session=session.id)
        if not hmac.compare_digest(self._token(session.id, call).encode(), given.get("token", "").encode()):
            raise RefusedError(
                "the call is not the one that was shown", expected="the token of its ask", session=session.id
            )
        answer = (
            Allow()
            if verdict == "allow"
            else Deny(given.get("reason", ""))
            if verdict == "deny"
            else Edit(given.get("arguments", ""))
        )
        return {"version": session.answer_call(call.message, call.call, answer, by=by)}

    def _token(self, session: str, call: AskedCall) -> str:
        fields = (session, call.message, call.call, call.tool, call.arguments, call.reason, str(call.time))
        said = b"".join(
            len(field).to_bytes(8) + field for field in (each.encode("utf-8", "replace") for each in fields)
        )
        return hmac.new(self._secret, said, "sha256").hexdigest()
