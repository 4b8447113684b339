"""An agent of deepagents, with checkpoints and long-term memory in one store."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.support.engines import Engine

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies warn of each other
    import deepagents
    from deepagents.backends import StoreBackend
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from eventlog.adapters.langgraph import EverdeltaSaver, EverdeltaStore
from projections import ModelView
from tests.adapters.langchain_lists import listed, viewed

CONFIG: Any = {"configurable": {"thread_id": "deep"}}


class Scripted(BaseChatModel):
    """A model that writes a file, reads it, and says what was in it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return the model itself."""
        del tools, options
        return self

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        del stop, run_manager, options
        since = next(place for place, one in enumerate(reversed(messages)) if isinstance(one, HumanMessage))
        name = f"/note{sum(isinstance(one, HumanMessage) for one in messages)}.md"
        call: dict[str, Any] | None = None
        if since == 0:
            call = {"name": "write_file", "args": {"file_path": name, "content": "tides"}, "id": f"w{len(messages)}"}
        elif since == 2:
            call = {"name": "read_file", "args": {"file_path": name}, "id": f"r{len(messages)}"}
        said = AIMessage("" if call else f"read {messages[-1].content}", tool_calls=[call] if call else [])
        return ChatResult(generations=[ChatGeneration(message=said)])


@pytest.mark.filterwarnings("default")
def test_deep_agent_on_both(engine: Engine) -> None:
    """Files of the agent are items, its messages are the view at every checkpoint."""
    create: Any = getattr(deepagents, "create_deep_agent")  # noqa: B009 - its types are not known in part
    for turn in range(3):
        store = engine.open()
        saver, items = EverdeltaSaver(store), EverdeltaStore(store)
        backend = StoreBackend(namespace=lambda _: ("files",))
        agent = create(model=Scripted(), checkpointer=saver, store=items, backend=backend)
        agent.invoke({"messages": [HumanMessage(f"note {turn}")]}, CONFIG)
        messages = agent.get_state(CONFIG).values["messages"]
        assert len(messages) == 6 * (turn + 1)
        assert "tides" in messages[-1].content
        assert viewed(ModelView.of(saver.session("deep"))) == listed(messages)
        for state in agent.get_state_history(CONFIG):
            view = ModelView.of(saver.session("deep"), at=saver.version(state.config))
            assert viewed(view) == listed(state.values.get("messages", []))
        assert len(items.search(("files",))) == turn + 1
