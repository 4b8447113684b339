"""A store copied from another one's commits, for backup, restore, repair, vacuum, scrub.

Positions, versions, salts and leaves stay as they were, so its heads are those of the original.
Commits go straight into the segments, in transactions that each add whole commits in the order of
their positions. The journal is made last and begins behind them. So an interrupted copy is an older
state of the same history, and can be continued.

`eventlog/maintenance/copy_commits.py` decides which commits are copied. The caller sees to it that
no other process uses the directory.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from eventlog.errors import CallError
from eventlog.log.embedded.directory import forget_unbegun, write_format
from eventlog.log.embedded.filesystem import sync_directory
from eventlog.log.embedded.journal.frames import FILE_HEADER_BYTES, address_of
from eventlog.log.embedded.journal.journal import Journal
from eventlog.log.embedded.memtable import MemtablePart
from eventlog.log.embedded.options import Options
from eventlog.log.embedded.segments.fold import begin_store, write_address, write_copied
from eventlog.log.embedded.segments.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from eventlog.log.append_checks import RequestResult
    from eventlog.log.commit import Commit, Head

START = address_of(1, FILE_HEADER_BYTES)
"""Where the journal of a copy begins."""


class BulkWriter:
    """The directory of a generation while it is written: `lmdb/` and `journal/`."""

    def __init__(self, directory: Path, options: Options) -> None:
        self._directory = directory
        self._options = options
        for place in (directory, directory / "lmdb", directory / "journal"):
            place.mkdir(mode=0o700, exist_ok=True)
        self._refuse_written_to()
        forget_unbegun(directory / "lmdb")
        self._segments = Segments(directory / "lmdb", read_only=False, map_bytes=options.map_bytes)
        try:
            begin_store(self._segments, START)
            folded = self._segments.folded()
        except BaseException:
            self._segments.close()
            raise
        if folded.address != START:
            self._segments.close()
            raise CallError(f"{directory} was written to after it was copied")
        self.position: int = folded.position
        """Position of the last copied event."""

    def _refuse_written_to(self) -> None:
        journal = self._directory / "journal"
        logs = sorted(path.name for path in journal.glob("*.log"))
        if logs and (logs != ["0000000001.log"] or Journal.has_frames(journal, 1, self._options.io)):
            raise CallError(f"{self._directory} was written to after it was copied")

    @property
    def page_bytes(self) -> int:
        """The size of an LMDB page, for the file `format`."""
        return self._segments.environment.page_bytes

    def head(self, session: str) -> Head | None:
        """Return the copied head of a session."""
        return self._segments.head(session)

    def last_commit(self) -> Commit | None:
        """Return the commit that was copied last; None if there is none, or if it was dropped."""
        commits = self._segments.commits_after(self.position - 1, 1) if self.position else []
        return commits[0] if commits else None

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """Return at most `limit` copied commits after a position; see `contract.Log`."""
        return self._segments.commits_after(after, limit)

    def has_body(self, digest: bytes) -> bool:
        """Return whether a body was copied."""
        return self._segments.has_body(digest)

    def begin(self) -> None:
        """Remove the journal, so that the directory is no store until `finish`."""
        for path in (self._directory / "journal").iterdir():
            path.unlink()
        sync_directory(self._directory / "journal")

    def add(
        self,
        commits: Sequence[Commit],
        heads: Mapping[str, Head],
        requests: Mapping[tuple[str, str], RequestResult],
        bodies: Mapping[bytes, bytes],
        *,
        position: int,
        gone: Sequence[Head] = (),
    ) -> None:
        """Add commits in the order of positions, all behind the copied ones, in one transaction.

        `heads` has the head of every session of `commits` after them. `position` is that of the
        last event, dropped ones included. `gone` are heads of sessions whose events were removed.
        """
        part = MemtablePart()
        for commit in commits:
            part.commits.setdefault(commit.session, []).append(commit)
        part.heads.update(heads)
        part.requests.update(requests)
        part.bodies.update(bodies)
        part.position = position
        self._options.io.reach("copy: add")
        write_copied(self._segments, part, gone)
        self.position = position
        self._options.io.reach("copy: added")

    def add_derived(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add derived values."""
        from eventlog.log.embedded.segments.fold import write_derived

        write_derived(self._segments, dict(items))

    def finish(self, format_in: Path | None, identity: str = "", encryption: str = "", *, sequence: int = 1) -> int:
        """Make the journal, flush everything, and make `format_in` a store if it is given.

        `sequence` is the number of its first file. Return the address of its first frame.
        """
        page = self.page_bytes
        if sequence > 1:
            write_address(self._segments, address_of(sequence, FILE_HEADER_BYTES))
        self._segments.close()
        shutil.rmtree(self._directory / "journal")
        (self._directory / "journal").mkdir(mode=0o700)
        io, most = self._options.io, self._options.journal_bytes
        start = Journal.create(self._directory / "journal", io, most, self.position, sequence)
        for name in ("lmdb", "journal", ""):
            sync_directory(self._directory / name)
        if format_in is not None:
            for name in ("open", "lock", "turn"):
                os.close(os.open(format_in / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            (format_in / "mark").unlink(missing_ok=True)
            write_format(format_in, page, identity, encryption)
        return start

    def close(self) -> None:
        """Close the files; harmless after `finish`."""
        self._segments.close()
