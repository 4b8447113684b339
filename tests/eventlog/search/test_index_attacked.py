"""Searches that are interrupted, lose their index in the middle, or read a damaged one."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
from functools import partial
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import StorageError
from eventlog.search.catch_up import Follower
from eventlog.store import Store
from tests.faults.tally import SLOW
from tests.support.interrupter import breaks_off
from tests.support.sample_sessions import apart

STEP = 1 if SLOW else 7
"""Every place of an interrupt is tried, or one of so many."""
PAGE = 8_192


def found(store: Store, words: str, wait: float | None = None) -> int:
    """Return how many texts have the words."""
    page = store.search(words, limit=1_000, wait=wait)
    assert page.next is None
    return len(page.hits)


def index_of(path: Path) -> Path:
    """Return the index file of a store."""
    (file,) = (path / "1" / "derived").glob("search-*.sqlite")
    return file


def filled(store: Store, messages: int) -> None:
    """Say something in several sessions."""
    for number in range(messages):
        sessions = list(store.sessions())
        session = store.create_session() if number % 9 == 0 else store.session(sessions[0].id)
        session.user(f"common word{number} " * 20)


@pytest.mark.timeout(900 if SLOW else 120)
def test_an_interrupted_search_leaves_no_lock_and_no_transaction(tmp_path: Path) -> None:
    """After Ctrl-C anywhere in a search, threads and processes search at once and find all."""
    path, at, said, ended = tmp_path / "s", 1, 0, False
    with eventlog.open(path) as store:
        session = store.create_session()
        while not ended:
            said += 1
            word = f"word{said}"
            session.user(word)
            ended = not breaks_off(at, partial(store.search, word, wait=None))
            at += STEP
            for file in (path / "1" / "derived").glob("search-*.sqlite"):
                other = sqlite3.connect(file, timeout=0.0, isolation_level=None)
                other.execute("BEGIN IMMEDIATE")
                other.close()
            assert apart(partial(found, store, word), 30) == 1, at
            assert found(store, word) == 1, at
            if said % 8 == 0:
                store.vacuum()  # the next search opens the index anew
    assert said > 200 // STEP


@pytest.mark.parametrize("loss", ["file", "maintenance"])
def test_a_search_whose_index_another_thread_closes_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """An index that another thread opens anew in the middle of a search is no error."""
    path = tmp_path / "s"
    with eventlog.open(path) as store:
        filled(store, 20)
        assert found(store, "common") == 20
        catch_up, lost = Follower.catch_up, list[str]()

        def losing(follower: Follower, deadline: float | None, *, words: bool) -> None:
            catch_up(follower, deadline, words=words)
            if not lost:
                lost.append(loss)
                if loss == "file":
                    index_of(path).unlink()
                else:
                    store.vacuum()
                assert apart(lambda: found(store, "common"), 30) == 20

        monkeypatch.setattr(Follower, "catch_up", losing)
        assert found(store, "common") == 20
        assert lost


def test_a_store_that_is_closed_while_it_is_searched_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that another thread's `close` comes into ends with `ClosedError`."""
    with eventlog.open(tmp_path / "s") as store:
        filled(store, 3)
        catch_up = Follower.catch_up

        def closing(follower: Follower, deadline: float | None, *, words: bool) -> None:
            catch_up(follower, deadline, words=words)
            store.close()

        monkeypatch.setattr(Follower, "catch_up", closing)
        with pytest.raises(eventlog.errors.ClosedError):
            store.search("common")


HOW = ["schema", "swapped", "zeros", "noise", "bits", "short"]


def damaged(data: bytes, how: str, dice: random.Random) -> bytes:
    """Return the bytes of a file with something wrong."""
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    some = dice.randrange(1, len(pages))
    if how == "schema":
        first = bytearray(pages[0])
        for _ in range(4):
            first[dice.randrange(PAGE)] = dice.randrange(256)
        pages[0] = bytes(first)
    elif how == "swapped":
        other = dice.randrange(1, len(pages))
        pages[some], pages[other] = pages[other], pages[some]
    elif how in {"zeros", "noise"}:
        pages[some] = bytes(PAGE) if how == "zeros" else dice.randbytes(PAGE)
    elif how == "bits":
        pages[some] = bytes(byte ^ (dice.random() < 0.01) for byte in pages[some])
    else:
        return data[: dice.randrange(len(data))]
    return b"".join(pages)


@pytest.mark.parametrize("how", HOW)
def test_any_damage_of_the_index_ends_in_a_new_one(tmp_path: Path, how: str) -> None:
    """A search makes a damaged index file anew, or does not need it."""
    path, dice = tmp_path / "s", random.Random(how)
    with eventlog.open(path) as store:
        filled(store, 60)
        assert found(store, "common") == 60
    file = index_of(path)
    data = file.read_bytes()
    for _ in range(60 if SLOW else 8):
        for old in (path / "1" / "derived").glob("search-*"):
            old.unlink()
        file.write_bytes(damaged(data, how, dice))
        with eventlog.open(path) as store:
            hits = found(store, "common")
            assert hits == 60 or how in {"bits", "swapped"}  # the format has no sums, so words may be wrong
            store.session(next(store.sessions()).id).user("at last")
            assert found(store, '"at last"')


def test_a_stray_row_is_damage_of_the_index_not_of_the_log(tmp_path: Path) -> None:
    """An index that names events which the log does not have is made anew."""
    with eventlog.open(tmp_path / "s") as store:
        filled(store, 9)
        assert found(store, "common") == 9
    with sqlite3.connect(index_of(tmp_path / "s")) as connection:
        connection.execute("UPDATE texts SET begun = 1")
    connection.close()
    with eventlog.open(tmp_path / "s") as store:
        assert found(store, "common") == 9


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_what_passes_makes_no_index_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """With too many files open, or a full disk, a search says so; the next one has its file."""
    with eventlog.open(tmp_path / "s") as store:
        filled(store, 3)
        with monkeypatch.context() as patch:

            def fail(*_: object, **__: object) -> int:
                raise OSError(number, os.strerror(number))

            patch.setattr(os, "open", fail)
            with pytest.raises(StorageError, match=os.strerror(number)):
                store.search("common")
        assert found(store, "common") == 3
        assert index_of(tmp_path / "s").exists()


@pytest.mark.parametrize("wait", [10**400, -(10**400), float("inf"), -float("inf")])
def test_a_wait_may_be_any_number(wait: float) -> None:
    """A wait beyond all bounds is no error: it is as long as it takes, or none."""
    with eventlog.open("memory:") as store:
        store.create_session().user("common")
        assert found(store, "common", wait) == 1
