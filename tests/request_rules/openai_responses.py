"""Rules of the Responses API: items, their ids, and what depends on a reasoning item."""

from __future__ import annotations

import re
from typing import Any

from tests.request_rules import common
from tests.request_rules.common import Object, objects

PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "compaction": "cmp_"}
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
CONTENT = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "developer": {"input_text"},
    "assistant": {"output_text", "refusal"},
}


def broken(body: Object, *, whole: bool = True) -> list[str]:
    """The rules that a body breaks; with `whole=False` it may be empty."""
    items = objects(body.get("input"))
    found = common.unsendable(body) + _pairs(items) + _reasoning(items, body)
    if whole and body.get("input") == []:
        found.append("there is no input")
    named = [item["id"] for item in items if item.get("id") and item.get("type") != "item_reference"]
    found += common.twice("the item", named)
    for item in items:
        if item.get("id") is not None and item.get("type") != "item_reference":
            prefix = PREFIXES.get(str(item.get("type", "message")), "")
            found += common.unfit("the item's id", item["id"], rf"(?=.{{1,64}}$){prefix}[a-zA-Z0-9_-]*")
        found += _item(item)
    return found


def _item(item: Object) -> list[str]:
    kind = item.get("type", "message")
    if kind == "message":
        return _message(item)
    if kind == "function_call":
        found = common.unfit("the call", item.get("call_id"), r"[\x21-\x7e]{1,64}")
        found += common.unfit("the tool", item.get("name"), r"[a-zA-Z0-9_-]{1,128}")
        return found + common.not_arguments(item.get("arguments"))
    if kind == "function_call_output":
        output = item.get("output")
        found = ["the output is no text"] if not isinstance(output, str) and not common.is_array(output) else []
        return found + [fault for part in objects(output) for fault in _part(part, CONTENT["user"])]
    if kind == "compaction" and not _is_long(item.get("encrypted_content"), 20_971_520):
        return ["a compaction without its cipher"]
    return []


def _message(item: Object) -> list[str]:
    role, content = item.get("role"), item.get("content")
    if role not in CONTENT:
        return [f"the role {role!r} is unknown"]
    found = ["a message has no content"] if not content else []
    if item.get("phase") is not None and (role != "assistant" or item["phase"] not in ("commentary", "final_answer")):
        found.append(f"the phase {item['phase']!r} of {role}")
    return found + [fault for part in objects(content) for fault in _part(part, CONTENT[role])]


def _part(part: Object, allowed: set[str]) -> list[str]:
    kind = part.get("type")
    if kind not in allowed:
        return [f"{kind} in a message of another role"]
    if kind == "input_image" and part.get("file_id") is None:
        data = common.data_url(url := part.get("image_url"))
        if data is None:
            return common.bad_address(url)
        found = [] if _is_long(url, 20_971_520) else ["an image is too long"]
        return found + (common.bad_data(*data) if data[0] in IMAGES else [f"an image of {data[0]}"])
    if kind == "input_file" and part.get("file_id") is None:
        if part.get("file_url") is not None:
            return common.bad_address(part["file_url"])
        data = common.data_url(text := part.get("file_data"))
        found = [] if part.get("filename") else ["a file has no name"]
        return found + (common.bad_data(*data) if data and _is_long(text, 73_400_320) else ["a file has no data"])
    if kind == "input_text" and not _is_long(part.get("text"), 10_485_760):
        return ["a text is empty or too long"]
    return []


def _is_long(text: object, most: int) -> bool:
    """Whether a text has at least one and at most so many characters."""
    return isinstance(text, str) and 0 < len(text) <= most


def _pairs(items: list[Object]) -> list[str]:
    found: list[str] = []
    made: list[Any] = [item.get("call_id") for item in items if item.get("type") == "function_call"]
    given: list[Any] = [item.get("call_id") for item in items if item.get("type") == "function_call_output"]
    found += common.twice("the call", made) + common.twice("the output", given)
    found += [f"the call {id!r} has no output" for id in made if id not in given]
    before: set[Any] = set()
    for item in items:
        if item.get("type") == "function_call":
            before.add(item.get("call_id"))
        elif item.get("type") == "function_call_output" and item.get("call_id") not in before:
            found.append(f"an output before its call {item.get('call_id')!r}")
    return found


def _reasoning(items: list[Object], body: Object) -> list[str]:
    """Faults of reasoning items and their followers; an unnamed model counts as reasoning."""
    reasons = re.match(r"$|o\d|gpt-5|codex", str(body.get("model") or "")) and not body.get("previous_response_id")
    found: list[str] = []
    open_ = False
    behind = False
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "reasoning":
            open_ = behind = True
            if body.get("store") is False and not item.get("encrypted_content"):
                found.append("reasoning without its cipher, which is not stored")
        elif kind == "function_call_output" or role in ("user", "system", "developer"):
            found += ["reasoning without its following item"] if open_ else []
            open_ = behind = False
        else:
            open_ = False
            if reasons and item.get("id") and kind in ("message", "function_call") and not behind:
                found.append(f"the item {item['id']!r} without its reasoning")
    return found + (["reasoning without its following item"] if open_ else [])
