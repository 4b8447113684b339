"""The options of all commands about a session's window, and the window that they ask for.

What is given goes before what the session recorded, for this one command: nothing of it is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import typer

from projections.cli.exits import UsageFault

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.values import Model
    from projections.window import ContextWindow

__all__ = [
    "CONTEXT",
    "INPUT",
    "INSIDE",
    "MODEL",
    "OUTPUT",
    "POLICY",
    "PRESET",
    "UNKNOWN",
    "Given",
    "PresetName",
    "model_named",
    "window_of",
]

UNKNOWN = "the size of the model's window is unknown; give --context"
"""Said where numbers would depend on it."""


def _known(name: str | None) -> str | None:
    """The name of a planner, if it is one."""
    if name is not None:
        from projections.window.prune.planner import PLANNERS

        if name not in PLANNERS:
            from eventlog.errors import brief

            raise UsageFault(f"--policy knows no {brief(name)}; there are {', '.join(PLANNERS)}")
    return name


PresetName: TypeAlias = Literal["default", "opencode-1.18"]
PRESET: TypeAlias = Annotated[
    PresetName | None,
    typer.Option("--preset", help="The context policy [default: the one that the session recorded, else default]."),
]
POLICY: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="What chooses the results to prune: recency, superseded, cost-aware or opencode "
        "[default: as the context policy says].",
        callback=_known,
    ),
]
CONTEXT: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--context", min=0, metavar="N", help="The model's window in tokens, 0 for unlimited [default: as recorded]."
    ),
]
OUTPUT: TypeAlias = Annotated[
    int | None,
    typer.Option("--output", min=1, metavar="N", help="The model's longest answer in tokens [default: as recorded]."),
]
INPUT: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--input", min=1, metavar="N", help="The model's longest request in tokens, if it has such a limit of its own."
    ),
]
MODEL: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="ID",
        help="The model to be sent to, as provider/name; the name alone will do for one that the session has "
        "[default: as recorded].",
    ),
]
INSIDE: TypeAlias = Annotated[
    bool,
    typer.Option("--inside", help="As inside a loop: the newest steps are protected, not the newest turns."),
]


class Given(NamedTuple):
    """What was given on the command line."""

    preset: PresetName | None = None
    context: int | None = None
    output: int | None = None
    input: int | None = None
    model: str | None = None


NOTHING = Given()
"""The window as the session recorded it."""


def window_of(session: Session, given: Given = NOTHING, **options: Any) -> ContextWindow:
    """The session's window with what was given; `options` are more of `ContextWindow`."""
    from eventlog.values import Limits
    from projections.window import ContextWindow

    model = None if given.model is None else model_named(session, given.model)
    window = ContextWindow(session, given.preset, model=model, **options)
    numbers = {"context": given.context, "output": given.output, "input": given.input}
    if all(value is None for value in numbers.values()):
        return window
    known = window.state.limits
    if given.context is None and known is None:
        raise UsageFault("--output and --input need --context: the session has not recorded the model's window")
    base = known or Limits()
    limits = Limits(*(getattr(base, name) if value is None else value for name, value in numbers.items()))
    return ContextWindow(session, given.preset, model=model, limits=limits, **options)


def model_named(session: Session, name: str) -> Model:
    """The model of this name; without a provider, the one of the session that is called so.

    One that nobody had would turn all reasoning into text, which is hardly meant by whoever left the provider out.
    """
    from eventlog.values import Model
    from projections.view.model_view import models_of

    provider, slash, rest = name.partition("/")
    if slash:
        return Model(provider, rest)
    known = models_of(session)
    found = [model for model in known if model.name == name]
    if len(found) == 1:
        return found[0]
    from eventlog.errors import cut

    there = ", ".join(map(str, found or known)) or "none"
    said = f"more than one model is called {cut(name)}" if found else f"the session has no model {cut(name)}"
    raise UsageFault(f"{said} (it has {there}); give --model as provider/name")
