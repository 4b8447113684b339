"""`eventlog serve` in a process of its own, and a browser that looks at it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.missing import tool

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def serving(path: Path | str, *options: str, opened_by: Path | None = None) -> Generator[str]:
    """Serve a store and yield its printed address; `opened_by` is the browser's program."""
    opening = ["--no-open"] if opened_by is None else []
    command = [sys.executable, "-m", "eventlog", "--store", str(path), "serve", *opening, "--port", "0", *options]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "BROWSER": str(opened_by)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield line.split()[4]
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def browser() -> Generator[Browser]:
    """Start a headless Chromium; skips the test without one, but not in CI."""
    found = tool("chromium", "chromium-browser", "google-chrome")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started.chromium.launch(executable_path=found, args=["--no-sandbox"])
