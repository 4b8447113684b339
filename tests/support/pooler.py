"""PgBouncer in transaction mode before a server of the tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests.support.missing import tool
from tests.support.postgres_server import Server, as_another, free_port

_CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
min_pool_size = 0
max_client_conn = 200
"""


class Pooler:
    """A pooler that lends a few connections, statement by statement."""

    def __init__(self, server: Server, user: str, *, size: int = 2) -> None:
        self.server = server
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="eventlog-pooler-"))
        self._directory.chmod(0o755)
        self._user, self._size = user, size
        self.lead_to(server)
        self.address = f"host=127.0.0.1 port={self.port} dbname=postgres user={user}"
        self.start()

    def lead_to(self, server: Server) -> None:
        """Lead to another server, as an operator does after a failover."""
        lines = _CONFIGURATION.format(server=server.port, port=self.port, size=self._size, user=self._user)
        (self._directory / "pooler.ini").write_text(lines, encoding="ascii")
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        program = tool("pgbouncer", "/usr/sbin/pgbouncer")
        self._process = subprocess.Popen(
            [program, "-q", str(self._directory / "pooler.ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **as_another(),
        )
        deadline = time.monotonic() + 20
        while True:
            assert self._process.poll() is None
            try:
                psycopg.connect(self.address).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """Kill it, and with it every connection that it lent."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def remove(self) -> None:
        """Kill it and remove its files."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
