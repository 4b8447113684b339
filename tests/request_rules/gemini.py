"""Rules of Gemini's `generateContent`."""

from __future__ import annotations

import re
from typing import Any

from tests.request_rules import common
from tests.request_rules.common import Object, objects

NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
FILES = (
    r"image/(png|jpeg|webp|heic|heif)|application/pdf|text/[\w.+-]+"
    r"|audio/(wav|x-wav|mp3|mpeg|aiff|aac|ogg|flac|mp4|m4a|webm|pcm|L16)"
    r"|video/(mp4|mpeg|mov|quicktime|avi|x-flv|mpg|webm|wmv|3gpp)"
)


def broken(body: Object, *, whole: bool = True) -> list[str]:
    """The rules that a body breaks; with `whole=False` it may end with the model's content."""
    contents = objects(body.get("contents"))
    roles = [content.get("role") for content in contents]
    found = common.unsendable(body)
    found += ["there are no contents"] if whole and not contents else []
    found += [f"the role {role!r} is unknown" for role in roles if role not in ("user", "model")]
    found += ["the user is not first"] if roles[:1] not in ([], ["user"]) else []
    system: Any = body.get("systemInstruction")
    if system is not None and not all(part.get("text") for part in objects(system.get("parts")) or [{}]):
        found.append("the instruction has no text")
    for content in contents:
        found += _parts(content)
    return found + _pairs(contents, whole) + _signed(contents, str(body.get("model")))


def _parts(content: Object) -> list[str]:
    parts = objects(content.get("parts"))
    found = [] if parts else ["a content has no parts"]
    for part in parts:
        kinds = part.keys() & DATA
        if len(kinds) != 1:
            found.append(f"a part has {len(kinds)} kinds of data")
        if part.get("text") == "" and not part.get("thoughtSignature"):
            found.append("a text is empty")
        if kinds & {"functionCall", "thought", "executableCode"} and content.get("role") != "model":
            found.append("a call by the user")
        if "functionResponse" in kinds and content.get("role") == "model":
            found.append("a response by the model")
        found += _call(part) + _file(part)
        signature = part.get("thoughtSignature")
        if part.get("thought") and not signature:
            found.append("a thought without its signature")
        if signature is not None:
            found += common.unfit("the signature", signature, r"[A-Za-z0-9+/_-]+=*")
    return found


def _call(part: Object) -> list[str]:
    found: list[str] = []
    for kind, member in (("functionCall", "args"), ("functionResponse", "response")):
        if common.is_object(call := part.get(kind)):
            found += common.unfit("the function", call.get("name"), NAME)
            given = call.get(member, {} if member == "args" else None)
            found += [] if common.is_object(given) else [f"{member} is no object"]
    return found


def _file(part: Object) -> list[str]:
    found: list[str] = []
    for kind in ("inlineData", "fileData"):
        if common.is_object(file := part.get(kind)):
            mime = str(file.get("mimeType"))
            found += [] if re.fullmatch(FILES, mime) else [f"a file of {mime}"]
            found += common.bad_data(mime, file.get("data")) if kind == "inlineData" else []
            if kind == "fileData" and not re.match(r"(https?|gs)://\S+$", str(file.get("fileUri"))):
                found.append("the address of a file cannot be loaded")
    return found


def _pairs(contents: list[Object], whole: bool) -> list[str]:
    found: list[str] = []
    calls: list[tuple[Any, Any]] = []
    for content in contents:
        parts = objects(content.get("parts"))
        given = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if sorted(map(str, calls)) != sorted(str((one.get("name"), one.get("id"))) for one in given):
            found.append(f"{len(calls)} calls have {len(given)} responses, or others")
        if given and len(given) != len(parts):
            found.append("responses among other parts")
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = [(one.get("name"), one.get("id")) for one in made]
    ids = [
        part["functionCall"].get("id") for one in contents for part in objects(one["parts"]) if "functionCall" in part
    ]
    found += common.twice("the call", [id for id in ids if id is not None])
    return found + ["the last calls have no responses"] * bool(calls and whole)


def _signed(contents: list[Object], model: str) -> list[str]:
    """Gemini 3 looks at the current turn: behind the newest content that is no response."""
    found: list[str] = []
    for content in reversed(contents if model.startswith("gemini-3") else []):
        parts = objects(content.get("parts"))
        if content.get("role") == "user" and not any("functionResponse" in part for part in parts):
            break
        calls = [part for part in parts if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            found.append("the first call of a step without its signature")
    return found
