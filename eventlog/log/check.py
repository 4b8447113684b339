"""Reading everything that is folded, to find what is wrong before somebody needs it.  Imported by this package only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import DamagedError
from eventlog.log.segments import PAIR

if TYPE_CHECKING:
    from eventlog.log.segments import HeadRow, Segments

__all__ = ["check_segments"]


def check_segments(segments: Segments) -> list[str]:
    """Read every row, chunk and body; a line for each thing that is wrong."""
    wrong: list[str] = []
    numbers: set[int] = set()
    for key in segments.keys("sessions"):
        session = key.decode(errors="replace")
        try:
            with segments.environment.reading() as txn:
                row = segments.row_in(txn, session)
            if row is not None:
                numbers.add(row.number)
                _check_session(segments, session, row)
        except (DamagedError, msgspec.DecodeError) as error:
            wrong.append(str(error))
    strangers = {PAIR.unpack(key)[0] for key in segments.keys("commits")} - numbers
    wrong += [f"there are commits of session number {number}, but no readable head" for number in sorted(strangers)]
    try:
        _check_positions(segments)
    except DamagedError as error:
        wrong.append(str(error))
    for digest in segments.keys("bodies"):
        try:
            segments.body(digest)
        except DamagedError as error:
            wrong.append(str(error))
    return wrong


def _check_session(segments: Segments, session: str, row: HeadRow) -> None:
    version = row.base + 1
    while version <= row.version:
        for commit in segments.chunk(session, version):
            if commit.first != version:
                raise DamagedError("versions are not contiguous", session=session, version=version)
            version = commit.last + 1
    if version != row.version + 1:
        raise DamagedError("there are versions beyond the head", session=session, version=row.version + 1)


def _check_positions(segments: Segments) -> None:
    position, last = 1, segments.folded().position
    while position <= last:
        for commit in segments.follow(position - 1, 1000):
            if commit.position != position:
                raise DamagedError("positions are not contiguous", position=position)
            position = commit.position + commit.count
