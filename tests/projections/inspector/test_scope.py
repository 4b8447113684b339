"""An inspector of one scope: of all other sessions it tells nothing, in no answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

import eventlog
from eventlog import Model, Tokens, Usage
from eventlog.store import Store
from projections.inspector import inspector

TOKEN = "a-token-of-the-test-that-is-long-enough"
LISTS = (
    "sessions?",
    "sessions?scope=globex",
    "sessions?scope=",
    "sessions?sort=tokens&limit=1",
    "sessions?sort=cost&estimates=1",
    "sessions?text=invoice",
    "sessions?parent=globex-talk",
    "sessions?model=acme/one",
    "sessions?subsessions=yes",
    "sessions?subsessions=no&since=0",
    "sessions?state=asked",
    "scopes?",
    "usage?",
    "usage?scope=globex",
    "usage?model=acme/one",
    "search?words=invoice",
    "search?words=invoice&scope=globex",
    "search?words=invoice&session=acme-talk",
    "search?words=zebra",
    "session?session=acme-talk",
    "history?session=acme-talk",
    "tree?session=acme-talk",
)
"""Questions that are about more than one session, or name those that belong to one."""


def _tenant(store: Store, scope: str, word: str = "") -> None:
    """Add a talk with a call that waits, its fork, and a sub-session."""
    session = store.create_session(id=f"{scope}-talk", title=f"An invoice {word}", scope=scope)
    session.user(f"Where is the invoice? {word}")
    with session.assistant(Model("acme", "one")) as reply:
        reply.add_text("In the drawer.")
        reply.finish(usage=Usage(Tokens(10, 5, 0, 0, 0)))
    session.user("Then drop it.")
    with session.assistant(Model("acme", "one")) as reply:
        call = reply.tool("drop", call_id="c1")
        call.stream_input("{}")
        call.ask(f"it cannot be undone {word}")
    store.fork(session, session.version, id=f"{scope}-fork", title=f"Another invoice {word}")
    session.subsession(id=f"{scope}-helper", title=f"Helps {word}").user(f"Look for the invoice. {word}")


def _tenants(*others: str) -> Store:
    """Make a store with acme, and with others that have a sub-session below acme's talk, too."""
    store = eventlog.open("memory:", clock=lambda: 1_768_471_200_000)
    _tenant(store, "acme")
    for scope in others:
        _tenant(store, scope, "zebra")
        store.create_session(id=f"{scope}-below", title="zebra", scope=scope, parent="acme-talk").user("zebra")
    return store


def _client(store: Store, scope: str | None) -> TestClient:
    app = inspector(store, host="testserver", token=TOKEN, answers=True, scope=scope)
    return TestClient(app, headers={"authorization": f"Bearer {TOKEN}"})


@pytest.fixture
def shared() -> Iterator[Store]:
    """A store of two tenants."""
    with _tenants("globex") as store:
        yield store


def _told(client: TestClient, question: str) -> Any:
    """Return what a list tells; its headers tell no change of the others."""
    answer = client.get(f"/api/{question}")
    assert answer.status_code == 200, answer.text
    assert "etag" not in answer.headers, question
    return answer.json()


@pytest.mark.parametrize("question", LISTS)
def test_lists_and_counts_are_those_of_a_store_without_the_others(shared: Store, question: str) -> None:
    """Each question is answered as if no other tenant were in the store."""
    with _tenants() as alone:
        assert _told(_client(shared, "acme"), question) == _told(_client(alone, "acme"), question)


def test_an_inspector_without_a_scope_shows_the_others(shared: Store) -> None:
    """The questions of this test are answered otherwise where no scope is given."""
    client = _client(shared, None)
    text = "".join(client.get(f"/api/{question}").text for question in LISTS)
    assert {"globex-talk", "globex-fork", "globex-below"} <= set(text.replace('"', " ").split())


def test_a_session_of_another_scope_is_not_there(shared: Store) -> None:
    """Each address answers for it as for one that was never made."""
    app = cast("Any", inspector(shared, scope="acme"))._inside
    client = _client(shared, "acme")
    names = [route.path for route in app.routes if isinstance(route, Route) and route.path.startswith("/api/")]
    assert len(names) > 20
    others = ("globex-talk", "globex-fork", "globex-helper", "globex-below")
    own = {"origin": "http://testserver"}
    for session in others:
        for name in set(names) - {"/api/answer", "/api/sessions"}:
            asked = {"session": session, "words": "invoice"}
            assert client.get(name, params=asked).status_code == 404, name
        for page in ("messages", "parts/1", "live"):
            assert client.get(f"/live/{session}/{page}").status_code == 404
        (answer, unknown) = (
            client.post("/api/answer", json={"session": id, "by": "Ann", "answer": "allow"}, headers=own)
            for id in (session, "unknown")
        )
        assert (answer.status_code, answer.text) == (404, unknown.text.replace("unknown", session))
    assert client.get("/live/acme-talk/messages").status_code == 200
    (call,) = client.get("/api/asked", params={"session": "acme-talk"}).json()["calls"]
    given = {"session": "acme-talk", "part": call["part"], "token": call["token"], "by": "Ann", "answer": "allow"}
    assert client.post("/api/answer", json=given, headers=own).status_code == 200
