"""Who writes the summary of a compaction, as named on the command line: the offline digest, or an endpoint.

Everything that can be wrong with what was named is found here, before anything is written.
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

__all__ = ["DIGEST", "Chosen", "choose", "watched"]

DIGEST = "summarize_offline"
API_KEY = "OPENAI_API_KEY"


class Chosen(NamedTuple):
    """A summariser, and the model to be recorded with its summaries, if it was named."""

    summarizer: Summarizer
    model: Model | None


def choose(named: str, model: str | None, key_variable: str | None, session_model: Model | None) -> Chosen:
    """The summariser of this name.  `session_model` is asked when no other model is named; `UsageFault` says what is missing."""
    if named == DIGEST:
        for option, value in (("--summary-model", model), ("--api-key-env", key_variable)):
            if value is not None:
                raise UsageFault(f"{option} is for an endpoint: give --summarizer URL, too")
        from projections.window.compaction.offline import summarize_offline

        return Chosen(summarize_offline, None)
    if not named.lower().startswith(("http://", "https://")):
        raise UsageFault(f"--summarizer is {DIGEST!r}, or the http(s) address of an OpenAI-compatible endpoint")
    return _over_http(named, model, key_variable, session_model)


def _over_http(url: str, model: str | None, key_variable: str | None, session_model: Model | None) -> Chosen:
    from importlib.util import find_spec

    from eventlog.session.inputs import model_of
    from projections.window import HttpSummarizer

    if find_spec("httpx2") is None:
        raise UsageFault("a summary over HTTP needs the extra `http`: pip install 'everdelta[http]'")
    if key_variable is not None and not os.environ.get(key_variable):
        from eventlog.errors import cut

        raise UsageFault(f"the environment variable {cut(key_variable)} that --api-key-env names is not set")
    asked = model_of(model) or session_model
    if asked is None:
        raise UsageFault("the session has no model to ask: give --summary-model")
    return Chosen(HttpSummarizer(url, model or asked.name, api_key_variable=key_variable or API_KEY), asked)


def watched(summarizer: Summarizer, told: Callable[[int, int | None], None]) -> Summarizer:
    """The same summariser; `told` learns how many characters of the summary have come."""

    def watching(request: SummaryRequest) -> Iterator[Piece]:
        from projections.window.compaction.summarizer import pieces

        for piece in pieces(summarizer, request):
            if isinstance(piece, str):
                watching_at[0] += len(piece)
                told(watching_at[0], None)
            yield piece

    watching_at = [0]
    return watching
