"""The promises of the front page after a failure, in each place that it names.

Each place gets the same history from a program that is killed; then the server is killed and
started again, or killed and its synchronous standby promoted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

import eventlog
from eventlog.errors import ConflictError, LeaseHeldError, RequestReusedError
from eventlog.events import SessionRenamed, UserMessageAdded
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from eventlog.values import Limits
from projections import ModelView, summarize_offline
from projections.cli.exits import Exit
from projections.loop import ContextWindow
from projections.reports.audit import audit
from tests.promises import PLACES
from tests.support.cli_runner import ROOT, program
from tests.support.postgres_server import Server
from tests.support.promised_history import SECRET
from tests.support.sample_sessions import run_together, started

SAFE = {"fsync": "on", "full_page_writes": "on"}
THREADS, VERSIONS = 4, 8


class Survivor:
    """A place after its failure, and what its last program said."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.keys = folder / "keys" if kind == "keys" else None
        self.primary = Server(settings=SAFE) if kind in {"server", "standby"} else None
        self.server = self.primary
        if kind == "standby":
            assert self.primary is not None
            self.server = Server(settings={**SAFE, "cluster_name": "one"}, copied=self.primary)
            self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (one)'")
            self.primary.ask("SELECT pg_reload_conf()")
        place = folder / "store" if self.primary is None else self.primary.address()
        self._run(place, 1)
        if self.primary is None:
            shutil.copytree(folder / "store", folder / "early")
        self.said: dict[str, Any] = json.loads(self._run(place, 2))
        self.place = str(self._failed(place))

    def _run(self, place: object, phase: int) -> str:
        command = [sys.executable, "-m", "tests.support.promised_history", str(place), str(self.keys or ""), str(phase)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == {1: 0, 2: -9}[phase], done.stderr
        return done.stdout

    def _failed(self, place: object) -> object:
        if self.primary is None:
            return place
        assert self.server is not None
        self.primary.kill()
        if self.server is self.primary:
            self.server.start()
        else:
            self.server.ask("SELECT pg_promote()")
        return self.server.address()

    def open(self) -> Store:
        """Open the store that is left."""
        return eventlog.open(self.place, keys=self.keys)

    def command(self, *words: object, place: object = None) -> subprocess.CompletedProcess[str]:
        """Run the command line on it, or on another place with the same keys."""
        keys = ["--key-file", self.keys] if self.keys else []
        return program("--store", self.place if place is None else place, *keys, *words)

    def close(self) -> None:
        """Remove its servers."""
        for server in {self.primary, self.server} - {None}:
            assert server is not None
            server.remove()


@pytest.fixture(scope="module", params=PLACES)
def survivor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    """Each place after its failure."""
    made = Survivor(request.param, tmp_path_factory.mktemp(str(request.param)))
    yield made
    made.close()


@pytest.mark.holds("Durable")
def test_what_was_acknowledged_is_there(survivor: Survivor) -> None:
    """Every message that a call returned is in the store after the failure."""
    with survivor.open() as store:
        session = store.session("talk")
        found = {getattr(recorded.event, "message", "") for recorded in session.events()}
        assert set(survivor.said["said"]) <= found
        assert session.version >= survivor.said["version"]


@pytest.mark.holds("Ordered and atomic")
def test_versions_have_no_gaps(survivor: Survivor) -> None:
    """Versions are contiguous, positions grow, and what went in together is one append."""
    with survivor.open() as store:
        for head in store.log.heads():
            commits = list(store.log.read(head.session))
            assert commits[0].first == 1 + head.base
            assert all(one.last + 1 == other.first for one, other in pairwise(commits))
            assert all(one.position < other.position for one, other in pairwise(commits))
        events = list(store.session("talk").events())
        at = {each.event.message: each.version for each in events if isinstance(each.event, UserMessageAdded)}
        ends = [commit.last for commit in store.log.read("talk")]
        together = [[at[message] for message in survivor.said["said"][turn : turn + 3]] for turn in range(0, 15, 3)]
        for versions in together:
            assert len({sum(end < version for end in ends) for version in versions}) == 1
        assert store.log.check() == []


@pytest.mark.holds("One winner")
def test_of_all_writers_one_wins(survivor: Survivor) -> None:
    """Of some writers of a version one wins, and a second owner of a session is refused."""
    with survivor.open() as store, survivor.open() as other:
        store.create_session(id="race")
        won: list[int] = []

        def race(number: int) -> None:
            session = (store, other)[number % 2].session("race")
            for version in range(1, VERSIONS + 1):
                try:
                    session.append([(0, SessionRenamed(f"{number}"))], expected_version=version)
                    won.append(version)
                except ConflictError:
                    continue

        run_together(THREADS, race)
        assert sorted(won) == list(range(1, VERSIONS + 1))
        with store.session("short").lease(), pytest.raises(LeaseHeldError):
            other.session("short").rollback(to=1)


@pytest.mark.holds("Idempotent")
def test_a_request_id_gives_its_first_result(survivor: Survivor) -> None:
    """A request that is repeated after the failure adds nothing; other content is refused."""
    with survivor.open() as store:
        session = store.session("secret")
        before = session.version
        assert session.user("again", request_id="again") == survivor.said["repeated"]
        assert session.version == before
        with pytest.raises(RequestReusedError):
            session.user("something else", request_id="again")


@pytest.mark.holds("Reversible")
def test_a_rollback_and_a_compaction_are_undone(survivor: Survivor) -> None:
    """The view after the undo has the bytes of the view before."""
    with survivor.open() as store:
        session = store.session("talk")
        assert ModelView.of(session).digest.hex() == survivor.said["rolled"]
        session.redo()
        assert ModelView.of(session).digest.hex() == survivor.said["whole"]
        compacted = store.session("undone")
        whole = compacted.values.get("whole")
        before = ModelView.of(compacted).digest.hex()
        with ContextWindow(compacted, model="a/b", limits=Limits(8_000, 2_000), summarizer=summarize_offline) as window:
            window.undo()
        assert whole is not None
        assert ModelView.of(compacted).digest.hex() == whole.value != before


@pytest.mark.holds("Replay equals live")
def test_every_step_is_rebuilt(survivor: Survivor) -> None:
    """The view of each model step has the digest that was recorded when it was sent."""
    with survivor.open() as store:
        for name in ("talk", "short", "long"):
            steps = [step for step in audit(store.session(name)) if step.purpose == "turn"]
            assert len(steps) >= 5
            assert {step.verdict for step in steps} == {"match"}


@pytest.mark.holds("Bounded")
def test_a_view_costs_what_it_shows(survivor: Survivor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view of ten times the history, compacted, reads about as many events."""
    read: dict[str, int] = {}
    with survivor.open() as store:
        reads = store.log.read

        def counted(session: str, *given: Any, **options: Any) -> Iterator[Any]:
            for commit in reads(session, *given, **options):
                read[session] = read.get(session, 0) + commit.count
                yield commit

        monkeypatch.setattr(store.log, "read", counted)
        shown = [len(ModelView.of(store.session(name)).messages) for name in ("short", "long")]
        assert abs(shown[0] - shown[1]) <= 4
        assert read.get("long", 0) <= 2 * read.get("short", 0) + 200


@pytest.mark.holds("Tamper-evident")
def test_a_removed_session_is_found(survivor: Survivor) -> None:
    """History without a session that a kept head covers does not verify against that head."""
    head = survivor.folder / "head"
    head.write_text(survivor.command("head", "--json").stdout, encoding="utf-8")
    assert survivor.command("verify", "--against", head).returncode == Exit.OK
    if survivor.server is None:
        found = survivor.command("verify", "--against", head, place=survivor.folder / "early")
    else:
        with psycopg.connect(survivor.place) as hidden:
            hidden.execute("UPDATE eventlog_heads SET session = 'hidden' WHERE session = 'talk'")
            hidden.execute("UPDATE eventlog_commits SET session = 'hidden' WHERE session = 'talk'")
            hidden.commit()
            found = survivor.command("verify", "--against", head)
            hidden.execute("UPDATE eventlog_heads SET session = 'talk' WHERE session = 'hidden'")
            hidden.execute("UPDATE eventlog_commits SET session = 'talk' WHERE session = 'hidden'")
    assert found.returncode == Exit.FAULTS
    assert "talk" in found.stdout


@pytest.mark.holds("No silent loss")
def test_damage_is_an_error_that_names_its_place(survivor: Survivor) -> None:
    """Bytes that were overwritten are found, and the session or the file is named."""
    if survivor.server is None:
        copy = survivor.folder / "damaged"
        shutil.copytree(survivor.folder / "early", copy)
        for data in copy.rglob("data.mdb"):
            content = bytearray(data.read_bytes())
            content[8192:] = bytes(len(content) - 8192)
            data.write_bytes(content)
        found = survivor.command("show", "long", place=copy)
        assert found.returncode == Exit.DAMAGED
        assert "store" in found.stderr
        return
    with psycopg.connect(survivor.place) as damaged:
        damaged.execute("CREATE TABLE kept AS SELECT * FROM eventlog_commits WHERE session = 'long' AND last = 100")
        damaged.execute("UPDATE eventlog_commits SET payload = 'x' WHERE session = 'long' AND last <= 100")
        damaged.commit()
        found = survivor.command("events", "long")
    assert found.returncode == Exit.DAMAGED
    assert "long" in found.stderr


@pytest.mark.holds("Erasable", "directory", "keys")
@pytest.mark.parametrize("survivor", ["directory", "keys"], indirect=True)
def test_no_file_has_what_was_erased(survivor: Survivor) -> None:
    """After redaction and scrub, and erasure and vacuum, no file has the content."""
    with survivor.open() as store:
        session = store.session("secret")
        session.redact(started(session)[0])
        store.erase("gone")
        store.scrub()
    assert files_with(Path(survivor.place), SECRET) == []
