"""All peers in the order of the tables, and which of them are installed."""

from __future__ import annotations

from benchmarks.figures import Notes
from benchmarks.peers import event_stores, google_adk, jsonl, langgraph, openai_agents, plain_sqlite
from benchmarks.peers.base import Peer, missing

PEERS: tuple[Peer, ...] = (
    *plain_sqlite.PEERS,
    *jsonl.PEERS,
    *openai_agents.PEERS,
    *langgraph.PEERS,
    *google_adk.PEERS,
    *event_stores.PEERS,
)


def present(notes: Notes) -> list[Peer]:
    """Return the peers whose packages can be imported, and add the note of each.

    The other peers are reported as missing.
    """
    installed: list[Peer] = []
    for peer in PEERS:
        gap = missing(peer)
        if gap is None:
            installed.append(peer)
            notes.remark(peer.title, peer.note)
        else:
            notes.miss(gap)
    return installed
