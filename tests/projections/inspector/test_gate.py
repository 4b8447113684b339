"""Who the inspector answers: its own page, with the token where one is asked for."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Never

import pytest

import eventlog
from eventlog.errors import BusyError, CallError, DamagedError
from eventlog.store import Store
from eventlog.values import File
from projections.inspector import inspector
from projections.inspector.gate import COOKIE, is_loopback
from tests.support.asgi import Call
from tests.support.pages import example

HERE = {"host": "127.0.0.1:8377"}
TOKEN = "a-token-of-the-test-that-is-long-enough"


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with one session."""
    with eventlog.open("memory:") as opened:
        opened.create_session(id="s", title="secret").user("secret")
        yield opened


def answer(
    store: Store,
    path: str = "/api/sessions",
    query: str = "",
    headers: Mapping[str, str] = HERE,
    method: str = "GET",
    **options: Any,
) -> tuple[int, dict[str, str], bytes]:
    """Ask an inspector once; returns status, headers and body."""

    async def run() -> tuple[int, dict[str, str], bytes]:
        call = Call(inspector(store, **options), path, query, headers)
        call._scope["method"] = method
        async with call:
            return call.status, call.headers, await call.body()

    return asyncio.run(run())


def test_a_browser_of_this_machine_is_answered(store: Store) -> None:
    """The list is given to a request that names the server and comes from its own page."""
    status, headers, body = answer(store, headers=HERE | {"sec-fetch-site": "same-origin"})
    assert status == 200
    assert b"secret" in body
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example"},
        {"host": "evil.example:8377"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "192.168.1.5:8377"},
        HERE | {"sec-fetch-site": "cross-site"},
        HERE | {"sec-fetch-site": "same-site"},
        HERE | {"origin": "http://evil.example"},
        HERE | {"origin": "null"},
        HERE | {"origin": "http://127.0.0.1:9999"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/sessions", "/live/s/live", "/page/app.js"])
def test_a_foreign_request_is_refused(store: Store, path: str, headers: dict[str, str]) -> None:
    """A request that names another host, or comes from another site, is refused everywhere."""
    status, _, body = answer(store, path, headers=headers)
    assert status == 403
    assert b"secret" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_methods_are_answered(store: Store, method: str) -> None:
    """A method that could change something is refused."""
    assert answer(store, method=method)[0] == 405


def test_a_token_is_asked_for_and_becomes_a_cookie(store: Store) -> None:
    """Without the token nothing is answered; the printed address turns it into a cookie."""
    options: dict[str, Any] = {"token": TOKEN}
    for path in ("/", "/api/sessions", "/live/s/live", "/page/app.js"):
        for wrong in ("", f"token={TOKEN}x", "token="):
            assert answer(store, path, wrong, **options)[0] == 401
        assert answer(store, path, headers=HERE | {"cookie": f"{COOKIE}-8377=wrong"}, **options)[0] == 401
        assert answer(store, path, headers=HERE | {"authorization": "Bearer wrong"}, **options)[0] == 401
    status, headers, _ = answer(store, "/", f"token={TOKEN}", **options)
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=strict" in headers["set-cookie"]
    cookie = headers["set-cookie"].partition(";")[0]
    assert answer(store, headers=HERE | {"cookie": f"other=1; {cookie}"}, **options)[0] == 200
    assert answer(store, headers=HERE | {"authorization": f"Bearer {TOKEN}"}, **options)[0] == 200
    assert answer(store, "/api/sessions", f"token={TOKEN}", **options)[0] == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "chat.example.org"])  # noqa: S104  # nothing is bound
def test_a_host_that_other_machines_reach_needs_a_token(store: Store, host: str) -> None:
    """An inspector for strangers without a token is refused before it answers one."""
    with pytest.raises(CallError, match=r"needs a token.*token_urlsafe"):
        inspector(store, host=host)
    inspector(store, host=host, token=TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "chat.example.org"])
@pytest.mark.parametrize("token", ["", "short", "x" * 31])
def test_a_token_that_can_be_guessed_is_refused(store: Store, host: str, token: str) -> None:
    """An empty or short token, as of a variable that is not set, is refused."""
    with pytest.raises(CallError, match=r"at least 32 characters.*token_urlsafe") as caught:
        inspector(store, host=host, token=token, answers=True)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cookie_of_an_encrypted_connection_is_sent_on_such_alone(store: Store, scheme: str) -> None:
    """Behind TLS the cookie is marked as secure; elsewhere browsers keep none that is."""
    from starlette.testclient import TestClient

    app = inspector(store, host="chat.example.org", token=TOKEN)
    client = TestClient(app, base_url=f"{scheme}://chat.example.org", follow_redirects=False)
    cookie = client.get("/", params={"token": TOKEN}).headers["set-cookie"]
    assert ("; Secure" in cookie) == (scheme == "https")


def test_an_application_with_its_own_sign_in_hands_the_token_on(store: Store) -> None:
    """The page's lines for an own sign-in let in who is allowed, and no one by a header."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    def operates(request: Request) -> bool:
        return request.cookies.get("sso") == "operator"

    names: dict[str, Any] = {}
    exec(example("def signed_in(").code, names)  # noqa: S102  # the page's own code
    inside = inspector(store, host="testserver", token=names["SECRET"], answers=True)
    guarded = names["signed_in"](inside, operates)
    app = Starlette(routes=[Mount("/inspector", guarded)])
    stranger = TestClient(app)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "sso=user"}):
        assert stranger.get("/inspector/api/sessions", headers=headers).status_code == 403
    operator = TestClient(app, headers={"cookie": "sso=operator", "authorization": "Bearer of the application"})
    for path in ("", "api/sessions", "page/app.js"):
        answered = operator.get(f"/inspector/{path}")
        assert (answered.status_code, "set-cookie" in answered.headers) == (200, False)
    assert operator.post("/inspector/api/answer", json={}).status_code == 403  # it names no origin


def test_a_file_leads_in_with_the_token(store: Store) -> None:
    """A file may lead to the page with the token; the page then asks with the cookie."""
    options: dict[str, Any] = {"token": TOKEN}
    led = HERE | {"sec-fetch-site": "cross-site"}
    status, headers, body = answer(store, "/", f"token={TOKEN}", headers=led, **options)
    assert (status, headers["refresh"]) == (200, "0; url=/")
    assert b"secret" not in body
    assert TOKEN not in f"{headers}{body!r}"
    cookie = headers["set-cookie"].partition(";")[0]
    own = HERE | {"sec-fetch-site": "same-origin", "cookie": cookie}
    assert answer(store, headers=own, **options)[0] == 200
    for path, query in (("/", ""), ("/", "token=wrong"), ("/api/sessions", f"token={TOKEN}")):
        assert answer(store, path, query, headers=led, **options)[0] == 403
    assert answer(store, "/", f"token={TOKEN}", headers=led | {"host": "evil.example"}, **options)[0] == 403
    assert answer(store, "/", f"token={TOKEN}", headers=led | {"origin": "null"}, **options)[0] == 403
    assert answer(store, "/", "token=", headers=led)[0] == 403


def test_a_cookie_counts_on_its_port_alone(store: Store) -> None:
    """Two ports have a cookie each, of which neither is the token or opens the other."""
    options: dict[str, Any] = {"token": TOKEN}
    hosts = ("127.0.0.1:8377", "127.0.0.1:8378", "127.0.0.1", "[::1]:8377", "[::1]")
    cookies = [
        answer(store, "/", f"token={TOKEN}", headers={"host": host}, **options)[1]["set-cookie"].partition(";")[0]
        for host in hosts
    ]
    assert len({cookie.partition("=")[0] for cookie in cookies}) == 3
    assert not any(TOKEN in cookie for cookie in cookies)
    for host in hosts:
        for cookie in cookies:
            own = cookies[hosts.index(host)]
            moved = f"{own.partition('=')[0]}={cookie.partition('=')[2]}"
            for sent in (cookie, moved):
                assert answer(store, headers={"host": host, "cookie": sent}, **options)[0] == (
                    200 if cookie == own else 401
                )


def test_a_server_for_other_machines_is_found_by_its_addresses(store: Store) -> None:
    """Served on all addresses, any numeric host is this server, and no foreign name is."""
    options: dict[str, Any] = {"host": "0.0.0.0", "token": TOKEN}  # noqa: S104  # nothing is bound here
    known = {"authorization": f"Bearer {TOKEN}"}
    assert answer(store, headers=known | {"host": "192.168.1.5:8377"}, **options)[0] == 200
    assert answer(store, headers=known | {"host": "[fe80::1]:8377"}, **options)[0] == 200
    assert answer(store, headers=known | {"host": "evil.example"}, **options)[0] == 403


def test_loopback_is_what_only_this_machine_reaches() -> None:
    """Loopback names and addresses are told from all others."""
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.evil.example")))  # noqa: S104


def test_a_store_that_cannot_be_read_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that cannot be read is answered with a sentence."""

    def fails(*_: object, **__: object) -> Any:
        raise BusyError("the server cannot be reached now")

    monkeypatch.setattr(Store, "newest_sessions", fails)
    status, _, body = answer(store, "/api/sessions")
    assert (status, b"cannot be reached" in body) == (500, True)


@pytest.mark.parametrize("said", ["a chunk is damaged", "the folded part is damaged; repair the store into a new one"])
def test_the_advice_about_damage_is_said_once(store: Store, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Damage that names its remedy gets no second one."""

    def fails(*_: object, **__: object) -> Any:
        raise DamagedError(said)

    monkeypatch.setattr(Store, "newest_sessions", fails)
    assert answer(store, "/api/sessions")[2].count(b"repair") == 1


def test_an_inspector_works_under_a_path(store: Store) -> None:
    """Mounted elsewhere it serves its page, data and streams, and keeps its cookie."""
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    app = Starlette(routes=[Mount("/look/at", inspector(store, host="testserver", token=TOKEN))])
    client = TestClient(app, follow_redirects=False)
    entered = client.get("/look/at/", params={"token": TOKEN})
    assert (entered.status_code, entered.headers["location"]) == (303, "/look/at/")
    assert "Path=/look/at/;" in entered.headers["set-cookie"]
    for path in ("", "api/sessions", "page/app.js", "live/s/messages"):
        assert client.get(f"/look/at/{path}").status_code == 200
    for path in ("index.html", "app.js", "api.js", "live.js", "window.js"):
        assert not re.search("[\"'`]/(api|page|live)/", client.get(f"/look/at/page/{path}").text)


def _asked(store: Store) -> None:
    with store.session("s").assistant("a/b") as reply:
        call = reply.tool("drop", call_id="c1")
        call.stream_input('{"name":"old"}')
        call.ask("it cannot be undone")


def _client(store: Store, **options: Any) -> Any:
    from starlette.testclient import TestClient

    app = inspector(store, host="testserver", token=TOKEN, **options)
    return TestClient(app, headers={"authorization": f"Bearer {TOKEN}"})


def test_an_answer_names_a_person_and_the_ask_that_was_shown(store: Store) -> None:
    """A person's answer from the page is recorded once; any other request changes nothing."""
    _asked(store)
    client = _client(store, answers=True)
    (call,) = client.get("/api/asked", params={"session": "s"}).json()["calls"]
    given = {"session": "s", "part": call["part"], "token": call["token"], "by": "Ann", "answer": "allow"}
    own = {"origin": "http://testserver"}
    for wrong, headers, status in (
        (given, {}, 403),
        (given, {"origin": "http://evil.example"}, 403),
        (given, own | {"sec-fetch-site": "cross-site"}, 403),
        (given, own | {"content-type": "text/plain"}, 403),
        (given, own | {"authorization": "Bearer wrong"}, 401),
        (given | {"token": "0" * 64}, own, 409),
        (given | {"by": " "}, own, 400),
        (given | {"answer": "perhaps"}, own, 400),
        (given | {"part": "unknown"}, own, 409),
        (given | {"session": "unknown"}, own, 404),
        (given | {"answer": "edit", "arguments": "[]"}, own, 400),
        (given | {"answer": "perhaps", "part": "unknown"}, own, 400),
        (given | {"reason": "long " * 250_000}, own, 413),
        ({"by": 1}, own, 400),
    ):
        assert client.post("/api/answer", json=wrong, headers=headers).status_code == status
    version = store.session("s").version
    assert client.post("/api/answer", json=given, headers=own).status_code == 200
    assert client.post("/api/answer", json=given, headers=own).status_code == 409
    assert store.session("s").version == version + 1
    assert store.session("s").asked_calls() == []


def test_answers_are_taken_only_where_they_are_allowed(store: Store) -> None:
    """An inspector that only reads shows what waits, and refuses a post."""
    _asked(store)
    client = _client(store)
    found = client.get("/api/asked", params={"session": "s"}).json()
    assert [call["tool"] for call in found["calls"]] == ["drop"]
    assert not found["answers"]
    assert "token" not in found["calls"][0]
    assert client.post("/api/answer", json={}, headers={"origin": "http://testserver"}).status_code == 405
    with pytest.raises(CallError, match="answers need a token"):
        inspector(store, answers=True)


def test_only_the_first_bytes_make_an_image(store: Store) -> None:
    """PNG, JPEG, GIF and WebP are shown; SVG, PDF and false ones are downloads."""
    kinds = {
        "image/png": b"\x89PNG\r\n\x1a\n",
        "image/jpeg": b"\xff\xd8\xff\xe0",
        "image/gif": b"GIF89a",
        "image/webp": b"RIFF\0\0\0\0WEBP",
    }
    others = {"image/svg+xml": b"<svg onload='a()'/>", "application/pdf": b"%PDF-1.7", "image/png": b"<html>"}
    files = [(mime, data, mime) for mime, data in kinds.items()]
    files += [(mime, data, "application/octet-stream") for mime, data in others.items()]
    session = store.session("s")
    session.user([File(mime, f"data:{mime};base64,{b64encode(data).decode()}", 'a"ü.x') for mime, data, _ in files])
    client = _client(store)
    message = client.get("/api/messages", params={"session": "s"}).json()["messages"][-1]
    parts = [part["id"] for part in message["parts"]]
    for part, (_, data, shown) in zip(parts, files, strict=True):
        answer = client.get("/api/file", params={"session": "s", "part": part})
        assert (answer.content, answer.headers["content-type"]) == (data, shown)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert ("attachment" in answer.headers.get("content-disposition", "")) == (shown == "application/octet-stream")
    session.redact(parts[0])
    for gone in (parts[0], "unknown"):
        assert client.get("/api/file", params={"session": "s", "part": gone}).status_code == 404
    assert client.get("/api/file", params={"session": "s", "part": parts[1], "index": 1}).status_code == 404


def test_a_session_is_taken_out_as_a_file(store: Store) -> None:
    """Each format is a download that no page of this server can run."""
    client = _client(store)
    for name, begin in (("markdown", "# secret"), ("html", "<!doctype html>"), ("jsonl", '{"eventlog"')):
        answer = client.get("/api/export", params={"session": "s", "format": name})
        assert answer.text.startswith(begin)
        assert "secret" in answer.text
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert client.get("/api/export", params={"session": "s", "format": "word"}).status_code == 400
    assert client.get("/api/export", params={"session": "unknown"}).status_code == 404


def test_a_message_is_copied_as_json_and_markdown(store: Store) -> None:
    """A message of the page is given in both forms; a version without one is none."""
    client = _client(store)
    (message,) = client.get("/api/messages", params={"session": "s"}).json()["messages"]
    found = client.get("/api/copies", params={"session": "s", "version": message["version"]}).json()
    assert found["json"]["parts"][0]["text"] == "secret"
    assert found["markdown"].startswith("## user")
    assert client.get("/api/copies", params={"session": "s", "version": 1}).status_code == 404


def test_what_cannot_be_read_comes_with_what_to_do(tmp_path: Path) -> None:
    """Without keys the page names the key file; of damage it says which commands help."""
    with eventlog.open(tmp_path / "e", keys=True) as opened:
        opened.create_session(id="s").user("secret")
    with eventlog.open(tmp_path / "e", read_only=True) as opened:
        status, _, body = answer(opened, "/api/usage")
    assert (status, b"--key-file" in body) == (500, True)
    with eventlog.open("memory:") as opened:
        opened.usage_by_day = raising(DamagedError("a chunk is damaged"))  # type: ignore[method-assign]
        status, _, body = answer(opened, "/api/usage")
    assert (status, b"eventlog verify" in body) == (500, True)


def raising(error: Exception) -> Callable[..., Never]:
    """A function that raises."""

    def fails(*_: object, **__: object) -> Never:
        raise error

    return fails
