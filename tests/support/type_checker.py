"""Bodies of requests as TypeScript literals, checked by `tsc --strict`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.request_rules.common import is_array, is_object
from tests.support.missing import missing, tool
from tests.support.provider_forms import Request

PACKAGES = ("typescript@^7", "openai@^7", "@anthropic-ai/sdk@^1", "@google/genai@^3", "ai@^5", "@types/node@^22")
IMPORTS = """import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import type { GenerateContentParameters } from "@google/genai";
import type { ModelMessage } from "ai";
interface Answer extends OpenAI.Chat.ChatCompletionAssistantMessageParam {
  reasoning_content?: string; reasoning?: string; reasoning_details?: {}[];
}
type Compatible = { messages: (OpenAI.Chat.ChatCompletionMessageParam | Answer)[]; [other: string]: unknown };
"""
TYPES = {
    "chat": "OpenAI.Chat.ChatCompletionCreateParams",
    "compatible": "Compatible",
    "responses": "OpenAI.Responses.ResponseCreateParams",
    "anthropic": "Anthropic.MessageCreateParams",
    "compacted": "Anthropic.Beta.MessageCreateParams",
    "gemini": "GenerateContentParameters",
    "ai_sdk": "{ messages: ModelMessage[] }",
}
LISTS = ("messages", "input", "contents")
"""Members of a body that hold its messages: one that was there already is left out."""
_OTHERS = ("model", "max_tokens", "store", "system", "instructions", "systemInstruction")
"""Members that are checked too; tools and sampling are not of the forms' making."""
_WORDS = re.compile("type|role|format|detail|phase|status|media_?[tT]ype|mimeType|outcome|language|name|ttl|.*_code")
"""Members with values of an enumeration; no type looks into the texts of others."""
_ANY = {"args", "response", "input"}
"""Members that have any object."""
_OPTIONS = "--strict --noEmit --skipLibCheck --target es2022 --module nodenext --types node --pretty false"


class Literals:
    """Gathers bodies without repeating a message of one shape, and checks them in one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._npm, self._npx = tool("npm"), tool("npx")
        self._seen: set[tuple[str, str]] = set()
        self.lines: list[str] = []

    def add(self, request: Request) -> int | None:
        """Add a body, and return its number; None if nothing in it is new."""
        api, body = request.api, request.body
        if api == "chat" and request.server not in ("openai", "azure"):
            api = "compatible"
        if api == "anthropic" and '"type": "compaction"' in json.dumps(body):
            api = "compacted"
        kept = {name: value for name, value in body.items() if name in (*LISTS, *_OTHERS)}
        short = _short(_of_package(api, kept))
        fresh = {name: self._fresh(api, value) if name in LISTS else value for name, value in short.items()}
        if not self._fresh(api, [fresh]):
            return None
        text = json.dumps(fresh)
        self.lines.append(f"export const body_{len(self.lines)}: {TYPES[api]} = {text};")
        return len(self.lines) - 1

    def _fresh(self, api: str, items: Any) -> Any:
        if not is_array(items):
            return items
        marked = {(api, json.dumps(item, sort_keys=True)): item for item in items}
        found = [item for key, item in marked.items() if key not in self._seen]
        self._seen |= marked.keys()
        return found

    def check(self) -> dict[int, list[str]]:
        """Return the compiler's complaints by the number of a body."""
        self._folder.joinpath("package.json").write_text('{"private": true, "type": "module"}')
        self._folder.joinpath("bodies.ts").write_text(IMPORTS + "\n".join(self.lines))
        install = [self._npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", *PACKAGES]
        if subprocess.run(install, check=False, cwd=self._folder, capture_output=True).returncode:
            missing("npm cannot install the providers' packages")
        done = subprocess.run(
            [self._npx, "tsc", *_OPTIONS.split(), "bodies.ts"],
            check=False,
            cwd=self._folder,
            text=True,
            capture_output=True,
        )
        found: dict[int, list[str]] = {}
        first = IMPORTS.count("\n") + 1
        for line in done.stdout.splitlines():
            place = re.match(r"bodies\.ts\((\d+),\d+\): (error .*)", line)
            if place:
                found.setdefault(int(place[1]) - first, []).append(place[2])
            elif line.startswith(("error", "node_modules")):
                raise AssertionError(line)
        return found


def _of_package(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body as the package has it: the instruction of Gemini is in `config`."""
    if api == "gemini" and "systemInstruction" in body:
        rest = {name: value for name, value in body.items() if name != "systemInstruction"}
        return {**rest, "config": {"systemInstruction": body["systemInstruction"]}}
    return body


def _short(value: Any) -> Any:
    """Return the value with its texts cut, but for words and media types."""
    if is_object(value):
        return {
            name: dict[str, Any]()
            if name in _ANY and is_object(item)
            else item
            if _WORDS.fullmatch(name)
            else _short(item)
            for name, item in value.items()
        }
    if is_array(value):
        return [_short(item) for item in value]
    return "A text" if isinstance(value, str) else value
