"""A program that flips a store's bytes, one at a time, and classifies what a reader gets.

Usage: `python -m tests.support.byte_flipper KIND STEP ZERO_STEP SEED`.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import eventlog
from eventlog.errors import DamagedError, EventlogError
from eventlog.log.contract import Log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments.pages import page_faults
from eventlog.open_log import open_log
from projections.view.model_view import ModelView
from tests.support.faults import large_stores as weighing
from tests.support.faults.encrypted_stores import has_keys, is_large

OUTCOMES = {0: "same", 1: "refused", 2: "wrong", 3: "untyped"}
PAGE = 4096
SMALL: dict[str, Any] = {"journal_bytes": 16 << 10, "map_bytes": 1 << 20}


def opened(path: Path, *, read_only: bool = False) -> Log:
    """The log in a place, with the keys that lie beside it, if there are any."""
    keys = path / "keys" if (path / "keys").exists() else None
    return open_log(path / "store", keys=keys, read_only=read_only, **SMALL)


def fill(path: Path, sessions: int) -> None:
    """Make sessions and a fork, with bodies and checkpoints, in several folds."""
    for number in range(sessions):
        with eventlog.Store(opened(path), checkpoint_events=5) as store:
            session = store.create_session(id=f"session {number}", title="t")
            session.user("question")
            with session.assistant(model="acme/one") as reply:
                text = reply.stream_text()
                for piece in ("an ", "answer ", "in ", "pieces"):
                    text.append(piece)
                text.end()
                reply.tool("bash", call_id="c1", input={"command": "ls"}).succeed(f"{number}" * 3000)
                reply.finish("stop")
            ModelView.of(session)
            if number == 1:
                session.fork(id="a fork").user("on another branch")


def leave(path: Path) -> None:
    """Write a store, then more that is not folded, and let the process die."""
    child = os.fork()
    if child == 0:
        store = eventlog.Store(opened(path))
        store.session("session 0").user("the last words")
        store.create_session(id="unfolded").user("more")
        os._exit(0)
    os.waitpid(child, 0)


def content(path: Path, *, read_only: bool) -> bytes:
    """A digest of everything that can be read."""
    log = opened(path, read_only=read_only)
    if log.probe():
        raise DamagedError("a row is damaged")
    seen = sha256()
    with eventlog.Store(log) as store:
        for head in log.heads():
            seen.update(repr((head, log.head(head.session) == head)).encode())
            for commit in log.read(head.session):
                seen.update(repr((commit, commit.request and log.request(head.session, commit.request))).encode())
        seen.update(repr(log.commits_after(0)).encode())
        for digest in sorted(log.bodies()):
            seen.update(digest + (log.engine.body(digest) or b"none"))
        for info in store.sessions():
            seen.update(repr(ModelView.of(store.session(info.id)).messages).encode())
    return seen.digest()


def look(path: Path, expected: bytes, *, read_only: bool) -> str:
    """Read a store that may be damaged; return the outcome."""
    if page_faults(files_of(path / "store") / "lmdb"):
        return "refused"
    child = os.fork()
    if child == 0:
        try:
            code = 0 if content(path, read_only=read_only) == expected else 2
        except EventlogError:
            code = 1
        except BaseException:  # noqa: BLE001 - the child's only way out is `_exit`
            traceback.print_exc()
            code = 3
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    return "dead" if os.WIFSIGNALED(status) else OUTCOMES.get(os.WEXITSTATUS(status), "untyped")


def all_places(written: dict[Path, bytes], step: int, zero_step: int, chance: random.Random) -> list[tuple[Path, int]]:
    """Offsets at every so many bytes: fewer of zeros, more of keys."""
    places = [(file, offset) for file, data in written.items() for offset in range(len(data))]
    full = [(file, offset) for file, offset in places if written[file][offset]]
    empty = [(file, offset) for file, offset in places if not written[file][offset]]
    keys = [(file, offset) for file, offset in full if file.name == "keys"][:: max(1, step // 20)]
    return keys + full[chance.randrange(step) :: step] + empty[chance.randrange(zero_step) :: zero_step]


def some_places(written: dict[Path, bytes], count: int, chance: random.Random) -> list[tuple[Path, int]]:
    """That many offsets in the files of a large store."""
    (lmdb,) = (file for file in written if file.name == "data.mdb")
    data = written[lmdb]
    others = [file for file, data in written.items() if file.name not in {"data.mdb", "lock.mdb"} and any(data)]
    pages = [at for at in range(0, len(data), PAGE) if _is_small_page(data, at)]
    places: list[tuple[Path, int]] = []
    for number in range(count):
        if number % 3 == 0:
            places.append((lmdb, chance.choice(pages) + chance.randrange(PAGE)))
        elif number % 3 == 1:
            file = chance.choice(others)
            places.append((file, chance.choice([at for at, byte in enumerate(written[file]) if byte])))
        else:
            places.append((lmdb, chance.randrange(len(data))))
    return places


def _is_small_page(data: bytes, at: int) -> bool:
    """Whether a meta, branch or leaf page starts here, by its header's number and kind."""
    number, flags = int.from_bytes(data[at : at + 8], "little"), int.from_bytes(data[at + 10 : at + 12], "little")
    return number == at // PAGE and flags in {1, 2, 8}


def main() -> int:
    """Flip each byte, read, and restore it."""
    kind, step, zero_step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(int(sys.argv[4]))
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        original, copy = Path(scratch) / "original", Path(scratch) / "copy"
        child = os.fork()
        if child == 0:
            original.mkdir()
            if has_keys(kind):
                (original / "keys").touch(mode=0o600)
            if is_large(kind):
                weighing.fill(original / "store", weighing.WEIGHT, keys=original / "keys" if has_keys(kind) else None)
            fill(original, 40 if kind == "large" else 2)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            return 1
        if kind == "left" or is_large(kind):
            leave(original)
        expected = expected_of(original, copy)
        files = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file())
        written = {file: (original / file).read_bytes() for file in files}
        places = some_places(written, step, chance) if is_large(kind) else all_places(written, step, zero_step, chance)
        for file, offset in places:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(original, copy)
            flipped = bytearray(written[file])
            flipped[offset] ^= 1 << chance.randrange(8)
            (copy / file).write_bytes(flipped)
            outcome = look(copy, expected, read_only=bool(chance.randrange(2)))
            found[outcome] += 1
            if outcome not in {"same", "refused"}:
                print(f"{outcome}: byte {offset} of {file}, now {flipped[offset]:#04x}", flush=True)
    print(" ".join(f"{outcome}={number}" for outcome, number in sorted(found.items())))
    return 0 if set(found) <= {"same", "refused"} else 1


def expected_of(original: Path, copy: Path) -> bytes:
    """Digest of the store as written, read in a child: this process must have no threads."""
    shutil.copytree(original, copy)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, content(copy, read_only=True))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        digest = pipe.read()
    os.waitpid(child, 0)
    return digest


if __name__ == "__main__":
    sys.exit(main())
