"""Rules of servers of Chat Completions and of Gemini, from documentation and refusals."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple, cast

from tests.support.provider_rules import is_array, is_object, repeated, unsendable

Object = dict[str, Any]


class Server(NamedTuple):
    """The rules of a server of Chat Completions, as tests know them."""

    reasoning: bool = False
    data: str = ""
    """Pattern of the types that are accepted as bytes."""
    addresses: bool = False
    one_system: bool = False
    alternates: bool = False
    ids: str = r"[\x21-\x7e]{1,40}"
    empty: bool = False
    bridged: bool = False
    """Whether a user message behind results is refused."""


IMAGES = "image/(png|jpeg|gif|webp)"
SERVERS = {
    "openai-compatible": Server(True, f"{IMAGES}|audio/.*|application/pdf", True, empty=True),
    "openai": Server(False, f"{IMAGES}|audio/.*|application/pdf", True),
    "azure": Server(False, f"{IMAGES}|audio/.*", True),
    "openrouter": Server(True, f"{IMAGES}|audio/.*|application/pdf", True),
    "groq": Server(False, IMAGES, True),
    "deepseek": Server(True),
    "mistral": Server(False, IMAGES, True, ids="[A-Za-z0-9]{9}", bridged=True),
    "gemini-compatible": Server(False, "image/(png|jpeg|webp|heic|heif)|audio/.*"),
    "llama.cpp": Server(True, "image/(png|jpeg|gif)|audio/.*", True, one_system=True, alternates=True),
    "vllm": Server(True, f"{IMAGES}|audio/.*", True, one_system=True, alternates=True),
    "ollama-compatible": Server(False, "image/(png|jpeg|webp)", one_system=True),
    "a server of one's own": Server(
        False, "image/(png|jpeg)", one_system=True, alternates=True, ids="[A-Za-z0-9]{9}", bridged=True
    ),
}


def chat_faults(messages: list[Object], server: str = "openai-compatible") -> list[str]:
    """Faults of Chat Completions messages for a server."""
    rules = SERVERS[server]
    faults = unsendable(messages)
    waiting: list[str] = []
    used: list[str] = []
    for before, message in pairwise([{"role": ""}, *messages]):
        role = message["role"]
        if role not in {"system", "user", "assistant", "tool"}:
            faults.append(f"the role {role}")
        faults += _chat_message(message, rules)
        if rules.alternates and role == before["role"] in {"user", "assistant"}:
            faults.append(f"two messages of {role} in a row")
        if rules.one_system and role == before["role"] == "system":
            faults.append("two system messages")
        if rules.bridged and role == "user" and before["role"] == "tool":
            faults.append("the user follows results")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                faults.append("an answer without a call")
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            faults.append(f"{role} speaks before {waiting} are answered")
        calls = cast("list[Object]", message.get("tool_calls") or [])
        waiting = [call["id"] for call in calls]
        used += waiting
    faults += [f"the id {name} is used twice" for name in repeated(used)]
    return faults + ([f"calls {waiting} are not answered"] if waiting else [])


def _chat_message(message: Object, rules: Server) -> list[str]:
    role, content = message["role"], message["content"]
    calls: list[Object] | None = message.get("tool_calls")
    faults = ["an empty message"] if not content and not calls and role != "tool" else []
    if rules.empty and role == "assistant" and content == "":
        faults = []
    if "reasoning_content" in message and not rules.reasoning:
        faults.append("reasoning that is refused")
    faults += ["no calls"] if calls == [] else []
    for call in calls or []:
        function: Object = call.get("function", {"name": "x", "arguments": "{}"})
        if not re.fullmatch(rules.ids, call["id"]) or not re.fullmatch("[A-Za-z0-9_-]{1,64}", function["name"]):
            faults.append(f"the id or name of a call: {call['id']!r}, {function['name']!r}")
        if not is_object(parsed(function["arguments"])):
            faults.append("arguments that are no object")
    for part in content if is_array(content) else []:
        faults += [f"{part['type']} in {role}"] if role != "user" else _chat_part(part, rules)
    return faults


def _chat_part(part: Object, rules: Server) -> list[str]:
    if part["type"] == "text":
        return [] if part["text"] else ["an empty text"]
    if part["type"] == "input_audio":
        return [] if re.fullmatch(rules.data, "audio/x") else ["audio that is refused"]
    url = part["image_url"]["url"] if part["type"] == "image_url" else part["file"].get("file_data", "data:x;base64,")
    if url.startswith(("http://", "https://")):
        return [] if rules.addresses else ["an address that is refused"]
    mime = url.removeprefix("data:").partition(";base64,")[0]
    return [] if "file_id" in part.get("file", {}) or re.fullmatch(rules.data, mime) else [f"the file {url[:30]!r}"]


def parsed(text: str) -> Any:
    """The value of a JSON text; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def gemini_faults(request: Object) -> list[str]:
    """Faults of a `generateContent` request."""
    contents: list[Object] = request["contents"]
    faults = unsendable(request)
    if contents and contents[0]["role"] != "user":
        faults.append("the user does not begin")
    waiting: list[tuple[str, Any]] = []
    for content in contents:
        parts: list[Object] = content["parts"]
        faults += [] if parts else ["a content without parts"]
        faults += [] if content["role"] in {"user", "model"} else [f"the role {content['role']}"]
        answers = [
            (part["functionResponse"]["name"], part["functionResponse"].get("id"))
            for part in parts
            if "functionResponse" in part
        ]
        if answers != waiting or (answers and len(answers) != len(parts)):
            faults.append(f"calls {waiting} are answered by {answers}")
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        faults += ["a call by the user"] if calls and content["role"] == "user" else []
        waiting = [(call["name"], call.get("id")) for call in calls]
        for call in calls:
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_-]{0,63}", call["name"]) or not is_object(call["args"]):
                faults.append(f"the name or arguments of a call: {call['name']!r}")
        for part in parts:
            faults += ["an empty text"] if part.get("text", "x") == "" and "thoughtSignature" not in part else []
            faults += ["a thought without a signature"] if "thought" in part and "thoughtSignature" not in part else []
            file: Object = part.get("inlineData") or part.get("fileData") or {}
            mime = file.get("mimeType", "text/x")
            faults += [] if GEMINI.fullmatch(mime) else [f"a file of {mime}"]
    return faults + ([f"calls {waiting} are not answered"] if waiting else [])


GEMINI = re.compile("image/(png|jpeg|webp|heic|heif)|application/pdf|(audio|video|text)/.*")
