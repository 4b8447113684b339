"""LangGraph on a store: its checkpointer, and its store of items."""

from eventlog.adapters.langgraph.item_store import EverdeltaStore
from eventlog.adapters.langgraph.saver import EverdeltaSaver
from eventlog.adapters.langgraph.threads import FORMAT

__all__ = ["FORMAT", "EverdeltaSaver", "EverdeltaStore"]
