"""The key file: format, permissions, crashes, damage, and concurrent writers."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from eventlog.encryption import key_file
from eventlog.encryption.envelope import decrypt_commit, decrypt_head
from eventlog.encryption.key_file import KeyFile
from eventlog.encryption.key_ring import KeyRing
from eventlog.errors import DamagedError, EventlogError, KeysError, StorageError, TooNewError
from eventlog.log.commit import Commit, Head
from tests.support.sample_sessions import run_together

A, B = "0123456789abcdef" * 2, "fedcba9876543210" * 2
GOLDEN = (
    b"eventlog keys 1\n"
    b"0123456789abcdef0123456789abcdef 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 03e1182f\n"
    b"fedcba9876543210fedcba9876543210 1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100 067af26c\n"
)
"""Format version 1, which every later program reads."""


def summed(said: bytes) -> bytes:
    """A line whose check is right."""
    return b"%b %08x\n" % (said, crc32(said))


def written(path: Path, data: bytes) -> KeyFile:
    """Write a key file of these bytes."""
    path.write_bytes(data)
    path.chmod(0o600)
    return KeyFile(path)


def test_the_format_is_as_it_ever_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden bytes are read, and the same keys are written as those bytes."""
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
    """A key file is created for its owner alone; one that others may read is refused."""
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
    """A destroyed key's line is gone and its old file overwritten; other keys remain."""
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
    """A write cut off at any byte loses no earlier key, and the next key follows it."""
    for size in range(len(GOLDEN)):
        file = written(tmp_path / "k", GOLDEN[:size])
        lines = GOLDEN[: size + 1].count(b"\n")
        assert (file.find(A) is not None, file.find(B) is not None) == (lines > 1, lines > 2)
        key = file.make("c" * 32)
        again = KeyFile(tmp_path / "k")
        assert again.find("c" * 32) == key
        assert (again.find(A) is not None) == (lines > 1)
        assert again.find("d" * 32) is None  # no line is damaged


def test_a_last_line_without_its_end_or_its_beginning(tmp_path: Path) -> None:
    """A key whose line lacks only its end is read; a line without its beginning is not."""
    for end in (b"", b"\r", b"\0\0\0"):
        file = written(tmp_path / "k", GOLDEN[:-1] + end)
        assert file.find(B) == bytes(reversed(range(32)))
        key = file.make("c" * 32)
        assert (tmp_path / "k").read_bytes().startswith(GOLDEN + b"c" * 32)
        file.destroy(A)
        assert (file.find(B), file.find("c" * 32)) == (bytes(reversed(range(32))), key)
    for size in range(1, 107):
        file = written(tmp_path / "k", GOLDEN[:-107] + bytes(size) + GOLDEN[-107 + size :])
        assert file.find(A) == bytes(range(32))
        assert file.find(B) is None
        file.destroy("d" * 32)
        file.make("c" * 32)
        assert (tmp_path / "k").read_bytes().startswith(GOLDEN[:-107] + b"c" * 32)


def test_a_damaged_byte_is_never_another_key(tmp_path: Path) -> None:
    """With any byte changed each key is right, or a typed error comes without a key in it."""
    for at in range(len(GOLDEN)):
        changed = GOLDEN[:at] + bytes((GOLDEN[at] ^ 1,)) + GOLDEN[at + 1 :]
        for name, key in ((A, bytes(range(32))), (B, bytes(reversed(range(32))))):
            said = ""
            try:
                assert written(tmp_path / "k", changed).find(name) == key
            except (KeysError, TooNewError) as error:
                said = str(error)
            assert key.hex()[:16] not in said


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"something else\n", KeysError),
        (b"some", KeysError),
        (b"eventlog keys 2\n", TooNewError),
        (b"eventlog keys x\n", KeysError),
        (b"eventlog keys " + b"9" * 5000 + b"\n", TooNewError),
        (b"eventlog keys 1\n" + summed(b"\xff" * 32 + b" " + b"0" * 64), KeysError),
        (b"eventlog keys 1\n" + summed(b"0" * 32 + b" " + b"z" * 64), KeysError),
        (b"eventlog keys 1\nnonsense\n", KeysError),
        (b"eventlog keys 1\n\xff\xff\n", KeysError),
    ],
)
def test_what_is_no_key_file_is_said(data: bytes, expected: type[EventlogError], tmp_path: Path) -> None:
    """A foreign file, a newer format and an unreadable line are typed errors; none is changed."""
    with pytest.raises(expected):
        written(tmp_path / "k", data).find(A)
    if not data.startswith(b"eventlog keys 1\n"):
        with pytest.raises(expected):
            KeyFile(tmp_path / "k").make(A)
        assert (tmp_path / "k").read_bytes() == data


def test_keys_beside_a_damaged_line_are_kept(tmp_path: Path) -> None:
    """A damaged line costs no other key: other keys are found, made and destroyed beside it."""
    file = written(tmp_path / "k", GOLDEN.replace(b"0123456789abcdef", b"0123456789abcdeX", 1))
    assert file.find(B) == bytes(reversed(range(32)))
    with pytest.raises(KeysError, match="line 2"):
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
    """Keys that threads and processes make and destroy at once are exactly there or gone."""
    path = tmp_path / "k"
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from eventlog.encryption.key_file import KeyFile\n"
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


def die(*_: object) -> None:
    """Interrupt the step that this function replaces."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", ["link", "replace", "sync_directory", "_overwrite"])
@pytest.mark.parametrize("next_one", ["find", "make", "destroy"])
def test_a_program_that_died_while_it_destroyed_a_key_leaves_none_of_its_bytes(
    place: str, next_one: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill while a key is destroyed, the next use overwrites and removes its files."""
    path = tmp_path / "k"
    file = KeyFile(path)
    one, two = file.make(A), file.make(B)

    def leave(_file: KeyFile) -> None:
        """Exit without cleaning up, as a killed program does."""

    with path.open("rb") as old:
        with monkeypatch.context() as patch:
            patch.setattr({"link": os, "replace": Path}.get(place, key_file), place, die)
            patch.setattr(KeyFile, "_remove_leftovers", leave)
            with pytest.raises(KeyboardInterrupt):
                file.destroy(A)
        left = path.with_name("k.new" if place == "link" else "k.destroyed")
        assert two.hex().encode() in left.read_bytes()
        with left.open("rb") as rest:
            if next_one == "find":
                assert KeyFile(path).find(B) == two
            elif next_one == "make":
                KeyFile(path).make("c" * 32)
            else:
                KeyFile(path).destroy(A)
            kept = place in {"link", "replace"} and next_one != "destroy"
            assert bool(old.read().strip(b"\0")) == kept
            assert place == "replace" or not rest.read().strip(b"\0")
    assert [found.name for found in tmp_path.iterdir()] == ["k"]
    assert (KeyFile(path).find(A), KeyFile(path).find(B)) == (one if kept else None, two)


@pytest.mark.parametrize("place", ["replace", "sync_directory"])
def test_an_interrupted_destruction_leaves_no_other_file(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted key destruction cleans up; the old file stays until the new is synced."""
    file = KeyFile(tmp_path / "k")
    one = file.make(A)
    with monkeypatch.context() as patch:
        patch.setattr(Path if place == "replace" else key_file, place, die)
        with pytest.raises(KeyboardInterrupt):
            file.destroy(A)
        if place == "sync_directory":
            assert one.hex().encode() in (tmp_path / "k.destroyed").read_bytes()
    assert file.find(A) == (one if place == "replace" else None)
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_what_the_system_refuses_is_typed(tmp_path: Path) -> None:
    """A directory in the key file's place and an unwritable place raise a typed error."""
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
    """A key that could not be written is not issued, and the earlier ones stay."""
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


def test_a_key_in_a_damaged_line_is_destroyed_or_it_is_said_that_it_is_not(tmp_path: Path) -> None:
    """Destroying a key in a damaged line removes its digits or raises an error."""
    begin, end = GOLDEN.index(A.encode()), GOLDEN.index(B.encode())
    for at in range(begin, end):
        changed = GOLDEN[:at] + bytes((GOLDEN[at] ^ 1,)) + GOLDEN[at + 1 :]
        file = written(tmp_path / "k", changed)
        if at <= begin + len(A):
            with pytest.raises(DamagedError, match="line 2"):
                file.destroy(A)
            assert (tmp_path / "k").read_bytes() == changed
        else:
            file.destroy(A)
            assert (tmp_path / "k").read_bytes() == GOLDEN[:begin] + GOLDEN[end:]
        assert KeyFile(tmp_path / "k").find(B) == bytes(reversed(range(32)))
    written(tmp_path / "k", GOLDEN[:-1] + b"\r").destroy(B)
    assert (tmp_path / "k").read_bytes() == GOLDEN[:end]
    both = GOLDEN[: end - 1] + b"x" + GOLDEN[end:-3] + b"yy\n"
    with pytest.raises(DamagedError, match="line 2"):
        written(tmp_path / "k", both).destroy(A)
    assert (tmp_path / "k").read_bytes() == both


def test_a_key_file_may_be_a_symbolic_link_and_has_no_second_name(tmp_path: Path) -> None:
    """A key file behind a symbolic link is rewritten in place; a hard-linked one is refused."""
    (tmp_path / "real").mkdir()
    (tmp_path / "k").symlink_to(tmp_path / "real" / "k")
    file = KeyFile(tmp_path / "k")
    one, two = file.make(A), file.make(B)
    file.destroy(A)
    assert (tmp_path / "k").is_symlink()
    assert KeyFile(tmp_path / "real" / "k").find(B) == two
    assert one.hex().encode() not in (tmp_path / "real" / "k").read_bytes()
    (tmp_path / "second").hardlink_to(tmp_path / "real" / "k")
    uses: list[Callable[[], object]] = [lambda: file.find(B), lambda: file.make("c" * 32), lambda: file.destroy(B)]
    for use in uses:
        with pytest.raises(KeysError, match="hard link"):
            use()
    (tmp_path / "second").unlink()
    assert file.find(B) == two


def test_a_file_system_without_hard_links_destroys_keys_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without hard links a key is overwritten and destroyed all the same."""
    file = KeyFile(tmp_path / "k")
    one, two = file.make(A), file.make(B)
    refusal = errno.EIO

    def refuse(_path: Path, _to: Path) -> None:
        raise OSError(refusal, "refused")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="refused"):
        file.destroy(A)
    assert (file.find(A), file.find(B)) == (one, two)
    refusal = errno.EPERM
    with (tmp_path / "k").open("rb") as old:
        file.destroy(A)
        assert not old.read().strip(b"\0")
    assert (file.find(A), file.find(B)) == (None, two)
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_what_is_wrong_with_keys_is_no_damage_of_a_session(tmp_path: Path) -> None:
    """An unreadable key line raises `KeysError` about the key file, no damage of a session."""
    ring = KeyRing(written(tmp_path / "k", GOLDEN[:-2] + b"x\n"))
    golden = json.loads((Path(__file__).resolve().parents[2] / "golden" / "encryption-1.json").read_text())
    payload, entry = (bytes.fromhex(golden[name]) for name in ("payload", "card"))
    commit = Commit("one", 5, golden["count"], 1, 0, golden["time"], payload, "r")
    head = Head("one", 6, 2, 4, 6, 6, 1, entry)
    uses: list[Callable[[], object]] = [lambda: decrypt_commit(commit, ring), lambda: decrypt_head(head, ring)]
    for use in uses:
        with pytest.raises(KeysError, match="line 3") as caught:
            use()
        assert "one" not in str(caught.value).replace(str(tmp_path), "")


def test_a_hole_without_end_is_not_read(tmp_path: Path) -> None:
    """A key file with a huge sparse end is refused at once; a torn last line is read."""
    keys = written(tmp_path / "keys", GOLDEN)
    os.truncate(tmp_path / "keys", len(GOLDEN) + 4096)
    assert keys.find(A) is not None
    os.truncate(tmp_path / "keys", 4 << 40)
    with pytest.raises(KeysError, match="ends in a hole"):
        KeyFile(tmp_path / "keys").find(A)
