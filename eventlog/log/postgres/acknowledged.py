"""Durability of an acknowledged commit, from the settings of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import LogConnection

_REMOTE = frozenset({"on", "remote_write", "remote_apply"})


class Acknowledged(msgspec.Struct, frozen=True):
    """The settings that say what an acknowledged commit survives, as of opening."""

    fsync: bool
    synchronous_commit: str
    standbys: str
    """`synchronous_standby_names` of the server; "" if it waits for none."""
    connected: int | None
    """Synchronous standbys that are connected; None if this role may not know."""

    @property
    def survives_crash(self) -> bool:
        """Whether a commit is on the primary's disk when it is acknowledged."""
        return self.fsync and self.synchronous_commit != "off"

    @property
    def survives_primary(self) -> bool:
        """Whether a commit is on a standby's disk when it is acknowledged."""
        return self.survives_crash and bool(self.standbys) and self.synchronous_commit in {"on", "remote_apply"}

    def sentence(self) -> str:
        """Return a description for a person."""
        if not self.survives_crash:
            why = "fsync is off" if not self.fsync else "synchronous_commit is off"
            return f"an acknowledged commit may be lost in a crash of the server: {why}"
        if not self.standbys:
            return "an acknowledged commit is on the disk of the one server; it waits for no standby"
        if not self.survives_primary:
            where = "in the memory of a standby" if self.synchronous_commit in _REMOTE else "on no standby for certain"
            return f"an acknowledged commit is on the primary's disk, and {where}: synchronous_commit is {self.synchronous_commit}"
        known = "" if self.connected is None else f", of which {self.connected} are connected"
        return f"an acknowledged commit is on the primary's disk and on those of the standbys {self.standbys}{known}"


def acknowledged(connection: LogConnection) -> Acknowledged:
    """Read what a commit of this connection survives once it is acknowledged."""
    row = connection.execute(
        "SELECT current_setting('fsync'), current_setting('synchronous_commit'),"
        " current_setting('synchronous_standby_names'),"
        " (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),"
        " pg_has_role('pg_read_all_stats', 'USAGE')"
    ).fetchone()
    assert row is not None
    fsync, commit, standbys, connected, may_know = row
    return Acknowledged(fsync == "on", commit, standbys, connected if may_know else None)
