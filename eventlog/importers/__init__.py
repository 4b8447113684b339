"""Importers of foreign transcripts, one for each format: `import_file` and `follow`.

A second import of a file is safe: stored events are found, and only new ones are appended
(`reconcile.py`).
"""

from eventlog.importers.common.importer import Report, Skipped
from eventlog.importers.followed_files import FollowedFile, follow
from eventlog.importers.formats import FORMATS, detect
from eventlog.importers.one_file import import_file
from eventlog.importers.watched_files import Folder, agent_folders

__all__ = [
    "FORMATS",
    "Folder",
    "FollowedFile",
    "Report",
    "Skipped",
    "agent_folders",
    "detect",
    "follow",
    "import_file",
]
