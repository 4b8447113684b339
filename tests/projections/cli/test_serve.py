"""`serve`: where it listens, what it prints, and what it says if it cannot."""

from __future__ import annotations

import socket
from importlib import util
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, build_opener, urlopen

import pytest

from tests.support.cli_runner import Cli
from tests.support.inspector_server import serving


def test_sessions_are_served_on_this_machine(store: Path) -> None:
    """The printed address shows the sessions, and answers under no other name."""
    with serving(store) as address:
        assert address.startswith("http://127.0.0.1:")
        with urlopen(f"{address}api/sessions") as answer:  # noqa: S310  # our own server
            assert b"ses_a1" in answer.read()
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(f"{address}api/sessions", headers={"Host": "evil.example"}))  # noqa: S310


@pytest.mark.parametrize("options", [("--host", "0.0.0.0"), ("--token",)])  # noqa: S104  # for the test only
def test_a_token_is_printed_and_asked_for(store: Path, options: tuple[str, ...]) -> None:
    """Beyond this machine, or if it is asked for, nothing is answered without the token."""
    with serving(store, *options) as address:
        plain, _, token = address.partition("?token=")
        assert len(token) >= 32
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{plain}api/sessions")  # noqa: S310
        known = {"Authorization": f"Bearer {token}"}
        with build_opener().open(Request(f"{plain}api/sessions", headers=known)) as answer:  # noqa: S310
            assert b"ses_a1" in answer.read()


def test_a_port_in_use_is_said(cli: Cli, store: Path) -> None:
    """A port that is taken, and a host that is not of this machine, are wrong calls."""
    del store
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = cli("serve", "--no-open", "--port", port)
    assert answer.code == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in answer.err
    answer = cli("serve", "--no-open", "--host", "no-such-host.invalid")
    assert answer.code == 2
    assert "is no host of this machine" in answer.err


def test_the_missing_extra_is_named(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of the server the error says how to install them."""
    del store
    found = util.find_spec
    monkeypatch.setattr("projections.cli.commands.serve.find_spec", lambda name: None if name == "nh3" else found(name))
    answer = cli("serve", "--no-open")
    assert answer.code == 2
    assert "nh3 is missing: pip install 'everdelta[server]'" in answer.err


def test_there_must_be_a_store(cli: Cli, tmp_path: Path) -> None:
    """A store that does not exist is not made."""
    answer = cli("serve", "--no-open", "--store", tmp_path / "none")
    assert answer.code == 3
    assert not (tmp_path / "none").exists()
