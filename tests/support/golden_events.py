"""The events of the golden files: every kind, every field set, a delta run; never change.

`python -m tests.support.golden_events` writes the files of the current schema version into
`tests/golden/` where they are missing; existing ones are what they are, because digests are taken
over these bytes.
"""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from pathlib import Path

from eventlog import events as ev
from eventlog.codec.batch import Item, encode
from eventlog.codec.deltas import DeltaRun
from eventlog.values import (
    Agent,
    Attachment,
    Body,
    File,
    Limits,
    MessageError,
    Model,
    Opaque,
    Origin,
    Patch,
    Reasoning,
    Retry,
    Snapshot,
    Source,
    Subtask,
    Text,
    Todo,
    Tokens,
    Tool,
    Truncation,
    Usage,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TIME = 1_700_000_000_000
MODEL = Model("anthropic", "claude")
BODY = Body(bytes(range(32)), 5000, 4321)
SOURCE = Source("symbol", "a.py", 3, 9, "@a", "a", (1, 2, 3, 4), "mcp", 12)
ERROR = MessageError("api", "overloaded", '{"status":529}')
USAGE = Usage(Tokens(10, 20, 30, 40, 50, 150), Decimal("0.000123"))

EVENTS: tuple[ev.Event, ...] = (
    ev.SessionStarted(
        "title", "scope", "/work", "build", MODEL, "parent", Origin("opencode", "ses_1", "f.json", "1.18")
    ),
    ev.SessionForked("parent", 7, b"\x01\x02", "title", "scope", Origin("claude-code", "x")),
    ev.SessionRenamed("naïve \U0001f600 中"),
    ev.SessionArchived(),
    ev.SessionUnarchived(),
    ev.MetadataSet("key", '{"n":1.50}'),
    ev.SettingsSet(MODEL, Limits(200_000, 32_000, 180_000), '{"policy":1}'),
    ev.SystemPromptSet(BODY, "rest"),
    ev.ToolsSet("[]"),
    ev.TodosSet((Todo("do", "pending", "high", "1"), Todo("done"))),
    ev.Pinned("pin", "fact", None),
    ev.Unpinned("pin"),
    ev.UserMessageAdded(
        "m1", "build", MODEL, "high", "system", '{"bash":true}', '{"type":"json"}', True, "queue", "p13"
    ),
    ev.MessagePromoted("m1"),
    ev.AssistantMessageStarted("m2", "m1", "build", "plan", MODEL, "high", "/cwd", "/root", True, 7),
    ev.MessageFinished("m2", "stop", ERROR),
    ev.MessageRemoved("m2"),
    ev.PartStarted("m1", "p1", Text("hello", True, True, "{}")),
    ev.PartStarted("m2", "p2", Reasoning(BODY, '{"signature":"s"}')),
    ev.PartStarted("m2", "p3", Tool("call_1", "bash", True, "{}")),
    ev.PartStarted("m1", "p4", File("image/png", BODY, "a.png", SOURCE, True, "{}")),
    ev.PartStarted("m1", "p5", Subtask("prompt", "what", "explore", MODEL, "cmd", "ses_2")),
    ev.PartStarted("m1", "p6", Agent("plan", SOURCE)),
    ev.PartStarted("m2", "p7", Snapshot("abc123")),
    ev.PartStarted("m2", "p8", Patch("abc123", ("a.py", "b.py"))),
    ev.PartStarted("m2", "p9", Retry(2, ERROR)),
    ev.PartStarted("m2", "p16", Opaque("openai.compaction", BODY, "a/b at eu", "all of it", ("m1",))),
    ev.PartDelta("p2", "text", "delta"),
    ev.PartEnded("p2", '{"signature":"s"}'),
    ev.PartEdited("p2", BODY),
    ev.PartRemoved("p2"),
    ev.ToolRunning("p3", '{"command":"ls"}', "List", "{}"),
    ev.ToolProgress("p3", "Listing", "{}"),
    ev.ToolCompleted(
        "p3",
        BODY,
        Truncation("preview", 100, 5000, "both"),
        "List",
        "{}",
        (Attachment("image/png", BODY, "a.png", "att", SOURCE),),
    ),
    ev.ToolFailed("p3", "error", True, "output", "{}"),
    ev.CallAsked("p3", '{"command":"rm"}', "removes files", b"\x0a" * 16, b"\xaa" * 32, b"\xab" * 32),
    ev.CallAnswered("p3", 31, "allow", "ann", "once", '{"command":"ls"}', b"\xac" * 32),
    ev.StepStarted(
        "m2",
        "p10",
        "summary",
        12,
        b"\xff" * 32,
        '{"renderer":"neutral"}',
        "snap",
        1_234,
        '{"system":[]}',
        "a/b at eu",
        '{"name":"anthropic/1","cache":"prefix"}',
        b"\xee" * 32,
    ),
    ev.StepFinished("m2", "p11", "stop", "snap"),
    ev.UsageRecorded(USAGE, "m2", "p11", MODEL, "title", True, "2026-11-01"),
    ev.Pruned(("p3", "p12"), "opencode-1.18", 20_000, ("p12",)),
    ev.Restored(("p3",), ("p12",)),
    ev.MediaReplaced("p4", "image/png", "a.png", "image exceeds 5 MB", "anthropic/claude"),
    ev.MediaRestored("p4", "anthropic/claude"),
    ev.CompactionRequested("m1", "p13", True, True),
    ev.CompactionStarted("p13", "m1", "m2", 150_000, MODEL, b"\x00" * 32, ("m0",)),
    ev.CompactionCompleted("p13", "m3", 9_000),
    ev.CompactionFailed("p13", "interrupted", "m3"),
    ev.CompactionUndone("p13"),
    ev.RolledBack(5),
    ev.InterruptRequested("stop"),
    ev.Settled(4, "interrupted"),
    ev.PartRedacted("p1", "secret"),
    ev.SessionErased("asked"),
    ev.ForeignKept("line:3", '{"x":1}'),
    ev.Custom("app.example", '{"y":2}'),
    ev.ShelfStarted("cache"),
    ev.ValuePut("key", "text"),
    ev.ValuePut("key", BODY),
    ev.ValuePut("key", None, b"\x00\xff"),
    ev.ValuePut("key", None, BODY),
    ev.ValueDropped("key"),
    ev.NameGiven("langgraph", "thread-1"),
    ev.NameFreed("langgraph", "thread-1"),
    ev.NoteSet("a note"),
    ev.RecordKept("openai", '{"role":"user","content":null}', 2, '[[[0,"content"],[1,"text"]]]'),
    ev.RecordForgotten(((3, 6), (8, 9))),
)
"""One of every kind, and every kind of part."""


RUN = (
    (TIME + 3, ev.PartDelta("p2", "text", "Hel")),
    (TIME + 3, ev.PartDelta("p2", "text", "lo, 中\U0001f600")),
    (TIME + 700, ev.PartDelta("p3", "input", '{"command"')),
    (TIME + 650, ev.PartDelta("p2", "text", "x" * 300)),
)
"""Deltas of two parts, with a clock set back and a long gap."""


def batches() -> dict[str, bytes]:
    """The batches of the current schema version by file name."""
    every: list[Item] = [(TIME + number, event) for number, event in enumerate(EVENTS)]
    run = DeltaRun.from_deltas(RUN, TIME)
    odd: list[Item] = [(TIME, ev.SessionRenamed("\ud800\U0010ffff0041"))]
    return {
        f"schema-{ev.SCHEMA}-events.msgpack": encode(every, TIME),
        f"schema-{ev.SCHEMA}-run.msgpack": encode([run], TIME),
        f"schema-{ev.SCHEMA}-escaped.msgpack": encode(odd, TIME),
    }


DIGESTS: dict[str, str] = {
    "schema-1-events.msgpack": "293d7f58c0ccb0609fd38d9f85db670a620c06fad2e4a4703076e4b6837f863a",
    "schema-1-run.msgpack": "aebb51252476873c46b9dd399d3ece8939e20e21e189deb1ec370e90a9bbc6f6",
    "schema-1-escaped.msgpack": "56202fe041cb68f2ba7a9a0fbdfc6a08d24fc2ed4247fdc3e7547b8e6c830409",
}
"""SHA-256 of every golden file, so that a file cannot be written anew by accident."""


if __name__ == "__main__":
    for name, payload in batches().items():
        path = GOLDEN / name
        if not path.exists():
            path.write_bytes(payload)
        print(f'    "{name}": "{sha256(path.read_bytes()).hexdigest()}",')
