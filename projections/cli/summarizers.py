"""The summarizer that a command line names: the offline digest, or an HTTP endpoint.

A wrong choice is refused before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from projections.cli.exits import UsageFault

if TYPE_CHECKING:
    from eventlog.values import Model
    from projections.window import Summarizer, SummaryRequest
    from projections.window.compaction.summarizer import Piece

__all__ = ["DIGEST", "SummarizerChoice", "choose_summarizer", "with_progress"]

DIGEST = "digest"
API_KEY = "OPENAI_API_KEY"


class SummarizerChoice(NamedTuple):
    """A summarizer, and the model to record with its summaries, if there is one."""

    summarizer: Summarizer
    model: Model | None


def choose_summarizer(
    name: str, model: str | None, key_variable: str | None, session_model: Model | None
) -> SummarizerChoice:
    """Return the summarizer of this name; raises `UsageFault` if something is missing.

    An endpoint is asked for `model`, else for the session's.
    """
    if name == DIGEST:
        for option, value in (("--summary-model", model), ("--api-key-env", key_variable)):
            if value is not None:
                raise UsageFault(f"{option} is for an endpoint: give --summarizer URL, too")

        from projections.window.compaction.offline import summarize_offline

        return SummarizerChoice(summarize_offline, None)
    if not name.lower().startswith(("http://", "https://")):
        raise UsageFault(f"--summarizer is {DIGEST!r}, or the http(s) address of an OpenAI-compatible endpoint")
    return _over_http(name, model, key_variable, session_model)


def _over_http(url: str, model: str | None, key_variable: str | None, session_model: Model | None) -> SummarizerChoice:
    from importlib.util import find_spec

    from eventlog.session.inputs import model_of
    from projections.loop import HttpSummarizer

    if find_spec("httpx2") is None:
        raise UsageFault("a summary over HTTP needs the extra `http`: pip install '.[http]'")
    if key_variable is not None and not os.environ.get(key_variable):
        from eventlog.errors.base import cut

        raise UsageFault(f"the environment variable {cut(key_variable)} that --api-key-env names is not set")
    asked = model_of(model) or session_model
    if asked is None:
        raise UsageFault("the session has no model to ask: give --summary-model")
    return SummarizerChoice(HttpSummarizer(url, model or asked.name, api_key_variable=key_variable or API_KEY), asked)


def with_progress(summarizer: Summarizer, on_progress: Callable[[int, int | None], None]) -> Summarizer:
    """Return the summarizer with `on_progress` called with the characters received so far."""

    def counting(request: SummaryRequest) -> Iterator[Piece]:
        from projections.window.compaction.summarizer import pieces

        characters = 0
        for piece in pieces(summarizer, request):
            if isinstance(piece, str):
                characters += len(piece)
                on_progress(characters, None)
            yield piece

    return counting
