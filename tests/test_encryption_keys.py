"""The key file: its format, who may read it, crashes, damage, and many writers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.encryption.keyfile import KeyFile
from eventlog.errors import DamagedError, EventlogError, KeysError, StorageError, TooNewError
from tests.talking import run_together

A, B = "0123456789abcdef" * 2, "fedcba9876543210" * 2
GOLDEN = (
    b"eventlog keys 1\n"
    b"0123456789abcdef0123456789abcdef 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 03e1182f\n"
    b"fedcba9876543210fedcba9876543210 1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100 067af26c\n"
)
"""The format of version 1, which every later program reads."""


def written(path: Path, data: bytes) -> KeyFile:
    """A key file of these bytes."""
    path.write_bytes(data)
    path.chmod(0o600)
    return KeyFile(path)


def test_the_format_is_as_it_ever_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden bytes are read, and the same keys are written as the same bytes."""
    file = written(tmp_path / "k", GOLDEN)
    assert file.find(A) == bytes(range(32))
    assert file.find(B) == bytes(reversed(range(32)))
    assert file.find("0" * 32) is None
    given = iter([bytes(range(32)), bytes(reversed(range(32)))])

    def chosen(size: int) -> bytes:
        key = next(given)
        assert len(key) == size
        return key

    monkeypatch.setattr("secrets.token_bytes", chosen)
    fresh = KeyFile(tmp_path / "fresh")
    fresh.make(A)
    fresh.make(B)
    assert (tmp_path / "fresh").read_bytes() == GOLDEN


def test_a_key_file_is_its_owners(tmp_path: Path) -> None:
    """It is made for its owner alone, with what is missing above it; one that others may read is refused."""
    file = KeyFile(tmp_path / "deep" / "k")
    key = file.make(A)
    assert (tmp_path / "deep" / "k").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    assert KeyFile(tmp_path / "deep" / "k").find(A) == key
    (tmp_path / "deep" / "k").chmod(0o640)
    uses: list[Callable[[], object]] = [
        lambda: KeyFile(tmp_path / "deep" / "k").find(A),
        lambda: file.make(B),
        lambda: file.destroy(A),
    ]
    for use in uses:
        with pytest.raises(KeysError, match="chmod 600"):
            use()


def test_a_destroyed_key_is_in_no_file(tmp_path: Path) -> None:
    """Its line is gone, the file that had it is overwritten, the others stay; destroying it again is harmless."""
    file = KeyFile(tmp_path / "k")
    one, two = file.make(A), file.make(B)
    with (tmp_path / "k").open("rb") as before:
        assert file.find(A) == one
        file.destroy(A)
        file.destroy(A)
        assert not before.read().strip(b"\0")
    assert file.find(A) is KeyFile(tmp_path / "k").find(A) is None
    assert KeyFile(tmp_path / "k").find(B) == two
    assert [path.name for path in tmp_path.iterdir()] == ["k"]
    assert one.hex().encode() not in (tmp_path / "k").read_bytes()
    KeyFile(tmp_path / "none").destroy(A)
    assert not (tmp_path / "none").exists()


def test_a_write_that_broke_off_is_as_if_never_begun(tmp_path: Path) -> None:
    """Cut off at any byte, all keys of whole lines are there, and the next key is written behind them."""
    for size in range(len(GOLDEN)):
        file = written(tmp_path / "k", GOLDEN[:size])
        lines = GOLDEN[:size].count(b"\n")
        assert (file.find(A) is not None, file.find(B) is not None) == (lines > 1, lines > 2)
        key = file.make("c" * 32)
        again = KeyFile(tmp_path / "k")
        assert again.find("c" * 32) == key
        assert (again.find(A) is not None) == (lines > 1)
        assert again.find("d" * 32) is None  # no line is damaged


def test_a_damaged_byte_is_never_another_key(tmp_path: Path) -> None:
    """With any byte changed each key is right, or there is a typed error without a key in it."""
    for at in range(len(GOLDEN)):
        changed = GOLDEN[:at] + bytes((GOLDEN[at] ^ 1,)) + GOLDEN[at + 1 :]
        for name, key in ((A, bytes(range(32))), (B, bytes(reversed(range(32))))):
            said = ""
            try:
                assert written(tmp_path / "k", changed).find(name) == key or at == len(GOLDEN) - 1
            except (DamagedError, KeysError, TooNewError) as error:
                said = str(error)
            assert key.hex()[:16] not in said


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"something else\n", KeysError),
        (b"some", KeysError),
        (b"eventlog keys 2\n", TooNewError),
        (b"eventlog keys x\n", KeysError),
        (b"eventlog keys 1\nnonsense\n", DamagedError),
        (b"eventlog keys 1\n\xff\xff\n", DamagedError),
    ],
)
def test_what_is_no_key_file_is_said(data: bytes, expected: type[EventlogError], tmp_path: Path) -> None:
    """Another file, a newer format and an unreadable line are each a typed error, and are not written over."""
    with pytest.raises(expected):
        written(tmp_path / "k", data).find(A)
    if expected is not DamagedError:
        with pytest.raises(expected):
            KeyFile(tmp_path / "k").make(A)
        assert (tmp_path / "k").read_bytes() == data


def test_keys_beside_a_damaged_line_are_kept(tmp_path: Path) -> None:
    """A damaged line costs nobody else's key: others are found, made and destroyed, and the line stays to be looked at."""
    file = written(tmp_path / "k", GOLDEN.replace(b"0123456789abcdef", b"0123456789abcdeX", 1))
    assert file.find(B) == bytes(reversed(range(32)))
    with pytest.raises(DamagedError, match="line 2"):
        file.find(A)
    key = file.make("c" * 32)
    file.destroy(B)
    assert KeyFile(tmp_path / "k").find("c" * 32) == key
    assert b"0123456789abcdeX" in (tmp_path / "k").read_bytes()
    endless = GOLDEN + b"x" * 1000
    with pytest.raises(DamagedError, match="last line"):
        written(tmp_path / "k", endless).make("c" * 32)
    assert (tmp_path / "k").read_bytes() == endless


def test_threads_and_processes_lose_no_key(tmp_path: Path) -> None:
    """Keys that many make and destroy at once are each there, or gone, as its maker left it."""
    path = tmp_path / "k"
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from eventlog.encryption.keyfile import KeyFile\n"
        "file = KeyFile(Path(sys.argv[1]))\n"
        "for number in range(20):\n"
        "    name = f'{int(sys.argv[2]):016x}{number:016x}'\n"
        "    print(name, file.make(name).hex())\n"
        "    if number % 3 == 0:\n"
        "        file.destroy(name)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(path), str(number)], stdout=subprocess.PIPE, text=True)
        for number in (1, 2)
    ]
    made: dict[str, bytes] = {}
    file = KeyFile(path)

    def work(thread: int) -> None:
        for number in range(20):
            name = f"{thread + 10:016x}{number:016x}"
            made[name] = file.make(name)
            assert KeyFile(path).find(name) == made[name]
            if number % 3 == 0:
                file.destroy(name)

    run_together(2, work)
    for child in children:
        told, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        made |= {name: bytes.fromhex(key) for name, key in (line.split() for line in told.splitlines())}
    assert len(made) == 80
    found = KeyFile(path)
    for name, key in made.items():
        assert found.find(name) == (None if int(name[16:], 16) % 3 == 0 else key)


def test_a_program_that_died_while_it_destroyed_a_key_leaves_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, and the file that never came to its place is gone with the next write, whatever keys it has."""
    file = KeyFile(tmp_path / "k")
    one, two = file.make(A), file.make(B)

    def die(_path: Path, _to: Path) -> None:
        raise KeyboardInterrupt

    def leave(_file: KeyFile) -> None:
        """A program that is killed cleans nothing up."""

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        patch.setattr(KeyFile, "_discard", leave)
        with pytest.raises(KeyboardInterrupt):
            file.destroy(A)
    assert two.hex().encode() in (tmp_path / "k.new").read_bytes()
    assert (KeyFile(tmp_path / "k").find(A), KeyFile(tmp_path / "k").find(B)) == (one, two)
    with (tmp_path / "k.new").open("rb") as left:
        file.make("c" * 32)
        assert not left.read().strip(b"\0")
    assert [path.name for path in tmp_path.iterdir()] == ["k"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            file.destroy(B)
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_what_the_system_refuses_is_typed(tmp_path: Path) -> None:
    """A directory in its place, and a place that cannot be written, are errors of this package."""
    (tmp_path / "d").mkdir(mode=0o700)
    uses: list[Callable[[], object]] = [
        lambda: KeyFile(tmp_path / "d").find(A),
        lambda: KeyFile(tmp_path / "d").make(A),
        lambda: KeyFile(tmp_path / "file" / "k").make(A),
    ]
    (tmp_path / "file").write_bytes(b"")
    for use in uses:
        with pytest.raises((KeysError, StorageError)):
            use()


def test_a_full_disk_leaves_the_keys_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that could not be written is not given out, and those before it stay."""
    file = KeyFile(tmp_path / "k")
    key = file.make(A)
    write = os.write

    def half(fd: int, data: bytes) -> int:
        return write(fd, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(StorageError):
        file.make(B)
    monkeypatch.undo()
    again = KeyFile(tmp_path / "k")
    assert again.find(A) == key
    assert again.find(B) is None
    assert again.make(B) == KeyFile(tmp_path / "k").find(B)
