"""Check a proof of `eventlog prove`; needs only this file and Python, so it can be copied.

    python check_proof.py PROOF [HEAD]

PROOF is a file with the output of `eventlog prove SESSION --version V --json [--against HEAD]`,
HEAD one with an earlier output of `eventlog head --json`. Prints what is proven and the digest that
it is proven against; exit code 1 if the proof does not hold.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from struct import unpack_from
from typing import Any


def _climb(at: int, last: int, old: bytes, new: bytes, path: list[bytes]) -> tuple[bool, str, str]:
    """Climb with two hashes from place `at` of a row that ends with `last`.

    Returns whether the path ends at the root, and both hashes there.
    """
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
    """Return whether the leaf is in the tree, at its index (RFC 9162, 2.1.3.2)."""
    leaf, path = sha256(b"\0" + bytes.fromhex(proof["leaf"])).digest(), list(map(bytes.fromhex, proof["path"]))
    top, _, root = _climb(proof["index"], proof["size"] - 1, b"", leaf, path)
    return 0 <= proof["index"] < proof["size"] and top and root == proof["root"]


def consistent(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether the tree `old` is the beginning of the tree `new` (RFC 9162, 2.1.4.2)."""
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
    """Return whether the proof holds.

    The append is in the session's tree, the session in the store's, and the earlier head, if there
    is one, is a beginning of today's.
    """
    leaf, above = bytes.fromhex(proof["leaf"]), bytes.fromhex(proof["store"]["leaf"])
    first, count, length = *unpack_from("<16xQQ", leaf), *unpack_from("<48xH", leaf)
    name = proof["session"].encode()
    holds = length == len(name) and leaf[52 : 52 + length] == name and first <= proof["version"] < first + count
    holds &= unpack_from("<8xQ", above)[0] == proof["size"] and above[17:] == bytes.fromhex(proof["root"]) + name
    holds &= included(proof) and included(proof["store"])
    old = proof["consistency"]
    if head is not None:
        sessions = {session["id"]: session for session in head["sessions"]}
        saved = sessions.get(proof["session"], {"appends": 0, "peaks": [""]})
        root, *others = map(bytes.fromhex, reversed(saved["peaks"]))
        for peak in others:
            root = sha256(b"\1" + peak + root).digest()
        holds &= old is not None and (old["size"], old["root"]) == (saved["appends"], root.hex())
    return holds and (old is None or consistent(old, proof))


def main() -> None:
    """Check the proof and heads in the files that the command line names."""
    the_proof, *heads = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])
    if not check(the_proof, *heads):
        sys.exit("the proof does not hold")
    sys.stdout.write(
        f"version {the_proof['version']} of session {the_proof['session']} is in the history with the head\n"
    )
    sys.stdout.write(the_proof["store"]["root"] + "\n")
    sys.stdout.writelines(f"which continues the history with the head\n{head['digest']}\n" for head in heads)


if __name__ == "__main__":
    main()
