"""The tool `task`: a model gives work to a sub-session, whose answer is the call's result.

The id of the sub-session follows from the call, so the work goes on in it after a crash. A call
that a crash settled as interrupted gets its result as a late one, and the model sees it as if
nothing had happened. `ContextWindow.run_task` is what programs call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from eventlog.errors import CallError, LeaseHeldError, NotFoundError, StopError
from eventlog.errors.base import brief
from eventlog.session.failure import is_disconnect
from eventlog.session.session import Session
from eventlog.session.subsessions import subsession_in
from eventlog.session.tool_functions import functions_in, parameters_of
from eventlog.validation import each, json_value, require, require_or_none
from eventlog.values import Json, Model
from projections.window.retrieval.part_text import read_message
from projections.window.retrieval.tool_schemas import ToolForm, schema_of

TASK = "task"
"""Name of the tool, and of the calls that stand for subtasks."""
DESCRIPTION = (
    "Give a piece of work to another agent. It works on its own, sees nothing of this conversation, and its last message is the result."
    " Several calls in one message run side by side."
)
PROMPT = "The work, with all that the agent has to know, and what its last message is to say."


def task_tool(form: ToolForm = "chat", agents: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The schema for Chat Completions, Responses, Anthropic Messages or Gemini.

    For Gemini: one of the `functionDeclarations`.
    `agents` are the names that the model may choose from, with what each is good at; without them
    it chooses none.
    """
    require_or_none(Mapping, agents, "agents are a mapping of names to what each is good at")
    properties: dict[str, Any] = {
        "description": {"type": "string", "description": "What the work is, in three to five words."},
        "prompt": {"type": "string", "description": PROMPT},
    }
    if agents:
        for name, use in agents.items():
            require(str, name, "an agent is named by a str")
            require(str, use, "what an agent is good at is a str")
        listed = "; ".join(f"{name}: {use}" for name, use in agents.items())
        properties["subagent_type"] = {"type": "string", "enum": [*agents], "description": f"Who does it. {listed}"}
    properties["task_id"] = {
        "type": "string",
        "description": "The id of an earlier task that is to go on; leave it out for new work.",
    }
    required = [name for name in properties if name != "task_id"]
    parameters = {"type": "object", "properties": properties, "required": required}
    return schema_of(form, TASK, DESCRIPTION, parameters)


class TaskRequest(NamedTuple):
    """The arguments of a `task` call, read."""

    prompt: str
    description: str = ""
    agent: str = ""
    session: str = ""
    """The sub-session that is to go on; "" for a new one."""
    model: Model | None = None
    """The model that the user wants for the work; the model's own calls name none."""

    @classmethod
    def read(cls, given: Json) -> TaskRequest:
        """Read the arguments of a call; `CallError` says what is wrong with them."""
        try:
            found: object = json_value(given)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CallError(f"the arguments are not a JSON object: {given[:200]}")
        fields: list[str] = []
        for name in ("prompt", "description", "subagent_type", "task_id"):
            value = cast("dict[str, object]", found).get(name) or ""
            if not isinstance(value, str):
                raise CallError(f"{name} is a {type(value).__name__}; give a text")
            fields.append(value)
        if not fields[0].strip():
            raise CallError("prompt is empty; give the work as a text")
        prompt, description, agent, session = fields
        return cls(prompt, description, agent, session)

    @property
    def arguments(self) -> Json:
        """The arguments of a call that asks for this work."""
        given = {"description": self.description, "prompt": self.prompt, "subagent_type": self.agent}
        return json.dumps(given, ensure_ascii=False)


def open_task(parent: Session, call: str, asked: TaskRequest, agents: Sequence[str] = ()) -> Session:
    """Return the sub-session of a call: begun now, found again, or the one that is to go on.

    `CallError` for an agent that is not one of `agents`, if there are any, and for a wrong id.
    """
    if agents and asked.agent not in agents:
        raise CallError(f"there is no agent {brief(asked.agent)}; there are {', '.join(agents)}")
    if asked.session:
        try:
            child = parent.store.session(asked.session)
        except NotFoundError:
            child = None
        if child is None or child.info.parent != parent.id:
            raise CallError(f"there is no task {asked.session[:80]} of this session; leave task_id out for new work")
        return child
    name = subsession_id(parent.id, call)
    try:
        return parent.store.session(name)
    except NotFoundError:
        return parent.subsession(id=name, title=asked.description, agent=asked.agent)


def subsession_id(parent: str, part: str) -> str:
    """The id of the sub-session that does the work of a part."""
    return f"{parent[:200]}-{part[-40:]}"


def agents_in(tools: Json | None) -> tuple[str, ...]:
    """The agents that the recorded `task` tool lets a model choose from; () if it lists none."""
    for tool in functions_in(tools):
        if tool.get("name") != TASK:
            continue
        found: object = parameters_of(tool)
        for key in ("properties", "subagent_type", "enum"):
            found = cast("dict[str, object]", found).get(key) if isinstance(found, dict) else None
        return tuple(map(str, cast("list[object]", found))) if isinstance(found, list) else ()
    return ()


def is_task(tool: str, metadata: Json | None) -> bool:
    """Whether a call was begun by `ContextWindow.run_task`, not by a tool of the same name."""
    return tool == TASK and subsession_in(metadata) is not None


def task_answer(child: Session, answer: str) -> str:
    """The result of a call: the answer, and the id by which the model can let the work go on."""
    return f'<task id="{child.id}" state="completed">\n<task_result>\n{answer}\n</task_result>\n</task>'


def breaks_off(error: Exception, *, resumed: bool = False) -> bool:
    """Whether work that ended with this error goes on later, so that it is no result.

    A broken connection, a lease that is lost, and of work that another process left a lease that
    this other process still holds.
    """
    return is_disconnect(error) or isinstance(error, StopError) or (resumed and isinstance(error, LeaseHeldError))


def answer_text(session: Session, replies: Sequence[str]) -> str:
    """Return the last text that a turn's replies say (`turn.answer`); "" if they say none.

    Only these replies are read, however long the history is.
    """
    require(Session, session, "an answer is that of a Session")
    for name in reversed(each(replies, "replies are a list of ids, as `turn.answer` has them")):
        require(str, name, "a reply is named by its id, a str")
        parts = read_message(session, name).parts
        said = [part.text for part in parts if part.kind == "text" and not part.removed and part.text]
        if said:
            return said[-1]
    return ""
