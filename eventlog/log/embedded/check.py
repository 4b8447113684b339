"""Verification of a store: every row, chunk and body is read, and each fault is reported."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import DamagedError
from eventlog.log.embedded.segments.layout import PAIR
from eventlog.log.merkle_check import first_mismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eventlog.log.commit import Commit, Head
    from eventlog.log.embedded.journal.journal import Journal
    from eventlog.log.embedded.lookup import Lookup
    from eventlog.log.embedded.segments.layout import HeadRow
    from eventlog.log.embedded.segments.segments import Segments


def check_segments(segments: Segments) -> list[str]:
    """Read every row, chunk and body of the segments; return a line for each fault."""
    segments.forget()
    faults: list[str] = []
    numbers: set[int] = set()
    for key in segments.keys("sessions"):
        session = key.decode(errors="replace")
        try:
            with segments.environment.reading() as txn:
                row = segments.row_in(txn, session)
            if row is not None and row.number:
                numbers.add(row.number)
                _check_session(segments, session, row)
        except (DamagedError, msgspec.DecodeError) as error:
            faults.append(str(error))
    strangers = {PAIR.unpack(key.ljust(PAIR.size)[: PAIR.size])[0] for key in segments.keys("commits")} - numbers
    faults += [f"there are commits of session number {number}, but no readable head" for number in sorted(strangers)]
    try:
        _check_positions(segments)
    except DamagedError as error:
        faults.append(str(error))
    for digest in segments.keys("bodies"):
        try:
            segments.body(digest)
        except DamagedError as error:
            faults.append(str(error))
    with suppress(DamagedError), segments.environment.reading() as txn:  # a damaged head is told above
        faults += segments.lists.faults(txn, segments.folded_in(txn).position)
    return faults


def _check_session(segments: Segments, session: str, row: HeadRow) -> None:
    fault = first_mismatch(row.head(session), _commits(segments, session, row))
    if fault is not None:
        raise DamagedError(fault.problem, session=session, version=fault.version)


def _commits(segments: Segments, session: str, row: HeadRow) -> Iterator[Commit]:
    version = row.base + 1
    while version <= row.version:
        commits = segments.chunk(session, version)
        yield from commits
        following = commits[-1].last + 1 if commits else version
        if following <= version:
            raise DamagedError("a chunk does not hold what it should", session=session, version=version)
        version = following


def check_journal(cursor: Journal, segments: Segments, until: int) -> list[str]:
    """Check the journal beyond LMDB, up to an address, and return a line for each fault."""
    wrong: list[str] = []
    try:
        while True:
            folded = segments.folded()
            cursor.seek(folded.address, folded.position)
            for _ in cursor.read(until):
                pass
            if cursor.address >= until:
                break
            if segments.folded().address <= cursor.address:  # else the files were recycled meanwhile
                wrong.append(f"the journal is damaged behind position {cursor.position}")
                break
    except DamagedError as error:
        wrong.append(str(error))
    finally:
        cursor.close()
    return wrong


def check_trees(lookup: Lookup, heads: Iterable[Head]) -> list[str]:
    """Compare the hash trees of sessions with unfolded appends; return a line for each fault."""
    faults: list[str] = []
    for head in heads:
        try:
            fault = first_mismatch(head, lookup.read(head.session, 0, head.version, reverse=False))
        except DamagedError as error:
            faults.append(str(error))
        else:
            if fault is not None:
                faults.append(str(DamagedError(fault.problem, session=head.session, version=fault.version)))
    return faults


def _check_positions(segments: Segments) -> None:
    """Raise unless positions increase and every append has one.

    Sessions whose events were removed have none.
    """
    position = appends = 0
    least = _appends(segments)
    while commits := segments.commits_after(position, 1000):
        for commit in commits:
            if commit.position <= position:
                raise DamagedError("positions do not increase", position=commit.position)
            position = commit.last_position
            appends += 1
    most = _appends(segments)  # another process may have folded meanwhile
    if not least <= appends <= most:
        raise DamagedError(f"the order of commits has {appends} appends, the sessions have {most}")


def _appends(segments: Segments) -> int:
    return sum(head.appends for head in segments.heads("") if not head.gone)
