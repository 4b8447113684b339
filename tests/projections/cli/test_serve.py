"""`serve`: where it listens, what it prints, and what it says if it cannot."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import HTTPCookieProcessor, Request, build_opener, url2pathname, urlopen

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


FAKE_BROWSER = """#!{python}
import json, os, stat, sys
from pathlib import Path
from urllib.request import url2pathname, urlparse

lines = []
for name in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        lines.append(name.read_bytes().decode(errors="replace"))
    except OSError:
        pass
seen = {{"argv": sys.argv[1:], "environment": dict(os.environ), "lines": lines}}
address = urlparse(sys.argv[1])
if address.scheme == "file":
    page = Path(url2pathname(address.path))
    seen["page"] = page.read_text(encoding="utf-8")
    seen["modes"] = [stat.S_IMODE(place.stat().st_mode) for place in (page, page.parent)]
    seen["owner"] = page.stat().st_uid
done = Path({record!r})
done.with_suffix(".part").write_text(json.dumps(seen), encoding="utf-8")
done.with_suffix(".part").replace(done)
"""
"""A browser that writes down what it was started with, and what each program here was."""


@contextmanager
def opened(store: Path, folder: Path, *options: str) -> Generator[tuple[str, dict[str, Any]]]:
    """Serve a store for a fake browser; yields the printed address, and what the browser saw."""
    browser, record = folder / "browser", folder / "record"
    browser.write_text(FAKE_BROWSER.format(python=sys.executable, record=str(record)), encoding="utf-8")
    browser.chmod(0o700)
    with serving(store, *options, opened_by=browser) as address:
        ends = time.monotonic() + 20
        while not record.exists() and time.monotonic() < ends:
            time.sleep(0.02)
        yield address, json.loads(record.read_text(encoding="utf-8"))


@pytest.mark.parametrize("options", [("--host", "0.0.0.0"), ("--token",)])  # noqa: S104  # for the test only
def test_the_token_is_on_no_command_line(store: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """The browser gets a private file, which leads in and is gone when the server ends."""
    with opened(store, tmp_path, *options) as (address, seen):
        plain, _, token = address.partition("?token=")
        assert len(token) >= 32
        argument = str(*seen["argv"])
        assert argument.startswith("file://")
        assert [line for line in [*seen["lines"], *seen["environment"].values()] if token in line] == []
        assert seen["modes"] == [0o600, 0o700]
        assert seen["owner"] == os.getuid()
        (led,) = set(re.findall(r'http://[^"]*', seen["page"]))
        assert led == address
        jar = build_opener(HTTPCookieProcessor())
        with jar.open(Request(led, headers={"Sec-Fetch-Site": "cross-site"})) as answer:  # noqa: S310
            assert answer.headers["Refresh"] == "0; url=/"
        own = Request(f"{plain}api/sessions", headers={"Sec-Fetch-Site": "same-origin"})  # noqa: S310
        with jar.open(own) as answer:
            assert b"ses_a1" in answer.read()
    assert not Path(url2pathname(urlparse(argument).path)).parent.exists()


def test_a_page_without_a_token_is_opened_itself(store: Path, tmp_path: Path) -> None:
    """On this machine, without a token, the browser is started with the printed address."""
    with opened(store, tmp_path) as (address, seen):
        assert seen["argv"] == [address]


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
    find = util.find_spec

    def without_nh3(name: str) -> ModuleSpec | None:
        return None if name == "nh3" else find(name)

    monkeypatch.setattr("projections.cli.commands.serve.find_spec", without_nh3)
    answer = cli("serve", "--no-open")
    assert answer.code == 2
    assert "nh3 is missing: pip install '.[server]'" in answer.err
