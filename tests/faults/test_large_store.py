"""A store of real size after each kind of end opens for writing with everything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lmdb import verify as pages

from eventlog.integrity.heads import StoreHead
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments.pages import page_faults
from eventlog.maintenance import backup as backups
from eventlog.maintenance.repair import repair
from eventlog.store import Store
from projections.cli.exits import Exit
from projections.verify.verify import verify
from tests.support.cli_runner import program as cli_program
from tests.support.faults.large_stores import fill, lmdb_bytes
from tests.support.sample_sessions import exchange

ROOT = Path(__file__).resolve().parents[2]
SIZE = 66 << 20
SMALL: dict[str, Any] = {"map_bytes": 1 << 20, "journal_bytes": 1 << 20, "fold_bytes": 1 << 20}
"""Options with a map that grows again and again."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of more than 64 MB; nothing writes to it."""
    path = tmp_path_factory.mktemp("large") / "s"
    fill(path, SIZE)
    assert lmdb_bytes(path) > 64e6
    return path


def killed(path: Path) -> None:
    """Let a process begin a session and be killed."""
    script = (
        "import os, signal, sys; from eventlog.log.embedded.engine import open_log; from eventlog.store import Store\n"
        "from tests.support.sample_sessions import exchange\n"
        "store = Store(open_log(sys.argv[1], map_bytes=int(sys.argv[2])))\n"
        "exchange(store.create_session(id='killed'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(path), str(SMALL["map_bytes"])]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode == -9


def kill(large: Path, path: Path) -> None:
    """`kill -9` a process that has the store open and has appended."""
    shutil.copytree(large, path)
    killed(path)


def restore(large: Path, path: Path) -> None:
    """Restore to a copy that was never opened."""
    backups.restore(large, path)


def save(large: Path, path: Path) -> None:
    """Repair the store and return the path of the saved one."""
    assert not repair(large, path).losses


def vacuum(large: Path, path: Path) -> None:
    """Rewrite the store in its place."""
    shutil.copytree(large, path)
    with Store(open_log(path)) as store:
        store.vacuum()


def head_of(path: Path) -> StoreHead:
    """The head of a store opened for reading only."""
    with Store(open_log(path, read_only=True)) as store:
        return store.head()


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize("end", [kill, restore, save, vacuum], ids=lambda end: end.__name__)
def test_a_store_of_64_mb_opens_for_writing_after(
    large: Path, tmp_path: Path, end: Callable[[Path, Path], None]
) -> None:
    """Promises 1, 12: a 64 MB store opens for writing after kill, restore, repair, vacuum."""
    path = tmp_path / "s"
    kept = head_of(large)
    end(large, path)
    assert lmdb_bytes(path) > 64e6
    with Store(open_log(path)) as store:
        exchange(store.create_session(id="new"))
        report = verify(store, against=kept)
        assert report.sound, report
        assert store.log.check() == []


@pytest.mark.promise(12)
def test_the_structure_of_64_mb_is_verified(large: Path) -> None:
    """Promise 12: a check of a large sound store finds and changes nothing."""
    before = (files_of(large) / "lmdb" / "data.mdb").stat()
    assert page_faults(files_of(large) / "lmdb") == []
    done = cli_program("--store", large, "verify")
    assert done.returncode == Exit.OK, done
    after = (files_of(large) / "lmdb" / "data.mdb").stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def map_of(log: EmbeddedLog) -> int:
    """The size of the map."""
    return log._partition.tail.segments.environment.map_bytes()


@pytest.mark.promise(1, 12)
def test_a_store_whose_map_has_just_grown_opens_for_writing(tmp_path: Path) -> None:
    """Promises 1, 12: a store over 10 MiB, killed after its map grew, opens for writing."""
    path = tmp_path / "s"
    fill(path, 11 << 20)
    grown = (
        "import os, signal, sys; from eventlog.log.embedded.engine import open_log; from eventlog.store import Store\n"
        "from tests.support.faults.large_stores import weigh_down; from tests.faults.test_large_store import SMALL, map_of\n"
        "log = open_log(sys.argv[1], **SMALL)\n"
        "store, before = Store(log), map_of(log)\n"
        "session = store.create_session(id='grown')\n"
        "while map_of(log) == before:\n"
        "    weigh_down(session, 1)\n"
        "    log._partition.fold()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", grown, str(path)], cwd=ROOT, check=False, timeout=60).returncode == -9
    with Store(open_log(path, **SMALL)) as store:
        exchange(store.create_session(id="new"))
        assert verify(store).sound


@pytest.mark.promise(12)
def test_a_store_that_grows_while_it_is_verified_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 12: a fault found while another process folds is no damage."""
    path = tmp_path / "s"
    with Store(open_log(path)) as store:
        exchange(store.create_session(id="a"))
    verifier: Any = pages
    whole: Callable[[str], list[str]] = verifier.verify
    found = [["a page beyond the end"], []]

    def verify_beside(data: str) -> list[str]:
        if len(found) == 2:
            code = "import sys; from pathlib import Path; from tests.support.faults.large_stores import fill; fill(Path(sys.argv[1]), 1)"
            subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=True, timeout=60)
        return found.pop(0) + whole(data)

    monkeypatch.setattr(pages, "verify", verify_beside)
    assert page_faults(files_of(path) / "lmdb") == []
    assert found == [], "it was not verified again"
