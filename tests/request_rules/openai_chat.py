"""Rules of Chat Completions, and what the servers that speak it refuse."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from tests.request_rules import common
from tests.request_rules.common import Object, objects

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
CONTENT = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
"""Types of content that a role can have."""


class Server(NamedTuple):
    """Differences of a server: parts are the types of content that a user's message can have."""

    ids: str = r"[\x21-\x7e]{1,40}"
    parts: tuple[str, ...] = ("text", "image_url", "input_audio", "file")
    images: tuple[str, ...] = IMAGES
    addresses: bool = True
    reasoning: str = "ignored"
    empty_answers: bool = False
    file_addresses: bool = False
    template: tuple[str, ...] = ()


SERVERS = {
    "openai": Server(empty_answers=True),
    "azure": Server(parts=("text", "image_url", "input_audio")),
    "openrouter": Server(file_addresses=True),
    "openai-compatible": Server(empty_answers=True),
    "groq": Server(parts=("text", "image_url"), reasoning="refused"),
    "cerebras": Server(parts=("text",), reasoning="refused"),
    "mistral": Server(r"[a-zA-Z0-9]{9}", ("text", "image_url"), reasoning="refused", template=("last", "results")),
    "deepseek": Server(parts=("text",), reasoning="wanted"),
    "gemini-compatible": Server(
        parts=("text", "image_url", "input_audio"), images=(*IMAGES[:3], "image/heic", "image/heif"), addresses=False
    ),
    "llama.cpp": Server(
        parts=("text", "image_url", "input_audio"), images=(*IMAGES[:2], "image/gif"), template=("system", "turns")
    ),
    "vllm": Server(parts=("text", "image_url", "input_audio"), template=("system", "turns")),
    "ollama-compatible": Server(parts=("text", "image_url"), images=IMAGES[:3], addresses=False),
    "another": Server(
        r"[a-zA-Z0-9]{9}",
        ("text", "image_url"),
        IMAGES[:2],
        addresses=False,
        reasoning="refused",
        template=("system", "turns", "results", "last"),
    ),
}


def broken(body: Object, server: str = "openai", *, whole: bool = True) -> list[str]:
    """The rules of a server that a body breaks; with `whole=False` without a last question."""
    rules = SERVERS[server]
    messages = objects(body.get("messages"))
    calls = [call for message in messages for call in objects(message.get("tool_calls"))]
    found = common.unsendable(body) + common.twice("the call", [call.get("id") for call in calls])
    if whole and not any(message.get("role") in ("user", "tool") for message in messages):
        found.append("there is no question")
    for message in messages:
        found += _message(message, rules)
    for call in calls:
        function: Any = call.get("function") or {}
        found += common.unfit("the id", call.get("id"), rules.ids)
        found += common.unfit("the tool", function.get("name"), common.NAME)
        found += common.not_arguments(function.get("arguments"))
    return found + _order(messages) + _template(messages, rules, whole)


def _message(message: Object, rules: Server) -> list[str]:
    role, content = message.get("role"), message.get("content")
    if role not in CONTENT:
        return [f"the role {role!r} is unknown"]
    found: list[str] = []
    if content == [] or (role != "assistant" and content is None):
        found.append(f"{role} has no content")
    if role == "assistant":
        found += ["tool_calls is empty"] if message.get("tool_calls") == [] else []
        said = content or message.get("tool_calls") or message.get("refusal")
        if not said and not (rules.empty_answers and content == ""):
            found.append("assistant is empty")
        thought = message.get("reasoning_content")
        if rules.reasoning == "refused" and thought is not None:
            found.append("reasoning_content is not taken")
        if rules.reasoning == "wanted" and not thought:
            found.append("reasoning_content is wanted")
    for part in objects(content):
        kind = part.get("type")
        if kind not in CONTENT[role] or (role == "user" and kind not in rules.parts):
            found.append(f"{kind} in a message of {role}")
        elif kind == "text" and not part.get("text"):
            found.append("a text is empty")
        found += _media(part, rules)
    return found


def _media(part: Object, rules: Server) -> list[str]:
    if part.get("type") == "image_url":
        data = common.data_url(url := part["image_url"].get("url"))
        if data is None:
            return common.bad_address(url) if rules.addresses else ["addresses are not loaded"]
        return common.bad_data(*data) if data[0] in rules.images else [f"an image of {data[0]}"]
    if part.get("type") == "input_audio":
        audio = part["input_audio"]
        known = audio.get("format") in ("wav", "mp3")
        return common.bad_data("audio", audio.get("data")) + ([] if known else [f"audio of {audio.get('format')}"])
    if part.get("type") == "file" and "file_id" not in part["file"]:
        data = common.data_url(url := part["file"].get("file_data"))
        if rules.file_addresses and data is None:
            return common.bad_address(url)
        return common.bad_data(*data) if data and data[0] == "application/pdf" else ["a file that is no PDF"]
    return []


def _order(messages: list[Object]) -> list[str]:
    """Every call is answered right behind it, once, and every result answers one of them."""
    found: list[str] = []
    open_: set[Any] = set()
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_:
                found.append(f"a result without its call {message.get('tool_call_id')!r}")
            open_.discard(message.get("tool_call_id"))
        else:
            found += [f"the call {id!r} is not answered" for id in open_]
            open_ = {call.get("id") for call in objects(message.get("tool_calls"))}
    return found + [f"the call {id!r} is not answered" for id in open_]


def _template(messages: list[Object], rules: Server, whole: bool) -> list[str]:
    roles = [message.get("role") for message in messages]
    pairs = set(pairwise(role for role in roles if role != "system"))
    broken_: dict[str, tuple[bool, str]] = {
        "results": (("tool", "user") in pairs, "a user follows a result"),
        "last": (whole and roles[-1:] == ["assistant"] and not messages[-1].get("prefix"), "the assistant is last"),
        "system": ("system" in roles[1:], "system is not alone at the beginning"),
        "turns": (bool(pairs & {("user", "user"), ("assistant", "assistant")}), "one role twice in a row"),
    }
    return [broken_[name][1] for name in rules.template if broken_[name][0]]
