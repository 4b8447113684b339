"""Damaged commits: a search goes on with all else, and names the sessions that have them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import lmdb
import pytest

import eventlog
from eventlog.log.commit import Commit
from eventlog.log.embedded.engine import EmbeddedLog
from projections.verify.verify import verify
from tests.eventlog.integrity.test_repaired_appends import FIRST, lose

LIMIT = 1000


def noise(dice: random.Random) -> str:
    """Words that do not compress, so that sessions are in blocks of their own."""
    return " ".join(f"w{dice.randbytes(8).hex()}" for _ in range(400))


def filled(path: Path, *, keyed: bool) -> None:
    """Make sessions, forks and streamed texts, folded by several programs."""
    dice = random.Random(7)
    for turn in range(3):
        with eventlog.open(path, keys=True if keyed else None) as store:
            for number in range(3):
                id, scope = f"s{number}", "one" if number else "two"
                session = store.session(id) if turn else store.create_session(id=id, scope=scope)
                session.user(f"common {turn} {noise(dice)}")
                with session.assistant(model="acme/one") as reply:
                    text = reply.stream_text()
                    for _ in range(4):
                        text.append(f"common {noise(dice)} ")
                        session.flush()
                    text.end()
                    reply.finish(usage=eventlog.Usage(eventlog.Tokens(1, 1)))
            if turn == 1:
                store.session("s0").fork(id="fork").user(f"common {noise(dice)}")


def blocks(path: Path) -> int:
    """Return how many blocks hold the commits of a store, and the values beside these."""
    with lmdb.open(str(path / "1" / "lmdb"), max_dbs=32, readonly=True) as environment, environment.begin() as txn:
        return int(txn.stat(environment.open_db(b"data", txn, create=False))["entries"])


def damage(path: Path, number: int) -> None:
    """Change a byte of one block."""
    with lmdb.open(str(path / "1" / "lmdb"), max_dbs=32) as environment:
        data = environment.open_db(b"data", create=False)
        with environment.begin(write=True) as txn:
            key, value = list(txn.cursor(data))[number]
            changed = bytearray(value)
            changed[len(value) // 2] ^= 1
            txn.put(key, bytes(changed), db=data)


def test_a_damaged_commit_is_passed_in_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events behind a damaged commit are found by a few reads, however long the commit is."""
    dice, path = random.Random(7), tmp_path / "store"
    with eventlog.open(path) as store:
        store.create_session(id="before").user("common")
        with store.create_session(id="long").assistant(model="acme/one") as reply:
            text = reply.stream_text()
            for _ in range(3000):
                text.append(f"common {dice.randbytes(40).hex()} ")
            reply.finish()
        store.create_session(id="behind").user("common")
    damage(path, blocks(path) // 2)
    read, asked = EmbeddedLog.commits_after, list[int]()

    def counted(log: EmbeddedLog, after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
        asked.append(after)
        return read(log, after, limit, partition=partition)

    monkeypatch.setattr(EmbeddedLog, "commits_after", counted)
    with eventlog.open(path) as store:
        page = store.search("common", wait=None)
    assert {hit.session for hit in page.hits} == {"before", "behind"}
    assert (page.damaged, page.behind) == (("long",), 0)
    assert len(asked) < 100


@pytest.mark.promise(12)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_search_goes_on_beside_damaged_commits(tmp_path: Path, *, known: bool, keyed: bool) -> None:
    """Of each block in turn: sound sessions are found whole, the others named, sums go on."""
    keys = tmp_path / "sound.keys" if keyed else None
    filled(tmp_path / "sound", keyed=keyed)
    with eventlog.open(tmp_path / "sound", keys=keys) as store:
        whole = store.search("common", limit=LIMIT)
        assert whole.damaged == ()
        counted = sum(day.calls for day in store.usage_by_day().days)
    if not known:
        for file in (tmp_path / "sound").rglob("search-*"):
            file.unlink()
    partly = 0
    assert blocks(tmp_path / "sound") > 2
    for number in range(blocks(tmp_path / "sound")):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "sound", path)
        damage(path, number)
        with eventlog.open(path, keys=keys) as store:
            wrong = {one.session for one in verify(store).sessions if not one.sound} - {"fork"}
            page = store.search("common", limit=LIMIT)
            assert set(page.damaged) - {"fork"} == wrong
            sound = [hit for hit in whole.hits if hit.session not in {*wrong, "fork"}]
            assert [hit for hit in page.hits if hit.session not in {*wrong, "fork"}] == sound
            partly += any(hit.session in wrong for hit in page.hits)
            assert set(store.search("common", scope="one").damaged) == wrong - {"s0"}
            for name in ("s0", "s1", "s2"):
                assert set(store.search("common", session=name).damaged) == wrong & {name}
            usage = store.usage_by_day()
            assert sum(day.calls for day in usage.days) <= counted
            assert known or set(usage.damaged) - {"fork"} == wrong
        with eventlog.open(path, keys=keys) as store:
            assert set(store.search("common").damaged) - {"fork"} == wrong, "by the next program, too"
    assert partly


def test_an_erased_session_is_damaged_while_a_fork_shows_it(tmp_path: Path) -> None:
    """A search names no session that has nothing to show."""
    with eventlog.open(tmp_path) as store:
        store.create_session(id="a").user(FIRST)
        store.session("a").fork(id="fork")
        store.vacuum()
    lose(tmp_path, FIRST)
    with eventlog.open(tmp_path) as store:
        assert store.search("common").damaged == ("a",)
        store.erase("a", forks="keep")
        assert store.search("common").damaged == ("a",)
        store.erase("fork")
        assert store.search("common").damaged == ()
