"""Durations and points in time as options take them; times of this machine for errors."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click

from projections.cli.output import Cell
from projections.reports.wording import moment

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_DAYS = {"today": 0, "yesterday": 1}


class Duration(click.ParamType[int]):
    """A duration, in milliseconds."""

    name = "duration"
    says = "a number and s, m, h, d, w or y, as in 30d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the duration that a word is."""
        matched = re.fullmatch(r"(\d{1,9})([smhdwy])", value)
        if matched is None:
            from eventlog.errors.base import brief

            self.fail(f"{brief(value)} is no {self.name}; give {self.says}", param, ctx)
        return int(matched[1]) * _UNITS[matched[2]] * 1000


class Time(Duration):
    """A point in time, in UTC milliseconds."""

    name = "time"
    says = "today, yesterday, a date or time in UTC, as in 2025-01-31 or 2025-01-31T17:30, or how long ago, as in 30d or 1y"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the time that a word is."""
        days = _DAYS.get(value.lower())
        try:
            said = datetime.fromisoformat(value if days is None else str(_today() - timedelta(days)))
            return round(said.replace(tzinfo=said.tzinfo or UTC).timestamp() * 1000)
        except (ValueError, OverflowError):
            return round(time.time() * 1000) - super().convert(value, param, ctx)


DURATION, TIME = Duration(), Time()


def _today() -> date:
    return datetime.now(UTC).date()


def cell(milliseconds: int) -> Cell:
    """Return a time as a cell of a table."""
    return Cell(moment(milliseconds), minute(milliseconds))


def minute(milliseconds: int) -> str:
    """Return a time in UTC as `ls` does: to the minute if it is of this year, else its day."""
    text = second(milliseconds)
    if text[2:3] == "-":
        return text[:-3]
    return text[:10] if text[4:5] == "-" else text


def clock(milliseconds: int, before: int | None) -> str:
    """Return hour and minute in UTC, or the day if the time `before` is of another one."""
    day, _, time = moment(milliseconds, zone="").partition(" ")
    if before is not None and moment(before, zone="").startswith(day):
        return time[:5]
    return minute(milliseconds).partition(" ")[0]


def second(milliseconds: int) -> str:
    """Return a time in UTC to the second, without its year if that is this one."""
    text = moment(milliseconds, zone="")
    year, dash, rest = text.partition("-")
    return rest if dash and year == str(_today().year) else text


def local(milliseconds: int) -> str:
    """Return a time in the zone of this machine, with its date unless it is of today."""
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    today = moment.date() == datetime.now(UTC).astimezone().date()
    return moment.strftime("%H:%M:%S %Z" if today else "%Y-%m-%d %H:%M:%S %Z")
