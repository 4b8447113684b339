"""Addresses: which texts are one, and that no word of a password is ever said."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.errors import CallError, EventlogError
from eventlog.open_log import has_password, is_server, shown

SECRET = "hunter2"
WITH_PASSWORD = [
    f"postgresql://app:{SECRET}@127.0.0.1:1/chats",
    f"postgres://app:{SECRET}%40x@127.0.0.1:1/chats",
    f"postgresql://127.0.0.1:1/chats?user=app&password={SECRET}",
    f"postgresql://127.0.0.1:1/chats?sslpassword={SECRET}",
    f"host=127.0.0.1 port=1 user=app password={SECRET}",
    f"password='{SECRET} with words' host=127.0.0.1 port=1",
    f"host = 127.0.0.1 port = 1 password = {SECRET}",
]
UNREADABLE = [
    f"postgresql://app:a/{SECRET}@127.0.0.1:1/chats",
    f"postgresql://app:12/{SECRET}@127.0.0.1:1/chats",
    f"postgresql://app:a@{SECRET}@127.0.0.1:1/chats",
    f"postgresql://app:a%{SECRET}@127.0.0.1:1/chats",
    f"host=127.0.0.1 port=1 password=a {SECRET}",
    f"host=127.0.0.1 port=1 password='{SECRET}",
    f"host=127.0.0.1 pasword={SECRET}",
]
"""Addresses with a password that is not written as libpq reads it."""
WITHOUT = [
    "service=chats",
    "postgresql://app@db.example:5432/chats?sslmode=verify-full",
    "postgresql://",
    "dbname=chats",
]


@pytest.mark.parametrize("address", [*WITH_PASSWORD, *UNREADABLE, *WITHOUT])
def test_an_address_makes_no_directory(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """URLs, keyword strings and services are addresses, and never the name of a new directory."""
    monkeypatch.chdir(tmp_path)
    assert is_server(address)
    with pytest.raises(CallError, match="is the address of a server"):
        eventlog.open(Path(f"{address}/x"))
    if address not in WITHOUT:
        with pytest.raises(EventlogError):
            eventlog.open(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["./a=b", "/here/a=b", "chats", "my chats", "C=1", "./postgresql://x"])
def test_a_directory_is_no_address(name: str) -> None:
    """A path with a `=` or `:` behind a slash is a directory."""
    assert not is_server(name)


@pytest.mark.parametrize("address", [*WITH_PASSWORD, *UNREADABLE])
def test_no_error_or_log_has_a_password(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal has no word of the password, in causes and notes as well."""
    monkeypatch.setattr("eventlog.log.postgres.address._DEFAULTS", {"connect_timeout": "1"})
    with pytest.raises(EventlogError) as failure:
        eventlog.open(address)
    error: BaseException | None = failure.value
    while error is not None:
        assert SECRET not in f"{error} {error!r} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__
    assert SECRET not in caplog.text


@pytest.mark.parametrize("address", WITH_PASSWORD)
def test_a_shown_address_names_the_place_only(address: str) -> None:
    """The address for a person has host and database, and no password."""
    assert has_password(address)
    assert "127.0.0.1" in shown(address)
    assert SECRET not in shown(address)


@pytest.mark.parametrize("address", WITHOUT)
def test_an_address_without_password_is_taken(address: str) -> None:
    """No user, port or parameter is taken for a password."""
    assert not has_password(address)
    assert "chats" in shown(address) or address == "postgresql://"
