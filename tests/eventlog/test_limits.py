"""Exceeded limits and missing system resources are clear errors; nothing is written."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError, LimitError, ReadOnlyError, StorageError
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from projections.cli.exits import Exit
from tests.support.cli_runner import program
from tests.support.python_process import printed


@pytest.mark.parametrize("way", ["user", "tool", "file"])
def test_a_body_over_the_limit(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A text over the limit raises `LimitError` with both sizes; the session goes on."""
    monkeypatch.setattr("eventlog.codec.large_texts.MAX_BODY_BYTES", 10_000)
    with eventlog.open("memory:") as store:
        session = store.create_session()
        with session.assistant() as reply:
            call = reply.tool("bash", call_id="c", input="{}")
            session.flush()
            before, bodies = session.version, set(store.log.bodies())
            uses: dict[str, Callable[[], object]] = {
                "user": lambda: session.user("é" * 6_000),
                "tool": lambda: call.succeed("x" * 10_001),
                "file": lambda: call.succeed(io.BytesIO(b"x" * 10_001)),
            }
            with pytest.raises(LimitError) as caught:
                uses[way]()
            assert (caught.value.limit, caught.value.size > 10_000) == (10_000, True)
            assert (session.version, set(store.log.bodies())) == (before, bodies)
            call.succeed("x" * 10_000)
            reply.finish()
        session.user("goes on")


EMPTY: dict[str, Callable[[eventlog.Store], object]] = {
    "a request id": lambda store: store.create_session().user("Hi", request_id=""),
    "the format of a name": lambda store: store.open_session(("", "key")),
    "the key of a name": lambda store: store.open_session(("format", "")),
    "the name of a shelf": lambda store: store.shelf(""),
    "the key of a value": lambda store: store.create_session().values.put("", "text"),
}


@pytest.mark.parametrize("call", EMPTY.values(), ids=EMPTY)
def test_a_name_that_is_empty_is_not_said_to_be_long(call: Callable[[eventlog.Store], object]) -> None:
    """The error for an empty id, name or key says that it is empty, not that it is too long."""
    with eventlog.open("memory:") as store, pytest.raises(CallError, match="empty"):
        call(store)


def test_an_append_over_the_logs_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log refuses an append over its limit before queueing it, bodies and entry counted."""
    monkeypatch.setattr("eventlog.log.validation.MAX_REQUEST_BYTES", 5_000)
    log = open_log(tmp_path / "s")
    log.submit(Append(session="s", payload=b"p", count=1, time=1, creates_at=0)).wait(30)
    large: list[dict[str, Any]] = [
        {"payload": bytes(6_000)},
        {"payload": b"", "bodies": [(bytes(32), bytes(6_000))]},
        {"payload": b"", "entry": bytes(6_000)},
    ]
    for given in large:
        with pytest.raises(LimitError, match="5000"):
            log.submit(Append(session="s", count=1, time=1, **given))
    assert log.submit(Append(session="s", payload=b"p", count=1, time=1)).wait(30).first == 2
    log.close()


def test_many_bodies_in_one_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of large texts over the limit is refused whole and accepted in pieces."""
    monkeypatch.setattr("eventlog.append.command.MAX_APPEND_BYTES", 40_000)
    with eventlog.open("memory:") as store:
        session = store.create_session()
        items = [(1, ev.Custom("n", os.urandom(9_000).hex())) for _ in range(6)]
        before = session.version
        with pytest.raises(LimitError):
            session.append(items)
        assert session.version == before
        for item in items:
            session.append([item])
        assert session.version == before + 6


def test_little_address_space(tmp_path: Path) -> None:
    """With little address space the map starts smaller and grows as needed."""
    script = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from eventlog.log.contract import Append\n"
        "from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1], fold_bytes=64 << 10)\n"
        "print(log._partition.tail.segments.environment.map_bytes() >> 20)\n"
        "for number in range(40):\n"
        "    creates = None if number else 0\n"
        "    log.submit(Append(session='s', payload=os.urandom(50_000), count=1, time=1, creates_at=creates)).wait(30)\n"
        "log.close()\n"
        "log = open_log(sys.argv[1], read_only=True)\n"
        "print(len(list(log.read('s'))), log.check())\n"
    )
    size, told = printed(script, tmp_path / "s", seconds=120).splitlines()
    assert 1 <= int(size) < 3 << 10
    assert told == "40 []"


@pytest.mark.promise(12)
def test_few_descriptors(tmp_path: Path) -> None:
    """Promise 12: without file descriptors opening fails with a transient error, no damage."""
    script = (
        "import os, resource, sys\n"
        "from eventlog.errors import BusyError, StorageError\n"
        "from eventlog.log.embedded.engine import open_log\n"
        "open_log(sys.argv[1]).close()\n"
        "refused = 0\n"
        "taken = [os.open(os.devnull, os.O_RDONLY)]\n"
        "while True:\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + refused, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "    try:\n"
        "        open_log(sys.argv[1]).close()\n"
        "        break\n"
        "    except (BusyError, StorageError):\n"
        "        refused += 1\n"
        "print(refused, len(os.listdir('/proc/self/fd')))\n"
    )
    refused, left = map(int, printed(script, tmp_path / "s", seconds=120).split())
    assert refused >= 3
    assert left < 8, "an opening that was refused keeps no descriptor"


@pytest.fixture
def frozen(tmp_path: Path) -> Generator[Path]:
    """A store on a file system that became read-only."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with eventlog.open(disk / "s") as store:
            store.create_session(id="a").user("question")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_read_only_file_system(frozen: Path) -> None:
    """A store on a read-only file system can be read; writing fails with the system's reason."""
    with eventlog.open(frozen / "s", read_only=True) as store:
        assert store.session("a").version == 2 + 1
        with pytest.raises(ReadOnlyError):
            store.session("a").user("more")
    for path in (frozen / "s", frozen / "new"):
        with pytest.raises((StorageError, ReadOnlyError), match=r"[Rr]ead-only"):
            eventlog.open(path)
    assert program("--store", frozen / "s", "show", "a").returncode == Exit.OK
    done = program("--store", frozen / "s", "rollback", "a", "--to", "2")
    assert done.returncode == Exit.STORAGE, done
    assert "ead-only" in done.stderr
    assert done.stderr.count("\n") == 1
