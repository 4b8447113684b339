"""Timeline and window of a session as pictures in SVG.

Needs the extra `plots`, loaded when something is drawn. Pictures have names and numbers, and no
content of a conversation.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
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


_SIGNS = {
    "pruned": _Sign("prune", "v", "#2a7f3f"),
    "compacted": _Sign("compaction", "D", "#7b3fa0"),
    "compaction-failed": _Sign("compaction failed", "X", "#b3261e"),
    "rolled-back": _Sign("rollback", "<", "#b3261e"),
    "forked": _Sign("fork", "^", "#1a56b0"),
    "tool-failed": _Sign("tool failed", "x", "#c77700"),
    "broke-off": _Sign("answer broke off", "P", "#b3261e"),
}
_COLOURS = (
    "#4c6a92", "#88a5c8", "#2a7f3f", "#8fc08f", "#7b3fa0", "#c9a5dd", "#c77700", "#f0c48a", "#b3261e", "#d98a85", "#8a8a8a",
)  # fmt: skip


def timeline_svg(history: Timeline) -> bytes:
    """Draw the tokens of each step, the usable ones, what changed them, and the spending."""
    steps = [entry for entry in history.entries if entry.kind == "step" and entry.tokens]  # none if none was reported
    costs = [entry for entry in history.entries if entry.spent is not None]
    changes = [entry for entry in history.entries if entry.kind in _SIGNS]
    what = f"{history.session}: {counted(len(steps), 'step')} with reported tokens, version {history.version}"
    with _picture(what, 5.2 if costs else 4.0, [3, 1] if costs else [1]) as (axes, result):
        _draw_steps(axes[0], steps, changes)
        if costs:
            axes[1].step(
                [e.version for e in costs], [float(e.spent or 0) for e in costs], where="post", color="#333333"
            )
            axes[1].set_ylabel("US dollars spent")
            axes[1].set_ylim(bottom=0)
        for one in axes:
            one.set_xlim(0, max(history.version, 1) * 1.02)
        axes[-1].set_xlabel("version")
    return result.getvalue()


def _draw_steps(axes: Any, steps: Sequence[TimelineEntry], changes: Sequence[TimelineEntry]) -> None:
    axes.plot(
        [e.version for e in steps],
        [e.tokens for e in steps],
        "-o",
        markersize=3,
        color="#1a56b0",
        label="tokens of a step",
    )
    limits = [(entry.version, entry.tokens / entry.fill) for entry in steps if entry.tokens and entry.fill]
    if limits:
        versions, usable = zip(*limits, strict=True)
        axes.step(versions, usable, where="mid", color="#b3261e", linewidth=1, linestyle="--", label="usable")
    axes.margins(y=0.2)  # for the legend
    axes.set_ylim(bottom=0)
    axes.set_ylabel("tokens")
    for kind, sign in _SIGNS.items():
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
    sizes = [(word, getattr(report.kinds, name)) for name, word in KIND_NAMES.items()]
    tools = [(visible(tool.tool), tool.tokens) for tool in report.tools[:_ROWS] if tool.tokens]
    of = "" if report.usable is None else f" of {report.usable:,} usable"
    what = f"{report.session}: {report.tokens:,} tokens{of}, version {report.version}"
    with _picture(what, 2.6 + 0.3 * len(tools), [1.4, max(len(tools) * 0.3, 0.6)] if tools else [1]) as (axes, result):
        left = 0
        for (word, tokens), colour in zip(sizes, _COLOURS, strict=True):
            if tokens:
                axes[0].barh(0, tokens, left=left, color=colour, label=f"{word} {tokens:,}")
                left += tokens
        if report.usable is not None:
            axes[0].axvline(report.usable, color="#b3261e", linestyle="--", linewidth=1, label="usable")
        axes[0].set_xlim(0, max(left, report.usable or 0, 1) * 1.03)
        axes[0].set_yticks([])
        axes[0].set_ylim(-0.6, 0.6)
        if left:
            axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=8, frameon=False, ncols=4)
        if tools:
            names, tokens = zip(*reversed(tools), strict=True)
            axes[1].barh(range(len(names)), tokens, color="#88a5c8")
            axes[1].set_yticks(range(len(names)), names)
        axes[-1].set_xlabel("tokens by tool" if tools else "tokens")
    return result.getvalue()


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
