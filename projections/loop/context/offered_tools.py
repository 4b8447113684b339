"""The tools that a window offers the model, as the session records them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventlog.errors import CallError
from eventlog.validation import each, require
from projections.window.retrieval.recall_calls import offers_recall, with_recall

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from eventlog.values import Content, Json
    from projections.loop.context.window_state import WindowState


class OfferedTools:
    """The schemas that a program gives, or those that the session has, and `recall`."""

    def __init__(self, session: Session, tools: Sequence[Mapping[str, Any]] | None, *, recall: bool) -> None:
        """`tools` None: those that the session has. `recall` adds the tool `recall`."""
        self._session = session
        self._given = None if tools is None else _json_of(tools)
        self._recall = recall
        self._offered: Content | None = None
        """The recorded tools when they were last found to be those that are wanted."""

    def record(self, state: WindowState) -> None:
        """Record the tools, unless the session has them."""
        recorded = state.conversation.tools
        if recorded is not None and recorded == self._offered:
            return
        known = None if recorded is None else self._session.text(recorded)
        wanted = known if self._given is None else self._given
        if self._recall and not offers_recall(wanted):
            wanted = with_recall(wanted)
        if wanted is not None and wanted != known:
            self._session.set_tools(wanted)
            state.catch_up()
        self._offered = state.conversation.tools


def _json_of(tools: Sequence[Mapping[str, Any]]) -> Json:
    """The schemas of tools as they are recorded."""
    rule = "tools are a list of schemas, each a mapping"
    for tool in each(tools, rule):
        require(Mapping, tool, rule)
    try:
        return json.dumps([dict(tool) for tool in tools], ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise CallError(f"{rule} of JSON values: {type(error).__name__}") from error
