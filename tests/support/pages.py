"""Pages of the repository as tests read them: examples, code in text, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


def _files() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*")):
        name = path.relative_to(ROOT)
        hidden = any(part.startswith(".") and part not in {".ci", ".github"} for part in name.parts)
        if path.is_file() and not hidden and "__pycache__" not in name.parts:
            yield name.as_posix()


FILES = tuple(_files())
"""All files of the tree, relative to its root."""

PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8") for name in FILES if name.endswith(".md") and name != "CHANGELOG.md"
}
"""Every page but the changelog, by its path."""

LOOP = "openai.OpenAI("
"""Found in the documented loop, which needs a server, and in no other example."""

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    number: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, numbered from 1."""
    return [Block(page, number, *found) for number, found in enumerate(_FENCE.findall(PAGES[page]), 1)]


def python_examples() -> list[Block]:
    """Return the Python blocks of all pages."""
    return [block for page in PAGES for block in blocks(page) if block.language == "python"]


def example(*words: str) -> Block:
    """Return the only Python block of all pages that contains every word."""
    (found,) = [block for block in python_examples() if all(word in block.code for word in words)]
    return found


def prose(page: str) -> str:
    """Return a page without its Python, JSON and shell blocks, and without other fences."""

    def kept(fence: re.Match[str]) -> str:
        return "" if fence[1] else fence[2]

    return _FENCE.sub(kept, PAGES[page])


def codes(page: str) -> list[str]:
    """Return the code spans of a page's text, each on one line."""
    text = _FENCE.sub("", PAGES[page])
    return [
        " ".join(found.split()).replace("\\|", "|")
        for paragraph in re.split(r"\n\s*\n", text)
        for _, found in re.findall(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", paragraph, re.DOTALL)
    ]


def command_lines(page: str) -> list[str]:
    """Return the calls of `eventlog` in code spans, shell blocks and indented blocks."""
    lines = [line for block in blocks(page) if block.language in {"sh", "console"} for line in block.code.splitlines()]
    lines += [line for line in PAGES[page].splitlines() if line.startswith("    ")]
    lines = [
        part.strip().removeprefix("$ ") for line in lines for part in re.split(r"&&|\||;", line.partition(" #")[0])
    ]
    return [line for line in [*codes(page), *lines] if re.match(r"(\S*/)?eventlog ", line)]


def links(page: str) -> list[tuple[str, str]]:
    """Return the links of a page into the repository: path and anchor ("" for none)."""
    found: list[tuple[str, str]] = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", PAGES[page])):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            place = (ROOT / page).parent / path if path else ROOT / page
            found.append((place.resolve().relative_to(ROOT).as_posix(), anchor))
    return found


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", _FENCE.sub("", PAGES[page]), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 1
        while (name := slug if number == 1 else f"{slug}-{number - 1}") in found:
            number += 1
        found.add(name)
    return found
