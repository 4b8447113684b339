"""Lines of a key file: how they are written, read and told from torn ones."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from eventlog.errors import DamagedError, KeysError, TooNewError

TITLE = b"eventlog keys "
HEADER = TITLE + b"1\n"
_NAME_DIGITS, _KEY_DIGITS, _CHECK_DIGITS = 32, 64, 8
_DIGITS = b"0123456789abcdef"
LINE_BYTES = _NAME_DIGITS + _KEY_DIGITS + _CHECK_DIGITS + 3


class KeyTable(NamedTuple):
    """Content of a key file."""

    keys: dict[str, bytes]
    damaged: tuple[int, ...]
    """Numbers of the lines that cannot be read."""
    ends: bool
    """Whether the last line is whole."""


EMPTY = KeyTable({}, (), ends=True)


def unbroken_size(data: bytes) -> int:
    """Return the size without a torn last line; one without its line feed is not torn."""
    end = data.rfind(b"\n") + 1
    last = data[end : end + LINE_BYTES - 1]
    if _is_valid_line(last):
        return end + len(last)
    torn = end - LINE_BYTES  # a file that grew has zeros where no data arrived
    if end == len(data) and torn > 0 and data[torn - 1 : torn + 1] == b"\n\0":
        return torn
    return end


def line_of(name: str, key: bytes) -> bytes:
    """Return the line of a key, with its check and its end."""
    said = f"{name} {key.hex()}".encode()
    return b"%b %08x\n" % (said, crc32(said))


def has_header(path: Path, data: bytes) -> bool:
    """Whether the header is whole; False if it is torn.

    `TooNewError` or `KeysError` if the file begins with something else.
    """
    if data.startswith(HEADER):
        return True
    if HEADER.startswith(data):
        return False
    line = data.partition(b"\n")[0]
    if line.startswith(TITLE) and line.removeprefix(TITLE).isdigit():
        raise TooNewError(f"key file {path} has format {line.removeprefix(TITLE)[:20].decode()}, known is 1")
    raise KeysError(f"{path} is no key file")


def parse_keys(path: Path, data: bytes) -> KeyTable:
    """Return the keys in the bytes of a file, and the lines that cannot be read."""
    if not has_header(path, data):
        return KeyTable({}, (), ends=not data)
    unbroken = data[: unbroken_size(data)]
    lines = unbroken[len(HEADER) :].removesuffix(b"\n").split(b"\n") if len(unbroken) > len(HEADER) else []
    keys: dict[str, bytes] = {}
    damaged: list[int] = []
    for number, line in enumerate(lines, 2):
        if _is_valid_line(line):
            keys[line[:_NAME_DIGITS].decode()] = bytes.fromhex(line[_NAME_DIGITS + 1 :][:_KEY_DIGITS].decode())
        else:
            damaged.append(number)
    return KeyTable(keys, tuple(damaged), ends=len(unbroken) == len(data))


def _is_valid_line(line: bytes) -> bool:
    """Whether a line, without its end, is as it was written."""
    said, _, check = line.rpartition(b" ")
    name, _, digits = said.partition(b" ")
    shaped = (len(name), len(digits), len(check)) == (_NAME_DIGITS, _KEY_DIGITS, _CHECK_DIGITS)
    return shaped and not (name + digits).strip(_DIGITS) and b"%08x" % crc32(said) == check


def lines_without(path: Path, data: bytes, name: str) -> bytes:
    """Return the file's bytes without the lines that begin with a name, damaged or not.

    A line whose end is damaged runs on in the next, which stays. `DamagedError` if it cannot be
    told what of a line is the key.
    """
    start = name.encode() + b" "
    lines = data.split(b"\n")
    kept: list[bytes] = []
    for number, line in enumerate(lines, 1):
        rest = line[LINE_BYTES:]
        if not line.startswith(start):
            kept.append(line)
        elif _is_valid_line(rest):
            kept.append(rest)
        elif rest:
            raise DamagedError(f"key file {path}: line {number} cannot be read, and has the key to destroy with others")
    if kept[-1] is not lines[-1]:
        kept.append(b"")
    return b"\n".join(kept)
