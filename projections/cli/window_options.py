"""Options of commands about the context window, and the window that they ask for.

An option overrides what the session recorded, for this one command; nothing of it is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from projections.cli.exits import UsageFault
from projections.cli.grammar import Option

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.values import Model
    from projections.loop import ContextWindow

__all__ = ["INSIDE", "POLICY", "UNKNOWN", "WindowOptions", "model_named", "window_of"]

UNKNOWN = "the size of the model's window is unknown; give --context"
"""Shown where numbers would depend on the size."""


def _planner_name(name: str) -> str:
    """Return the name of a planner; raises `UsageFault` for another name."""
    from projections.window.prune.planner import PLANNERS

    if name not in PLANNERS:
        from eventlog.errors.base import brief

        raise UsageFault(f"--policy knows no {brief(name)}; there are {', '.join(PLANNERS)}")
    return name


PresetName: TypeAlias = Literal["default", "opencode-1.18"]
POLICY: TypeAlias = Annotated[
    str | None,
    Option(
        "--policy",
        metavar="NAME",
        help="Which planner chooses the results to prune: recency, superseded, cost-aware or opencode "
        "[default: that of the context policy].",
        read=_planner_name,
    ),
]
INSIDE: TypeAlias = Annotated[
    bool,
    Option("--inside", help="As inside a loop: protect the newest steps instead of the newest turns."),
]


class WindowOptions(NamedTuple):
    """Values of the options that say which window is meant; None for those not given."""

    preset: Annotated[
        PresetName | None,
        Option("--preset", help="The context policy [default: as recorded, else default]."),
    ] = None
    context: Annotated[
        int | None,
        Option(
            "--context",
            min=0,
            metavar="N",
            help="Size of the model's window in tokens, 0 for unlimited [default: as recorded].",
        ),
    ] = None
    output: Annotated[
        int | None,
        Option("--output", min=1, metavar="N", help="Longest answer in tokens [default: as recorded]."),
    ] = None
    input: Annotated[
        int | None,
        Option("--input", min=1, metavar="N", help="Longest request in tokens, if the model limits it separately."),
    ] = None
    model: Annotated[
        str | None,
        Option(
            "--model",
            metavar="ID",
            help="Model of the next request, as provider/name, or the name of a model that the session has "
            "[default: as recorded].",
        ),
    ] = None


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
