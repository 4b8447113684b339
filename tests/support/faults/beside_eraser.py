"""Programs that share a store with one that erases, each until it is killed.

Usage: `python -m tests.support.faults.beside_eraser ROLE PLACE`. In the place `s` is the store, and
`told`, outside of it, the journal of what was acknowledged. A program ends by itself only if
something is wrong.
"""

from __future__ import annotations

import os
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import eventlog
from eventlog.errors import BusyError, ErasedError, LeaseHeldError, StopError
from eventlog.events import SessionErased
from eventlog.store import Store
from eventlog.testing.file_search import pieces
from projections import ModelView
from projections.cli import main as command
from projections.view.neutral import Text
from tests.support.sample_sessions import started

ROLES = ("write", "write again", "read views", "read events", "follow", "search", "inspect", "erase", "erase again")
_WORD = re.compile(rb"heron[0-9a-f]{32}")
_LARGE = 12_000


def word(session: str, number: int) -> str:
    """The word that only this message says."""
    return "heron" + sha256(f"{session} {number}".encode()).hexdigest()[:32]


def text(session: str, number: int) -> str:
    """The text of a message; that of every fifth is large."""
    return f"{number} {word(session, number)} " + random.Random(number).randbytes(_LARGE).hex() * (number % 5 == 4)


class Told(NamedTuple):
    """The journal: all that was acknowledged by now, and begun."""

    said: dict[str, int]
    """How many messages of each session were acknowledged."""
    begun: set[str]
    """Sessions and messages whose erasure was begun."""
    gone: dict[str, int]
    """Those whose erasure was acknowledged, with the rewritings that have ended since."""

    def missing(self, session: str, numbers: Iterable[int]) -> set[int]:
        """Acknowledged messages that are not among these numbers, and were not redacted."""
        left = set(range(self.said.get(session, 0))) - set(numbers)
        return {number for number in left if f"{session}:{number}" not in self.begun}

    def secrets(self, rewritings: int) -> set[str]:
        """Words that no file may have after that many rewritings."""
        found: set[str] = set()
        for name in (name for name, since in self.gone.items() if since >= rewritings):
            session, _, number = name.partition(":")
            numbers = [int(number)] if number else range(self.said.get(session, 0))
            found |= {word(session, each) for each in numbers}
        return found


def tell(place: Path, *words: object) -> None:
    """Write a line into the journal."""
    fd = os.open(place / "told", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, (" ".join(map(str, words)) + "\n").encode())
    os.close(fd)
    print(*words, flush=True)


def told(place: Path) -> Told:
    """Read the journal."""
    found = Told({}, set(), {})
    for line in (place / "told").read_text().splitlines():
        kind, _, name = line.partition(" ")
        if kind == "said":
            session, number = name.split()
            found.said[session] = int(number) + 1
        elif kind == "erasing":
            found.begun.add(name)
        elif kind == "erased":
            found.gone[name] = 0
        elif kind == "rewritten":
            for each in found.gone:
                found.gone[each] += 1
    return found


def remains(path: Path) -> set[str]:
    """The words of messages in any file below a directory."""
    found: set[str] = set()
    for file in (file for file in path.rglob("*") if file.is_file()):
        with suppress(FileNotFoundError):
            found.update(one.decode() for piece in pieces(file.read_bytes()) for one in _WORD.findall(piece))
    return found


def numbers_of(session: str, texts: Iterable[str]) -> list[int]:
    """The numbers of messages by their texts, each whole and in order."""
    found = [int(each.split(" ", 1)[0]) for each in texts]
    assert found == sorted(set(found)), (session, found)
    return found


def check_view(store: Store, place: Path, session: str) -> None:
    """Check that a view has all that was acknowledged before, and nothing erased."""
    before = told(place)
    try:
        messages = ModelView.of(store.session(session)).messages
    except ErasedError:
        assert session in told(place).begun, f"{session} was not erased"
        return
    assert session not in before.gone, f"{session} is there again"
    texts = [part.text for message in messages for part in message.parts if isinstance(part, Text)]
    texts = [each for each in texts if "heron" in each]
    numbers = numbers_of(session, texts)
    assert texts == [text(session, number) for number in numbers], f"{session} says something else"
    lost = before.missing(session, numbers)
    assert not {number for number in lost if f"{session}:{number}" not in told(place).begun}, (session, lost)
    back = {f"{session}:{number}" for number in numbers} & before.gone.keys()
    assert not back, f"{back} is there again"


def chosen(place: Path, chance: random.Random) -> Iterator[str]:
    """Sessions of the journal without end, the newest more often."""
    while True:
        names = [*told(place).said]
        if names:
            yield chance.choice(names[-8:] if chance.random() < 0.7 else names)
        time.sleep(0.02)


def write(place: Path) -> None:
    """Write one session after the other; each may be erased meanwhile."""
    chance = random.Random()
    store = eventlog.open(place / "s")
    for count in range(1_000_000):
        session = store.create_session(id=f"{os.getpid()}-{count}")
        for number in range(chance.randrange(2, 30)):
            try:
                session.user(text(session.id, number), id=f"{session.id}:{number}")
                tell(place, "said", session.id, number)
                if not number % 4:
                    with session.assistant("p/m") as reply:
                        reply.add_text("an answer")
                        reply.finish()
            except (ErasedError, StopError, LeaseHeldError):
                assert session.id in told(place).begun, f"{session.id} was not erased"
                break
            time.sleep(chance.random() / 50)


def read_views(place: Path) -> None:
    """Read views, now and then with a store opened anew."""
    chance = random.Random()
    sessions = chosen(place, chance)
    while True:
        with eventlog.open(place / "s") as store:
            for _ in range(chance.randrange(1, 60)):
                session = next(sessions)
                check_view(store, place, session)
                print("viewed", session, flush=True)


def read_events(place: Path) -> None:
    """Read whole sessions slowly, through rewritings, without the right to write."""
    chance = random.Random()
    with eventlog.open(place / "s", read_only=True) as store:
        for name in chosen(place, chance):
            try:
                version = 0
                for recorded in store.session(name).events():
                    assert recorded.version == version + 1, (name, version, recorded.version)
                    version = recorded.version
                    time.sleep(chance.random() / 100)
                print("read", name, version, flush=True)
            except ErasedError:
                assert name in told(place).begun, f"{name} was not erased"


def take(store: Store, place: Path, timeout: float | None) -> dict[str, int]:
    """Follow from the kept cursor on; return the last version of each session.

    Every event comes once, in order, up to the session's erasure. Ends when nothing more comes.
    """
    kept = place / "followed"
    lines = kept.read_text().splitlines() if kept.exists() else []
    rows = [line.split() for line in lines if line.endswith(" .")]
    seen = {session: int(version) for session, version, _, _ in rows}
    with kept.open("a") as stream:
        for recorded in store.subscribe(rows[-1][2] if rows else None, timeout=timeout):
            name, version = recorded.session, recorded.version
            last = seen.get(name, 0)
            assert version == last + 1 or isinstance(recorded.event, SessionErased), (name, last, version)
            seen[name] = version
            stream.write(f"\n{name} {version} {recorded.cursor} .\n")
            stream.flush()
            print("followed", name, version, flush=True)
    return seen


def follow(place: Path) -> None:
    """Follow the whole store."""
    take(eventlog.open(place / "s"), place, None)


def search(place: Path) -> None:
    """Search for words that were said, and for such as were erased."""
    chance = random.Random()
    store = eventlog.open(place / "s")
    for session in chosen(place, chance):
        before = told(place)
        number = chance.randrange(before.said[session])
        page = store.search(word(session, number), wait=2.0)
        hits = page.hits
        names = {session, f"{session}:{number}"}
        assert not hits or not names & before.gone.keys(), f"{names} was found"
        found = [hit.session for hit in hits] == [session] or page.behind
        assert found or names & told(place).begun, (session, number, hits)
        print("searched", session, number, len(hits), flush=True)


def inspect(place: Path) -> None:
    """Serve the inspector, and ask it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threading.Thread(target=_ask, args=(place, port), daemon=True).start()
    sys.argv = ["eventlog", "--store", str(place / "s"), "serve", "--no-open", "--port", str(port)]
    command()


def _ask(place: Path, port: int) -> None:
    """Ask the inspector; the process ends where an answer is wrong."""
    chance = random.Random()
    for session in chosen(place, chance):
        before = told(place)
        path = chance.choice(
            (
                f"/api/messages?session={session}&size=100",
                f"/api/search?words={word(session, 0)}",
                "/api/sessions",
                f"/live/{session}/messages",
            )
        )
        status, answer = 200, b""
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}") as answered:
                answer = answered.read()
        except HTTPError as error:
            status, answer = error.code, error.read()
        except OSError:
            time.sleep(0.3)  # it has not begun to serve
            continue
        shown = {one.decode() for one in _WORD.findall(answer)}
        is_right = status == 200 or (status in {404, 410} and session in told(place).begun)
        if not is_right or shown & before.secrets(0):
            print(status, path, answer, shown & before.secrets(0), file=sys.stderr, flush=True)
            os._exit(3)
        print("inspected", session, flush=True)


def erase(place: Path) -> None:
    """Erase and redact, scrub and vacuum, and back up, without end."""
    chance = random.Random()
    store = eventlog.open(place / "s")
    for turn in range(1_000_000):
        known = told(place)
        living = [name for name in known.said if name not in known.begun]
        for name in [*(known.begun - known.gone.keys()), *chance.sample(living, min(len(living), 2))]:
            _give_up(store, place, name)
        if living:
            name = chance.choice(living)
            _give_up(store, place, f"{name}:{chance.randrange(known.said[name])}")
        kind = chance.choice(("scrub", "vacuum"))
        result = getattr(store, kind)()
        tell(place, "rewritten" if kind == "scrub" and not result.pending else "written", result.pending)
        if not result.pending and turn % 3 == 2:
            left = remains(place / "s") & told(place).secrets(2)
            assert not left, f"{left} is in the files"
        if turn % 4 == 3:
            store.backup(place / "b")
            tell(place, "copied")


def _give_up(store: Store, place: Path, name: str) -> None:
    """Erase a session, or redact a message."""
    session, _, number = name.partition(":")
    with suppress(LeaseHeldError):
        tell(place, "erasing", name)
        try:
            if number:
                handle = store.session(session)
                for part in started(handle, {name}):
                    handle.redact(part, search=False)
            else:
                store.erase(session, wait=0.5)
        except ErasedError:
            pass
        tell(place, "erased", name)


if __name__ == "__main__":
    role = sys.argv[1].removesuffix(" again").replace(" ", "_")
    while True:
        with suppress(BusyError):
            globals()[role](Path(sys.argv[2]))
