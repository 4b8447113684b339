"""A release: one version, notes, licences, and a wheel that works by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.pages import blocks

ROOT = Path(__file__).resolve().parents[1]
VENDORED = ("projections/inspector/page/vendor", "projections/vocab", "projections/demo", "eventlog/models")
"""Folders with files from other projects."""
PICTURE = "projections/inspector/picture.png"
"""The picture of the README, which a program does not need."""

in_ci = pytest.mark.skipif(os.environ.get("CI") != "true", reason="an installed copy is made by .ci/run")


def test_the_version_is_that_of_the_newest_notes() -> None:
    """The project's version is the first one that the changelog has, with what there is in it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest, notes = re.findall(
        r"^## \[([\d.]+)\][^\n]*\n(.*?)(?=^## |\Z)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL
    )[0]
    assert newest == version
    assert len(notes.split()) > 50


def test_files_of_others_have_their_licences() -> None:
    """Each folder with others' files has their licences, and a page that names their source."""
    for folder in map(ROOT.__truediv__, VENDORED):
        licences = [path for path in folder.iterdir() if path.name.endswith("LICENSE")]
        assert licences, folder
        assert all("permission" in path.read_text().lower() for path in licences), folder
        assert (folder / "README.md").is_file()
    scripts = {path.name.split(".")[0] for path in (ROOT / VENDORED[0]).glob("*.js")}
    names = {path.name.split(".")[0] for path in (ROOT / VENDORED[0]).glob("*.LICENSE")}
    assert scripts - names == {"hooks"}  # a part of preact


@in_ci
def test_a_wheel_made_from_the_source_distribution_runs_the_first_program(tmp_path: Path) -> None:
    """Installed alone in a fresh environment, the wheel runs the README's Quickstart."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", tmp_path, ROOT], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert len([*tmp_path.glob("*.tar.gz")]) == 1
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    program = next(block.code for block in blocks("README.md") if block.language == "python")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-c", program], cwd=tmp_path, env=clean, check=True, capture_output=True, text=True)
    assert re.fullmatch(r"3 messages, \d+ tokens, version \d+\n", done.stdout)
    listed = subprocess.run([tmp_path / "venv" / "bin" / "eventlog", "--store", "chats", "sessions"], cwd=tmp_path, env=clean, check=True, capture_output=True, text=True)  # fmt: skip
    assert "Fix the tests" in listed.stdout


@in_ci
def test_everything_is_in_the_wheel() -> None:
    """All modules and data files are installed: schemas, vocabularies, pages, licences."""
    installed = {str(path) for path in metadata.files("everdelta") or ()}
    there = {
        path.relative_to(ROOT).as_posix()
        for package in ("eventlog", "projections")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } - {PICTURE}
    assert PICTURE not in installed
    assert there - installed == set()
    for name in (
        "eventlog/py.typed",
        "projections/py.typed",
        "projections/schemas/view.json",
        "projections/demo/LICENSE",
    ):
        assert name in installed
    assert any(name.endswith("licenses/LICENSE") for name in installed)


@in_ci
@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_types_are_known_to_those_who_import_the_packages(package: str, tmp_path: Path) -> None:
    """Without frameworks a checker knows the types of 99 % of an installed package."""
    command = [sys.executable, "-m", "pyright", "--verifytypes", package, "--ignoreexternal", "--outputjson"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=False, capture_output=True, text=True
    )
    assert json.loads(found.stdout)["typeCompleteness"]["completenessScore"] >= 0.99
