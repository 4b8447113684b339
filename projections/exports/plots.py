"""Timeline and window of a session as pictures in SVG.

Needs the extra `plots`, loaded when something is drawn. Pictures have names and numbers, and no
content of a conversation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings, filterwarnings

from eventlog.errors import CallError
from projections.exports.html_text import visible
from projections.reports.timeline import Timeline, TimelineEntry
from projections.reports.wording import KIND_NAMES, counted

if TYPE_CHECKING:
    from projections.window.report import WindowReport

__all__ = ["timeline_svg", "window_svg"]

_SETTINGS = {
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "eventlog",
    "text.parse_math": False,
}
_WIDTH = 10
_ROWS = 10
"""Tools that a picture of the window has a bar for."""


class _Sign(NamedTuple):
    """A kind of change in a timeline: its marker and colour."""

    word: str
    marker: str
    colour: str


SIGNS = {
    "pruned": _Sign("prune", "v", "#9a5b00"),
    "compacted": _Sign("compaction", "D", "#7a3fd0"),
    "compaction-failed": _Sign("compaction failed", "X", "#a61b2b"),
    "rolled-back": _Sign("rollback", "<", "#a8138f"),
    "forked": _Sign("fork", "^", "#3b5bdb"),
    "tool-failed": _Sign("tool failed", "x", "#a61b2b"),
    "broke-off": _Sign("answer broke off", "P", "#a61b2b"),
}
COLOURS = {
    "system": "#8a93a6",
    "tools": "#b4bac8",
    "user": "#3b5bdb",
    "assistant": "#15a085",
    "reasoning": "#7fd1c0",
    "calls": "#f2a541",
    "results": "#f6d186",
    "attachments": "#e8708a",
    "summary": "#9c6ade",
    "carried": "#c9a7f0",
    "frames": "#4b5361",
    "usable": "#c62839",
}
"""The colours of the inspector's page when it is light, so that a reader learns them once."""


class _Step(NamedTuple):
    """A step in a picture: the version at which its usage was complete, and its tokens."""

    version: int
    tokens: int
    fill: float | None


def timeline_svg(history: Timeline) -> bytes:
    """Draw the tokens of each step, the usable ones, what changed them, and the spending."""
    steps = _steps(history.entries)
    every = max(history.kinds.get("StepStarted", 0), len(steps))
    calls, sums = history.calls, history.usage()
    costs = (
        list(accumulate(float(entry.cost or entry.estimate or 0) for entry in calls))
        if sums.unknown < sums.calls
        else []
    )
    changes = [entry for entry in history.entries if entry.kind in SIGNS]
    drawn = f"{counted(every, 'step')} with reported tokens"
    if len(steps) < every:
        drawn = f"{len(steps):,} of {counted(every, 'step')} (turns with reported tokens)"
    what = f"{history.session}: {drawn}, version {history.version}"
    if costs and sums.unpriced:
        what += f"\n{counted(sums.estimated, 'call')} by list prices, {counted(sums.unknown, 'call')} of unknown cost"
    with _picture(what, 5.2 if costs else 4.0, [3, 1] if costs else [1]) as (axes, result):
        _draw_steps(axes[0], steps, changes)
        if costs:
            axes[1].step([call.version for call in calls], costs, where="post", color="#333333")
            axes[1].set_ylabel("US dollars, about" if sums.estimated else "US dollars spent")
            axes[1].set_ylim(bottom=0)
        for one in axes:
            one.set_xlim(0, max(history.version, 1) * 1.02)
        axes[-1].set_xlabel("version")
    return _scaling(result.getvalue())


def _steps(entries: Iterable[TimelineEntry]) -> list[_Step]:
    """Return the steps whose tokens were reported; a usage that came in pieces is one step."""
    found: dict[int, _Step] = {}
    for entry in entries:
        if entry.kind != "step" or not entry.tokens:
            continue
        key = -entry.version if entry.step is None else entry.step
        before = found[key].tokens if key in found and entry.what != "failed" else 0
        found[key] = _Step(entry.version, before + entry.tokens, entry.fill)
    return sorted(found.values())


def _draw_steps(axes: Any, steps: Sequence[_Step], changes: Sequence[TimelineEntry]) -> None:
    axes.plot(
        [e.version for e in steps],
        [e.tokens for e in steps],
        "-o",
        markersize=3,
        color=COLOURS["user"],
        label="tokens of a step",
    )
    limits = [(step.version, step.tokens / step.fill) for step in steps if step.fill]
    if limits:
        versions, usable = zip(*limits, strict=True)
        axes.step(versions, usable, where="mid", color=COLOURS["usable"], linewidth=1, linestyle="--", label="usable")
    axes.margins(y=0.2)  # for the legend
    axes.set_ylim(bottom=0)
    axes.set_ylabel("tokens")
    for kind, sign in SIGNS.items():
        places = [entry.version for entry in changes if entry.kind == kind]
        if places:
            axes.plot(
                places, [0.02] * len(places), sign.marker, color=sign.colour, markersize=7, clip_on=False,
                label=sign.word, linestyle="none", transform=axes.get_xaxis_transform(),
            )  # fmt: skip
    if steps or changes:
        axes.legend(loc="upper left", fontsize=8, frameon=False, ncols=4)
    else:
        axes.text(0.5, 0.5, "no step was recorded", transform=axes.transAxes, ha="center", color="#666666")


def window_svg(report: WindowReport) -> bytes:
    """Draw the tokens of the next request by kind, beside the usable ones, and those of tools."""
    sizes = [(word, getattr(report.kinds, name), COLOURS[name]) for name, word in KIND_NAMES.items()]
    tools = [(visible(tool.tool), tool.tokens) for tool in report.tools[:_ROWS] if tool.tokens]
    of = "" if report.usable is None else f" of {report.usable:,} usable"
    what = f"{report.session}: {report.tokens:,} tokens{of}, version {report.version}"
    with _picture(what, 2.6 + 0.3 * len(tools), [1.4, max(len(tools) * 0.3, 0.6)] if tools else [1]) as (axes, result):
        left = 0
        for word, tokens, colour in sizes:
            if tokens:
                axes[0].barh(0, tokens, left=left, color=colour, label=f"{word} {tokens:,}")
                left += tokens
        if report.usable is not None:
            axes[0].axvline(report.usable, color=COLOURS["usable"], linestyle="--", linewidth=1, label="usable")
        axes[0].set_xlim(0, max(left, report.usable or 0, 1) * 1.03)
        axes[0].set_yticks([])
        axes[0].set_ylim(-0.6, 0.6)
        if left:
            axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=8, frameon=False, ncols=4)
        if tools:
            names, tokens = zip(*reversed(tools), strict=True)
            axes[1].barh(range(len(names)), tokens, color=COLOURS["results"])
            axes[1].set_yticks(range(len(names)), names)
        axes[-1].set_xlabel("tokens by tool" if tools else "tokens")
    return _scaling(result.getvalue())


def _scaling(picture: bytes) -> bytes:
    """Let a picture shrink with the page that it is in; its view box keeps the proportions."""
    return picture.replace(b"<svg ", b'<svg style="max-width: 100%; height: auto" ', 1)


@contextmanager
def _picture(title: str, height: float, heights: Sequence[float]) -> Generator[tuple[list[Any], BytesIO]]:
    """Give axes below each other, and where their picture is once they are drawn."""
    try:
        figures: Any = import_module("matplotlib.figure")
        ticker: Any = import_module("matplotlib.ticker")
        library: Any = import_module("matplotlib")
    except ImportError as error:
        raise CallError(f"pictures need the extra `plots` ({error.name}): pip install 'everdelta[plots]'") from None
    result = BytesIO()
    with library.rc_context(_SETTINGS), catch_warnings():
        filterwarnings("ignore", message="Glyph .* missing")  # who looks at it has other fonts
        figure = figures.Figure(figsize=(_WIDTH, height), facecolor="white", layout="constrained")
        axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        figure.suptitle(visible(" ".join(title.split())), x=0.01, ha="left", fontsize=11, fontweight="bold")
        thousands = ticker.FuncFormatter(_thousands)
        axes[0].yaxis.set_major_formatter(thousands)
        yield list(axes), result
        for one in axes:
            one.grid(visible=True, color="#e4e4e4", linewidth=0.8)
            one.set_axisbelow(True)
            one.xaxis.set_major_formatter(thousands)
        figure.savefig(result, format="svg", metadata={"Date": None, "Title": visible(title)})


def _thousands(value: float, place: int) -> str:
    del place
    return f"{value:,.0f}"
