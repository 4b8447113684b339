"""Check what `eventlog prove` printed, without the store and without this package: copy this file, it needs Python only.

    python check_proof.py PROOF [HEAD]

PROOF is the output of `eventlog prove SESSION --version V --json [--against HEAD]`, HEAD what `eventlog head --json` printed
earlier.  Prints what is proven, and the digest that it is proven against; exit code 1 if the proof is none.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from struct import unpack_from
from typing import Any

__all__ = ["check", "consistent", "included"]


def _climb(at: int, last: int, old: bytes, new: bytes, path: list[bytes]) -> tuple[bool, str, str]:
    """Where two hashes at place `at` of a row that ends with `last` get to: at the top, and what they are there."""
    for step in path:
        if at % 2 or at == last:
            old, new = sha256(b"\1" + step + old).digest(), sha256(b"\1" + step + new).digest()
            while at and at % 2 == 0:
                at, last = at // 2, last // 2
        else:
            new = sha256(b"\1" + new + step).digest()
        at, last = at // 2, last // 2
    return last == 0, old.hex(), new.hex()


def included(proof: dict[str, Any]) -> bool:
    """Whether the leaf is in the tree with this root, at this place (RFC 9162, 2.1.3.2)."""
    leaf, path = sha256(b"\0" + bytes.fromhex(proof["leaf"])).digest(), list(map(bytes.fromhex, proof["path"]))
    top, _, root = _climb(proof["index"], proof["size"] - 1, b"", leaf, path)
    return 0 <= proof["index"] < proof["size"] and top and root == proof["root"]


def consistent(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the tree of `old`, with its path, is the beginning of the tree of `new` (RFC 9162, 2.1.4.2)."""
    path = list(map(bytes.fromhex, old["path"]))
    if old["size"] == new["size"]:
        return old["root"] == new["root"] and not path
    if old["size"] & (old["size"] - 1) == 0:  # a complete subtree, whose root the path leaves out
        path.insert(0, bytes.fromhex(old["root"]))
    at, last = old["size"] - 1, new["size"] - 1
    while at % 2:
        at, last = at // 2, last // 2
    first = path[0] if path else b""
    return 0 < old["size"] < new["size"] and _climb(at, last, first, first, path[1:]) == (
        True,
        old["root"],
        new["root"],
    )


def check(proof: dict[str, Any], head: dict[str, Any] | None = None) -> bool:
    """Whether the proof holds: the append is in the session, the session in the store, and the kept head in its past."""
    leaf, above = bytes.fromhex(proof["leaf"]), bytes.fromhex(proof["store"]["leaf"])
    first, count, length = *unpack_from("<16xQQ", leaf), *unpack_from("<48xH", leaf)
    name = proof["session"].encode()
    holds = length == len(name) and leaf[52 : 52 + length] == name and first <= proof["version"] < first + count
    holds &= unpack_from("<8xQ", above)[0] == proof["size"] and above[17:] == bytes.fromhex(proof["root"]) + name
    holds &= included(proof) and included(proof["store"])
    old = proof["consistency"]
    if head is not None:
        sessions = {session["id"]: session for session in head["sessions"]}
        kept = sessions.get(proof["session"], {"appends": 0, "peaks": [""]})
        root, *others = map(bytes.fromhex, reversed(kept["peaks"]))
        for peak in others:
            root = sha256(b"\1" + peak + root).digest()
        holds &= old is not None and (old["size"], old["root"]) == (kept["appends"], root.hex())
    return holds and (old is None or consistent(old, proof))


if __name__ == "__main__":
    given, *kept_head = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])
    if not check(given, *kept_head):
        sys.exit("this proves nothing")
    sys.stdout.write(f"version {given['version']} of session {given['session']} is in the history with the head\n")
    sys.stdout.write(given["store"]["root"] + "\n")
    sys.stdout.writelines(f"which continues the one with the head\n{head['digest']}\n" for head in kept_head)
