"""Calls that wait for a person, shown with the command that answers or answered here.

An answer in the page names the person, and brings the token of the ask that the page showed: made
with a secret of this server from what was asked. So no answer is for other arguments than those
that the person saw.
"""

from __future__ import annotations

import hmac
import json
import shlex
from collections.abc import Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from eventlog import Allow, Deny, Edit
from eventlog.errors import CallError, RefusedError
from eventlog.log.embedded.engine import EmbeddedLog
from eventlog.open_log import server_log, shown
from projections.inspector.comparison import shortened
from projections.inspector.large_text import MOST

if TYPE_CHECKING:
    from eventlog import AskedCall, Store
    from eventlog.session.answering import Answer


class AskedCalls:
    """The calls of a store that wait for a person, for the page."""

    def __init__(self, store: Store, *, answers: bool, scope: str | None = None) -> None:
        """`answers`: whether a person may answer in the page; with a `scope` no command is told."""
        self._store = store
        self._answers = answers
        self._options = None if scope is not None else command_options(store)
        self._secret = token_bytes(32)

    def listed(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the calls of a session that wait, the oldest first."""
        session = self._store.session(query.get("session", ""))
        return {"calls": [self._shown(session.id, call) for call in session.asked_calls()], "answers": self._answers}

    def _shown(self, session: str, call: AskedCall) -> dict[str, Any]:
        way = {"token": self._token(session, call)} if self._answers else {"commands": self._commands(session, call)}
        return {**shortened(asdict(call), MOST), "part": call.part, "session": call.session, **way}

    def _commands(self, session: str, call: AskedCall) -> list[str]:
        """Return the lines for a shell that answer for a call; none if no command can."""
        names = [session, call.part]
        if self._options is None:
            return []
        edit = ["--edit", _one_line(call.arguments)]
        end = ["--"] if any(name.startswith("-") for name in names) else []
        return [
            shlex.join(["eventlog", *self._options, "answer", *how, "--by", "NAME", *end, *names])
            for how in (["--allow"], ["--deny", "--reason", "WHY"], edit)
        ]

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


def command_options(store: Store) -> list[str] | None:
    """Return the options with which a command opens a store, without passwords; else None."""
    log, server = store.log, server_log(store.log)
    engine = log.engine
    if server is not None:
        place = shown(server.address)
    elif isinstance(engine, EmbeddedLog):
        place = str(engine.path.absolute())
    else:
        return None
    if log is engine:
        return ["--store", place]
    from eventlog.encryption.log import EncryptedLog

    keys = log.key_file if isinstance(log, EncryptedLog) else None
    return None if keys is None else ["--store", place, "--key-file", str(keys)]


def _one_line(arguments: str) -> str:
    """Return JSON arguments that a terminal takes as they are."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=not arguments.isprintable())
    except ValueError:
        return "JSON"
