"""LangGraph on a store: its checkpointer, and its store of items."""

from eventlog.adapters.langgraph.item_store import EverdeltaStore
from eventlog.adapters.langgraph.saver import FORMAT, EverdeltaSaver

__all__ = ["FORMAT", "EverdeltaSaver", "EverdeltaStore"]
