"""Options of commands about the context window, and the window that they ask for.

An option overrides what the session recorded, for this one command; nothing of it is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from click import Choice, option

from projections.cli.exits import Fault
from projections.cli.words import flag, integer

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.values import Model
    from projections.loop import ContextWindow

UNKNOWN = "the size of the model's window is unknown; give --context"
"""Shown where numbers would depend on the size."""


_OPTIONS = (
    option(
        "--preset",
        type=Choice(["default", "opencode-1.18"]),
        help="The context policy [default: as recorded, else default].",
    ),
    integer("--context", help="Size of the model's window in tokens, 0 for unlimited [default: as recorded]."),
    integer("--output", least=1, help="Longest answer in tokens [default: as recorded]."),
    integer("--input", least=1, help="Longest request in tokens, if the model limits it separately."),
    option(
        "--model",
        metavar="ID",
        help="Model of the next request, as provider/name, or the name of a model that the session has "
        "[default: as recorded].",
    ),
)


def WINDOW(function: Any) -> Any:  # noqa: N802  # a decorator as those of `words.py`
    """Return a command's function with the options that `window_of` takes."""
    for decorate in reversed(_OPTIONS):
        function = decorate(function)
    return function


POLICY = option(
    "--policy",
    type=Choice(["recency", "superseded", "cost-aware", "opencode"]),
    help="Which planner chooses the results to prune [default: that of the context policy].",
)
INSIDE = flag("--inside", help="As inside a loop: protect the newest steps instead of the newest turns.")


def window_of(session: Session, *, preset: str | None, model: str | None, **numbers: int | None) -> ContextWindow:
    """Return the session's window with the values of these options; None is one not given."""
    from eventlog.values import Limits
    from projections.loop import ContextWindow

    named = None if model is None else model_named(session, model)
    limits = None
    if named is not None and named not in session.store.host.models:
        limits = ContextWindow(session).state.limits or Limits()
    window = ContextWindow(session, preset, model=named, limits=limits)
    if all(value is None for value in numbers.values()):
        return window
    base = window.state.limits or Limits()
    if numbers["context"] is None and not base.context:
        raise Fault("--output and --input need --context: neither session nor catalogue has the model's window")
    limits = Limits(**{name: getattr(base, name) if value is None else value for name, value in numbers.items()})
    return ContextWindow(session, preset, model=named, limits=limits)


def model_named(session: Session, name: str) -> Model:
    """Return the model `provider/name`, or the session's model with this name alone.

    A name alone that the session does not have is refused: for a model that wrote nothing, the view
    would show all reasoning as text.
    """
    from eventlog.values import Model
    from projections.view.model_view import models_of

    provider, slash, own_name = name.partition("/")
    if slash:
        return Model(provider, own_name)
    models = models_of(session)
    matching = [model for model in models if model.name == name]
    if len(matching) == 1:
        return matching[0]
    from eventlog.errors.base import cut

    listed = ", ".join(map(str, matching or models)) or "none"
    problem = f"more than one model is called {cut(name)}" if matching else f"the session has no model {cut(name)}"
    raise Fault(f"{problem} (it has {listed}); give --model as provider/name")
