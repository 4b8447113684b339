"""The packaged vocabulary: as published, loaded late, once, checked, without a network."""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
import threading
import tracemalloc
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.model
import zstandard

from eventlog.errors import DamagedError, NotFoundError
from projections.tokens import encodings as encodings_module
from projections.tokens.counter import TokenCounter, counter_named
from projections.tokens.encodings import ENCODINGS, FOLDER, encoder, encoding_for, read_tokens


def test_a_flipped_byte_in_the_vocabulary_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flipped byte of the file, or a missing file, is `DamagedError`, never a wrong count."""
    good = (FOLDER / "cl100k_base.ranks").read_bytes()
    monkeypatch.setattr(encodings_module, "FOLDER", tmp_path)
    for at in (0, 1, 2, 1000, len(good) // 2, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 0x10
        (tmp_path / "cl100k_base.ranks").write_bytes(bad)
        with pytest.raises(DamagedError):
            read_tokens("cl100k_base")
    (tmp_path / "cl100k_base.ranks").unlink()
    with pytest.raises(DamagedError):
        read_tokens("cl100k_base")


def test_another_table_that_decompresses_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of another digest is damage, although it decompresses."""
    tokens = zstandard.decompress((FOLDER / "cl100k_base.ranks").read_bytes())
    (tmp_path / "cl100k_base.ranks").write_bytes(zstandard.compress(tokens.replace(b" hello", b" hellp")))
    monkeypatch.setattr(encodings_module, "FOLDER", tmp_path)
    with pytest.raises(DamagedError, match="not the published one"):
        read_tokens("cl100k_base")


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_our_definitions_are_tiktokens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pattern and vocabulary are those that tiktoken would download, by its SHA-256."""

    def ours(_url: str, expected_hash: str) -> dict[bytes, int]:
        tokens = read_tokens(name)
        text = b"".join(b"%b %d\n" % (b64encode(token), rank) for rank, token in enumerate(tokens))
        assert hashlib.sha256(text).hexdigest() == expected_hash
        return {token: rank for rank, token in enumerate(tokens)}

    definitions: Any = importlib.import_module("tiktoken_ext.openai_public")
    monkeypatch.setattr(definitions, "load_tiktoken_bpe", ours)
    theirs = definitions.ENCODING_CONSTRUCTORS[name]()
    assert ENCODINGS[name].pattern == theirs["pat_str"]
    reference = tiktoken.Encoding(**theirs)
    text = "\u538b\u7f29\uff0c\u4e4b\u540e\u3002 It's 12345 <|endoftext|>\n\n\tdef f(x):  return x  # ÄÖ 😀\r\n" * 5
    assert encoder(name).encode_ordinary(text) == reference.encode_ordinary(text)


def test_importing_loads_neither_tiktoken_nor_a_vocabulary() -> None:
    """Importing loads nothing; estimates do not either; a few counts need no tiktoken."""
    program = (
        "import sys, projections\n"
        "from projections.tokens import counter, encodings\n"
        "made = counter.TokenCounter()\n"
        "assert made.estimate(400, 400) > 0\n"
        "print('tiktoken' in sys.modules, 'zstandard' in sys.modules, bool(encodings._first))\n"
        "made.count('hello')\n"
        "print('tiktoken' in sys.modules, bool(encodings._first))\n"
        "made.count('hello ' * 100_000)\n"
        "print('tiktoken' in sys.modules)\n"
    )
    root = Path(__file__).resolve().parents[3]
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=root)
    assert ran.stdout.split() == ["False", "False", "False", "False", "True", "True"]


@pytest.mark.parametrize(
    ("loader", "text", "tokens"), [("_ranks", "hello world", 2), ("_build", "hello w\u00f6rld", 4)]
)
def test_threads_that_count_at_once_share_one_load(
    loader: str, text: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks are read once, and an encoder is built once, by any number of threads."""
    loads: list[str] = []
    load = getattr(encodings_module, loader)

    def counted(name: str) -> object:
        loads.append(name)
        return load(name)

    monkeypatch.setattr(encodings_module, "_encoders", {})
    monkeypatch.setattr(encodings_module, "_first", {})
    monkeypatch.setattr(encodings_module, loader, counted)
    start = threading.Barrier(8)
    counts: list[int] = []

    def count() -> None:
        start.wait()
        counts.append(TokenCounter("cl100k_base").count(text))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == ["cl100k_base"]
    assert counts == [tokens] * 8


def test_a_loaded_vocabulary_keeps_no_second_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """After loading, the Python copy of the vocabulary (20 MB) is freed."""
    monkeypatch.setattr(encodings_module, "_encoders", {})
    monkeypatch.setattr(encodings_module, "_first", {})
    tracemalloc.start()
    try:
        encoder("cl100k_base")
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak > 8_000_000
    assert kept < 2_000_000


def test_models_have_the_encoding_that_tiktoken_says() -> None:
    """Every model that tiktoken knows with one of the two vocabularies gets it."""
    names = {"cl100k_base": "cl100k_base", "o200k_base": "o200k_base", "o200k_harmony": "o200k_base"}
    checked = 0
    for table, ending in ((tiktoken.model.MODEL_TO_ENCODING, ""), (tiktoken.model.MODEL_PREFIX_TO_ENCODING, "x-1")):
        for model, encoding in table.items():
            if encoding in names:
                assert encoding_for(model + ending) == names[encoding], model
                checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("anthropic/claude-sonnet-4-5", "o200k_base"),
        ("openai/gpt-4", "cl100k_base"),
        ("openrouter/openai/GPT-4-turbo", "cl100k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_a_model_name_chooses_its_encoding(model: str, encoding: str) -> None:
    """A model's name chooses its encoding in any case and behind any provider's prefix."""
    assert encoding_for(model) == encoding


def test_a_recorded_name_gives_its_counter_back() -> None:
    """A counter is found by the name stored with its counts; an unknown name is an error."""
    assert [counter_named(name).name for name in ("o200k_base", "cl100k_base", "chars/4")] == [
        "o200k_base",
        "cl100k_base",
        "chars/4",
    ]
    with pytest.raises(NotFoundError):
        counter_named("p50k_base")
    with pytest.raises(NotFoundError):
        TokenCounter("p50k_base").count("x")
