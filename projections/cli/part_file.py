"""Files that a command writes: under a temporary name, renamed once they are whole."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.reports.wording import counted


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is never incomplete; a pipe or device is written to directly.

    Raises `UsageFault` for a file of a store or a key file.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        _refuse_store_and_keys(path.resolve())
        with path.open("wb") as pipe:
            pipe.writelines(pieces)
        return
    with part_file(path) as part, part.open("wb") as file:
        file.writelines(pieces)


@contextmanager
def part_file(path: Path) -> Generator[Path]:
    """Give the temporary name of a file; when the block ends the file gets its own name.

    Raises `UsageFault` for a file of a store or a key file.
    """
    path = path.resolve()  # a link's target is replaced, not the link
    _refuse_store_and_keys(path)
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    output.note(f"{path}: {counted(path.stat().st_size, 'byte')}")


def _refuse_store_and_keys(path: Path) -> None:
    from eventlog.encryption.key_file import is_key_file
    from eventlog.errors import CallError
    from eventlog.log.embedded.directory import refuse_inside_store

    try:
        refuse_inside_store(path)
    except CallError as error:
        raise UsageFault(str(error)) from None
    if is_key_file(path):
        raise UsageFault(f"{path} is a key file: name another place")
