"""Golden ciphertext of format 1: every later program opens it with the same derived keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.codec.batch import decode_value
from eventlog.codec.decoded import spans_of
from eventlog.codec.large_texts import body_text
from eventlog.codec.payload import decode_encrypted_payload, decode_encrypted_value, is_encrypted, is_foreign
from eventlog.encryption.envelope import decrypt_commit, decrypt_head
from eventlog.encryption.family import Family
from eventlog.encryption.key_ring import KeyRing
from eventlog.errors import DamagedError, KeyMissingError, TooNewError
from eventlog.history.catalog import CatalogEntry, entry_of
from eventlog.log.commit import Commit, Head
from eventlog.values import Body

GOLDEN: dict[str, Any] = {
    name: bytes.fromhex(value) if isinstance(value, str) and len(value) > 1 else value
    for name, value in json.loads(
        (Path(__file__).resolve().parents[2] / "golden" / "encryption-1.json").read_text()
    ).items()
}


class One:
    """A key provider of one key."""

    def find(self, name: str) -> bytes | None:
        """The golden key."""
        return GOLDEN["key"] if name == GOLDEN["id"].hex() else None

    def make(self, name: str) -> bytes:
        """Refuse to make a key."""
        raise AssertionError(name)

    def destroy(self, name: str) -> None:
        """Refuse to destroy a key."""
        raise AssertionError(name)


def stored() -> Commit:
    """The golden append in an engine's form."""
    return Commit("s", 5, GOLDEN["count"], 1, 0, GOLDEN["time"], GOLDEN["payload"], "r")


def test_golden_ciphertext_is_opened() -> None:
    """Payload, catalog entry, body and derived value of format 1 are what was encrypted then."""
    ring, family = KeyRing(One()), Family(GOLDEN["id"], GOLDEN["key"])
    opened = decrypt_commit(stored(), ring)
    assert (opened.payload, opened.stored) == (GOLDEN["plain"], GOLDEN["payload"])
    head = decrypt_head(Head("s", 6, 2, 4, 6, 6, 1, GOLDEN["card"]), ring)
    assert head.entry == GOLDEN["plain_card"]
    assert entry_of(head).title == "a title"
    packed = family.decrypt_body(GOLDEN["body_name"], decode_encrypted_value(GOLDEN["body"]).data)
    assert body_text(Body(GOLDEN["body_digest"], 1800, 1800), packed) == "large " * 300
    assert (
        family.decrypt_derived(GOLDEN["derived_key"], decode_encrypted_value(GOLDEN["derived"]).data)
        == GOLDEN["plain_derived"]
    )
    assert family.decrypt("s", decode_encrypted_value(GOLDEN["foreign"]).data, b"card\0") == b"\xc1\xc1foreign"


def test_keyed_names_are_as_they_ever_were() -> None:
    """Body names, request digests and key fingerprints derive from the key as in format 1."""
    family = Family(GOLDEN["id"], GOLDEN["key"])
    assert family.name(GOLDEN["body_digest"]) == GOLDEN["body_name"]
    assert family.request("s", GOLDEN["request_digest"]) == GOLDEN["request_name"]
    assert bytes.fromhex(family.check()) == GOLDEN["check"]
    assert family.request("s", b"") == b""


def test_what_is_in_clear_is_read_without_a_key() -> None:
    """The clear fields of an encrypted append, and a fork's parent, need no key."""
    encrypted = decode_encrypted_payload(GOLDEN["payload"])
    assert (encrypted.base, encrypted.messages, encrypted.entry) == (GOLDEN["base"], GOLDEN["messages"], GOLDEN["card"])
    assert encrypted.names == (GOLDEN["body_name"],)
    head = Head("s", 6, 2, 4, 6, 6, 1, GOLDEN["card"])
    assert entry_of(head) == CatalogEntry(parent="above", fork_of="parent", forked_at=4)
    assert decode_value(GOLDEN["plain_card"], CatalogEntry).parent == "above"
    assert decrypt_head(head, KeyRing(None)) == head
    assert decrypt_commit(stored(), KeyRing(None)) == stored()
    with pytest.raises(KeyMissingError, match="session s, version 5"):
        spans_of(stored())
    assert is_encrypted(GOLDEN["foreign"])
    assert is_foreign(Head("x", 1, 1, 0, 1, 1, 0, GOLDEN["foreign"]))
    assert not is_foreign(head)


def test_a_newer_format_is_said() -> None:
    """A later format of encryption is `TooNewError`; bytes of no format are `DamagedError`."""
    with pytest.raises(TooNewError, match="format 2"):
        decode_encrypted_value(b"\xc1\xc2" + b"\x92\x02\xc0")
    for data in (
        b"",
        b"\xc1\xc2",
        b"\xc1\xc2" + b"\x90",
        b"\xc1\xc2" + b"\x93\x01\xc4\x01x\xc0",
        b"\x90",
        GOLDEN["card"][:-1],
    ):
        with pytest.raises(DamagedError):
            decode_encrypted_value(data)
