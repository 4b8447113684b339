"""A compaction that a provider made is told wherever those of the program are."""

from __future__ import annotations

from eventlog import Opaque
from eventlog.store import Store
from projections.exports.html import html_pieces
from projections.inspector import answers
from projections.inspector.catalogue import Catalogue
from projections.inspector.room import Room
from projections.inspector.window_series import sample
from projections.loop.context.report import window_report
from projections.loop.context.window import ContextWindow
from projections.reports.stats import session_stats
from projections.reports.timeline import timeline


def test_a_compaction_of_the_provider_is_told(store: Store) -> None:
    """Timeline, counts, jumps, the window over time and exports have it by one name."""
    session = store.create_session(id="opaque")
    for number in range(2):
        session.user("go on")
        with session.assistant("openai/gpt-5") as reply:
            reply.step()
            reply.part(Opaque("openai.compaction", '{"encrypted_content":"c"}', "openai/gpt-5"), id=f"k{number}")
            reply.add_text("more")
            reply.finish()
    told = [entry for entry in timeline(session).entries if entry.kind == "provider-compaction"]
    assert [(entry.number, entry.what) for entry in told] == [(1, "k0, for openai/gpt-5"), (2, "k1, for openai/gpt-5")]
    assert session_stats(session).parts["provider-compaction"] == 2
    room = Room(store, "opaque")
    jumps = answers.history(room, {}, Catalogue(store))["jumps"]
    versions = [entry.version for entry in told]
    assert [jump["version"] for jump in jumps if jump["kind"] == "provider-compaction"] == versions
    assert {*versions, *(version - 1 for version in versions)} <= {*sample(room.history)}
    kinds = [part["kind"] for message in answers.messages(room, {})["messages"] for part in message["parts"]]
    assert kinds.count("provider-compaction") == 2
    scenes = answers.events_to_play(room, {})["scenes"]
    assert [scene["v"] for scene in scenes if scene.get("kind") == "provider-compaction"] == versions
    assert window_report(ContextWindow(session)).compaction is not None  # which covers them again
    assert "".join(map(str, html_pieces(session))).count("<b>provider-compaction</b>") == 2
