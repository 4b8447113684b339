"""A store to look at: a long talk to which all happens that can, and hostile text."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path

import eventlog
from eventlog.values import Limits, Tokens, Usage
from projections.loop import CallModel, ContextWindow, RunTools
from projections.window import ContextPolicy, PrunePolicy

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\n\n"
    "[click](javascript:document.title='owned') \x1b[31mred\x07 \u202egnp.exe \x00 <b>bold</b>\n\n"
    "שלום עולם — مرحبا بالعالم\n\n```html\n<script>document.title='owned'</script>\n```\n"
)
"""Text that tries to become markup, to steer a terminal, or to turn the writing direction."""
LARGE = 100_000_000
"""Characters of a very large output."""
_MODEL = eventlog.Model("acme", "one")
_TASKS = (
    ("Why does the import of a large file take so long?", "grep", {"pattern": "def import_", "path": "src"}),
    ("Read the importer and tell me where the time goes.", "read", {"path": "src/importer.py"}),
    ("Write the batch size into the settings file.", "edit", {"path": "settings.toml", "new": "batch = 500"}),
    ("Run the tests, please.", "bash", {"command": "pytest -q tests/test_importer.py"}),
    ("Is it faster now?", "bash", {"command": "python bench.py --rows 100000"}),
    ("Explain the change to the team.", "read", {"path": "CHANGELOG.md"}),
)


def inspected_store(path: Path, *, large: int = 2_000_000) -> None:
    """Make a store with the sessions `talk`, `talk-fork`, `helper`, `hostile`, `waiting`."""
    ticks = count(1_768_471_200_000, 40)  # on a day in January, an event each 40 ms
    with eventlog.open(path, clock=lambda: next(ticks)) as store:
        long_talk(store)
        hostile(store, large=large)
        waiting = store.create_session(id="waiting", title="A question that nobody answered", scope="bob")
        waiting.user("Is anybody there?")


def long_talk(store: eventlog.Store, *, rounds: int = 18) -> None:
    """Add a talk that was pruned, compacted, rolled back and forked, with a sub-session."""
    session = store.create_session(id="talk", title="Why the import is slow", scope="alice", model=_MODEL)
    session.set_settings(limits=Limits(14_000, 2_000))
    session.set_system_prompt("You help with a program that imports files. Answer shortly; show code where it helps.")
    session.set_tools(json.dumps([{"name": name} for name in ("grep", "read", "edit", "bash")]))
    policy = ContextPolicy(prune=PrunePolicy(policy="recency", trigger=0.0))
    with ContextWindow(session, policy, model=_MODEL, limits=Limits(14_000, 2_000)) as window:
        for round in range(rounds):
            question, tool, given = _TASKS[round % len(_TASKS)]
            asked = session.user(f"{question} (round {round + 1})")
            _answer(window, tool, given, round)
            if round in {rounds // 3, rounds - 3}:
                window.compact()
            if round == rounds // 2:
                session.rollback(before=asked)
                fork = store.fork(session, session.version, id="talk-fork", title="The same with a larger batch")
                fork.user("Try a batch of 5,000 instead.")
                helper = session.subsession(id="helper", title="Look for other slow imports", agent="explorer")
                helper.user("Look for other places that import slowly.")
                with helper.assistant(_MODEL) as reply:
                    reply.add_text("There is one more, in `sync.py`.")
                    reply.finish()


def _answer(window: ContextWindow, tool: str, given: dict[str, str], round: int) -> None:
    """Let the loop run: one call, then the answer."""
    calls = 0
    while step := window.next_step():
        match step:
            case CallModel():
                reply, request = window.begin(step)
                tokens = window.tokens
                usage = Usage(Tokens(tokens // 3, 120, 0, tokens - tokens // 3, 0), Decimal("0.0042"))
                if not calls:
                    thought = reply.stream_reasoning()
                    for piece in ("The user asks about ", "the importer. ", "I look first."):
                        thought.append(piece)
                    thought.end()
                    reply.tool(tool, call_id=f"c{round}").stream_input(json.dumps(given))
                    reply.end_step("tool-calls", usage=usage)
                    calls += 1
                else:
                    text = reply.stream_text()
                    for piece in _words(round, len(request.messages)):
                        text.append(piece)
                    text.end()
                    reply.finish("stop", usage=usage)
            case RunTools():
                for call in step.calls:
                    output = "\n".join(
                        f"{line:4} result of {call.tool}: line {line} of round {round}" for line in range(160)
                    )
                    window.run(call, partial(_printed, output))
                window.finish()
            case _:
                window.perform(step)


def _printed(output: str, given: object) -> str:
    del given
    return output


def _words(round: int, messages: int) -> list[str]:
    text = (
        f"It took **{round + 1}.{messages} seconds** before.\n\n"
        "1. Each row was its own transaction.\n2. The index was kept up to date row by row.\n\n"
        "```python\nfor batch in batches(rows, size=500):\n    with store.transaction():\n        store.add_many(batch)\n```\n\n"
        "| rows | before | after |\n|---|---|---|\n| 1,000 | 2.1 s | 0.1 s |\n| 100,000 | 210 s | 9 s |\n"
    )
    return [text[start : start + 12] for start in range(0, len(text), 12)]


def hostile(store: eventlog.Store, *, large: int) -> None:
    """Add a session whose every text tries something, with one very large output."""
    session = store.create_session(id="hostile", title="<b>bold</b> \u202etitle\x07", scope="<script>")
    session.user(HOSTILE, id="h-user")
    with session.assistant("evil/<i>model</i>", id="h-answer") as reply:
        reply.step()
        reply.stream_reasoning().append(HOSTILE)
        call = reply.tool("<img src=x>", call_id="h1", input={"command": HOSTILE}, id="h-call")
        line = "<script>document.title='owned'</script> an output line that goes on and on \u202e\n"
        call.succeed(line * (large // len(line)), title=HOSTILE[:60])
        reply.add_text(HOSTILE)
        reply.finish()
