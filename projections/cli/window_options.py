"""Options of commands about the context window, and the window that they ask for.

An option overrides what the session recorded, for this one command; nothing of it is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from click import Choice, option

from projections.cli.exits import UsageFault
from projections.cli.words import flag, integer

if TYPE_CHECKING:
    import click

    from eventlog import Session
    from eventlog.values import Model
    from projections.loop import ContextWindow

UNKNOWN = "the size of the model's window is unknown; give --context"
"""Shown where numbers would depend on the size."""


class WindowOptions(NamedTuple):
    """Values of the options that say which window is meant; None for those not given."""

    preset: str | None = None
    context: int | None = None
    output: int | None = None
    input: int | None = None
    model: str | None = None


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


def WINDOW(function: Any) -> Any:  # noqa: N802  # a decorator as those of `options.py`
    """Return a command's function with the fields of `WindowOptions` as its options."""
    for decorate in reversed(_OPTIONS):
        function = decorate(function)
    return function


def _planner_name(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    """Return the name of a planner; raises `UsageFault` for another name."""
    from projections.window.prune.planners import PLANNERS

    if name is not None and name not in PLANNERS:
        from eventlog.errors.base import brief

        raise UsageFault(f"--policy knows no {brief(name)}; there are {', '.join(PLANNERS)}")
    return name


POLICY = option(
    "--policy",
    metavar="NAME",
    callback=_planner_name,
    help="Which planner chooses the results to prune: recency, superseded, cost-aware or opencode "
    "[default: that of the context policy].",
)
INSIDE = flag("--inside", help="As inside a loop: protect the newest steps instead of the newest turns.")
_RECORDED = WindowOptions()


def window_of(session: Session, options: WindowOptions = _RECORDED, **settings: Any) -> ContextWindow:
    """Return the session's window with these options; `settings` are more of `ContextWindow`."""
    from eventlog.values import Limits
    from projections.loop import ContextWindow

    model = None if options.model is None else model_named(session, options.model)
    limits = None
    if model is not None and model not in session.store.host.models:
        limits = ContextWindow(session).state.limits or Limits()
    window = ContextWindow(session, options.preset, model=model, limits=limits, **settings)
    numbers = {"context": options.context, "output": options.output, "input": options.input}
    if all(value is None for value in numbers.values()):
        return window
    base = window.state.limits or Limits()
    if options.context is None and not base.context:
        raise UsageFault("--output and --input need --context: neither session nor catalogue has the model's window")
    limits = Limits(*(getattr(base, name) if value is None else value for name, value in numbers.items()))
    return ContextWindow(session, options.preset, model=model, limits=limits, **settings)


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
    raise UsageFault(f"{problem} (it has {listed}); give --model as provider/name")
