"""Files and folders that are followed, those of agents too, and when to look at which.

A file that changed lately is looked at each second, and the others take turns, so that thousands of
them cost next to nothing. With the package `watchfiles` the system says what changes, and files are
looked at then.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class Folder(NamedTuple):
    """A folder of files; hidden ones below it are left out."""

    path: Path
    names: tuple[str, ...] = ("*",)
    """Patterns, one of which the name of a file must match."""
    deep: bool = True
    """Whether files in folders below it are regarded, too."""
    agent: str = ""

    def files(self) -> Iterator[Path]:
        """Yield the files in order, first those right in the folder."""
        files, folders = self.entries()
        yield from files
        for folder in folders:
            yield from folder.files()

    def entries(self) -> tuple[list[Path], list[Folder]]:
        """Return the files and folders right in the folder, in order."""
        files: list[Path] = []
        folders: list[Folder] = []
        with suppress(OSError), os.scandir(self.path) as found:  # what may not be looked at
            for entry in sorted(found, key=lambda entry: entry.name):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders += [self._replace(path=Path(entry.path))] if self.deep else []
                elif entry.is_file() and any(fnmatch(entry.name, name) for name in self.names):
                    files.append(Path(entry.path))
        return files, folders


def agent_folders() -> list[Folder]:
    """Return the folders of agents that are on this machine.

    Their own environment variables are regarded: CLAUDE_CONFIG_DIR, CODEX_HOME, GEMINI_CLI_HOME,
    QWEN_RUNTIME_DIR, QWEN_HOME, XDG_DATA_HOME.
    """
    home = Path.home()
    named = _named("CLAUDE_CONFIG_DIR")
    claude = [home / ".claude", home / ".config/claude"] if named is None else [named]
    codex = _named("CODEX_HOME") or home / ".codex"
    gemini = (_named("GEMINI_CLI_HOME") or home) / ".gemini"
    qwen = _named("QWEN_RUNTIME_DIR") or _named("QWEN_HOME") or home / ".qwen"
    opencode = (_named("XDG_DATA_HOME") or home / ".local/share") / "opencode"
    lines, chats = ("*.jsonl",), ("session-*.json", "*.jsonl")
    found = [
        *(Folder(each / "projects", lines, agent="Claude Code") for each in claude),
        Folder(codex / "sessions", ("rollout-*.jsonl",), agent="Codex"),
        Folder(codex / "archived_sessions", ("rollout-*.jsonl",), agent="Codex"),
        Folder(gemini / "tmp", chats, agent="Gemini CLI"),
        Folder(qwen / "projects", lines, agent="Qwen Code"),
        Folder(qwen / "tmp", chats, agent="Qwen Code"),
        Folder(opencode, ("opencode*.db",), deep=False, agent="OpenCode"),
        Folder(opencode / "storage/session", ("ses_*.json",), agent="OpenCode"),
    ]
    return [folder for folder in found if folder.path.is_dir()]


def _named(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path).expanduser() if path else None


SECOND = 1.0
"""Seconds between two looks."""
LATELY = 120.0
"""Seconds for which a file that changed is looked at each time."""
MOST = 32
"""Files that are looked at each time, at most: those that changed last."""
FILES = 64
"""Other files that are looked at each time."""
FOLDERS = 16
"""Folders that are looked at each time."""
TOLD = 8
"""How many times fewer these are while the system says what changes."""
TICK = 2_000_000_000
"""Nanoseconds for which a change of a folder may leave its time as it is."""


class WatchedFiles:
    """Files, and folders with theirs; `close` gives the system's watch back."""

    def __init__(self, paths: Sequence[str | os.PathLike[str] | Folder]) -> None:
        self._lately: dict[str, float] = {}
        """Monotonic time until which each of these files is looked at each time."""
        self._new: list[str] = []
        """Files that were not looked at yet."""
        self._others: OrderedDict[str, None] = OrderedDict()
        self._files: set[str] = set()
        self._named: set[str] = set()
        """Files that stay although they are gone."""
        self._folders: dict[str, tuple[Folder, tuple[int, int]]] = {}
        """Each folder, and its inode and time when it was listed."""
        self._turns: deque[str] = deque()
        self._told: set[str] = set()
        """Paths that the system named as changed."""
        self._notices: Any = None
        roots: list[str] = []
        for path in paths:
            folder = path if isinstance(path, Folder) else Folder(Path(path))
            folder = folder._replace(path=folder.path.absolute())
            if isinstance(path, Folder) or folder.path.is_dir():
                self._add_folder(folder)
                roots += [str(folder.path)] if folder.path.is_dir() else []
            else:
                self._named.add(os.fspath(path))
                self._add_file(os.fspath(path))
        if roots:
            with suppress(ImportError, OSError):
                watch = import_module("watchfiles").watch
                self._notices = watch(*roots, watch_filter=None, step=200, rust_timeout=1000, yield_on_timeout=True)

    def close(self) -> None:
        """Give the system's watch back."""
        if self._notices is not None:
            self._notices.close()

    def due(self) -> Iterator[str]:
        """Yield the files to look at now."""
        share = 1 if self._notices is None else TOLD
        told, self._told = self._told, set()
        for path in {path if path in self._folders else os.path.dirname(path) for path in told}:  # noqa: PTH120
            self._list(path)
        for _ in range(min(len(self._turns), FOLDERS // share)):
            self._list(self._turns[0])
            self._turns.rotate(-1)
        new, self._new = self._new, []
        for path in new:
            self._others[path] = None
            yield path
        yield from (told & self._files).difference(new)
        now = time.monotonic()
        for path, until in list(self._lately.items()):
            if until < now:
                self._lately.pop(path, None)
                self._others[path] = None
            if path in self._files:
                yield path
        for _ in range(min(len(self._others), FILES // share)):
            path, _ = self._others.popitem(last=False)
            if path in self._files and path not in self._lately:
                self._others[path] = None
                yield path

    def changed(self, path: str) -> None:
        """Look at a file each time for a while."""
        self._lately.pop(path, None)
        self._lately[path] = time.monotonic() + LATELY
        if len(self._lately) > MOST:
            first = next(iter(self._lately))
            del self._lately[first]
            self._others[first] = None

    def forget(self, path: str) -> None:
        """Leave out a file that is gone, unless it is followed by its name."""
        if path not in self._named:
            self._files.discard(path)

    def wait(self) -> None:
        """Wait for a second, or until the system says that something changed."""
        if self._notices is None:
            time.sleep(SECOND)
            return
        try:
            self._told = {path for _, path in next(self._notices)}
        except (OSError, StopIteration):  # it watches no more
            self._notices = None

    def _add_file(self, path: str) -> None:
        if path not in self._files:
            self._files.add(path)
            self._new.append(path)

    def _add_folder(self, folder: Folder) -> None:
        path = str(folder.path)
        if path not in self._folders:
            self._folders[path] = folder, (0, 0)
            self._turns.append(path)
            self._list(path)

    def _list(self, path: str) -> None:
        """Take in what is new in a folder, if it has changed."""
        folder, known = self._folders.get(path, (None, (0, 0)))
        if folder is None:
            return
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError:
            return
        stamp = found.st_ino, found.st_mtime_ns
        if stamp == known:
            return
        if time.time_ns() - found.st_mtime_ns < TICK:
            stamp = found.st_ino, 0  # it is listed once more
        self._folders[path] = folder, stamp
        files, folders = folder.entries()
        for file in files:
            self._add_file(str(file))
        for below in folders:
            self._add_folder(below)
