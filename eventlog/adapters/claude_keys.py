"""Names of transcripts: `PROJECT/SESSION`, and of a sub-agent's `PROJECT/SESSION/SUBPATH`.

Slashes in projects and sessions are written as in URLs, so no two keys have one name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from eventlog.adapters.name_keys import joined, parted
from eventlog.errors import CallError
from eventlog.importers.common.json_lines import is_object
from eventlog.validation import require

__all__ = ["MAIN", "SUB", "TranscriptKey"]

MAIN = "claude-agent"
"""Format of the names of main transcripts."""
SUB = "claude-agent-sub"
"""Format of the names of transcripts with a sub-path."""


class TranscriptKey(NamedTuple):
    """A key of the SDK."""

    project: str
    session: str
    subpath: str | None = None

    @classmethod
    def of(cls, key: Any) -> TranscriptKey:
        """Return the key that the SDK's dict says."""
        if not is_object(key):
            raise CallError("a session key is a dict with project_key and session_id")
        project, session, subpath = (key.get(field) for field in ("project_key", "session_id", "subpath"))
        for text in (project, session, *(() if subpath is None else (subpath,))):
            require(str, text, "project_key, session_id and subpath of a session key are str")
        if subpath == "":
            raise CallError("the subpath of a session key is empty: omit it for the main transcript")
        return cls(str(project), str(session), subpath)

    @classmethod
    def named(cls, key: str) -> TranscriptKey:
        """Return the key of the name of a main transcript."""
        return cls(*parted(key))

    @property
    def main(self) -> TranscriptKey:
        """The key of the main transcript."""
        return TranscriptKey(self.project, self.session)

    @property
    def prefix(self) -> str:
        """How the names of the session's sub-paths begin."""
        return joined(self.project, self.session, "")

    @property
    def name(self) -> tuple[str, str]:
        """The name of the transcript's session."""
        return (MAIN, self.prefix[:-1]) if self.subpath is None else (SUB, self.prefix + self.subpath)


def project_prefix(project: str) -> str:
    """Return how the names of a project's sessions begin."""
    require(str, project, "a project key is a str")
    return joined(project, "")
