"""Folders in which agents keep their sessions on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

__all__ = ["Folder", "agent_folders"]


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
