"""The hash tree of RFC 6962: its proofs hold for what is true and for nothing else."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from eventlog.errors import DamagedError
from eventlog.log.commit import Commit
from eventlog.log.merkle import (
    SALT_BYTES,
    consistency_path,
    grow,
    inclusion_path,
    leaf_data,
    leaf_hash,
    peak_sizes,
    root_of,
)
from projections.verify.check_proof import consistent, included

pytestmark = pytest.mark.promise(11)

INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""RFC 6962 test vectors: the roots of the first one to eight inputs."""

SIZES = st.integers(1, 70)


def leaves_of(count: int) -> list[bytes]:
    """That many leaves, all different."""
    return [b"leaf %d" % number for number in range(count)]


def naive_root(leaves: list[bytes]) -> bytes:
    """The root by RFC 6962's definition, section 2.1."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\1" + naive_root(leaves[:split]) + naive_root(leaves[split:])).digest()


def grown(leaves: list[bytes]) -> bytes:
    """The peaks of the tree of these leaves."""
    peaks = b""
    for number, leaf in enumerate(leaves):
        peaks = grow(number, peaks, leaf_hash(leaf))
    return peaks


def test_the_roots_of_the_known_example() -> None:
    """The roots equal RFC 6962's examples, so that other tools can check them."""
    for size in range(1, 9):
        assert root_of(grown([bytes.fromhex(text) for text in INPUTS[:size]])).hex() == ROOTS[size - 1]
    assert root_of(b"") == naive_root([])


@given(SIZES)
def test_the_tree_grows_into_the_one_that_is_defined(size: int) -> None:
    """Adding leaves to the peaks gives the definition's root, with one peak for each set bit."""
    leaves = leaves_of(size)
    peaks = grown(leaves)
    assert root_of(peaks) == naive_root(leaves)
    assert len(peaks) == 32 * len(peak_sizes(size))
    assert sum(peak_sizes(size)) == size


def inclusion(leaves: list[bytes], index: int) -> dict[str, Any]:
    """The proof that a leaf is in the tree."""
    hashes = [leaf_hash(leaf) for leaf in leaves]
    return {
        "leaf": leaves[index].hex(),
        "index": index,
        "size": len(leaves),
        "path": [step.hex() for step in inclusion_path(hashes, index)],
        "root": naive_root(leaves).hex(),
    }


@given(SIZES, st.data())
def test_an_inclusion_proof_holds_for_its_leaf_only(size: int, data: st.DataObject) -> None:
    """A proof holds for its leaf, index, size, root and exact steps only."""
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion(leaves, index)
    assert included(proof)
    assert len(proof["path"]) <= (size - 1).bit_length()
    assert not included({**proof, "leaf": b"another".hex()})
    assert not included({**proof, "root": leaf_hash(b"another").hex()})
    if size > 1:
        other = data.draw(st.integers(0, size - 1).filter(lambda other: other != index))
        assert not included({**proof, "leaf": leaves[other].hex()})
        assert not included({**proof, "index": other})
        place = data.draw(st.integers(0, len(proof["path"]) - 1))
        path = list(proof["path"])
        path[place] = leaf_hash(b"another").hex()
        assert not included({**proof, "path": path})
        assert not included({**proof, "path": proof["path"][:place] + proof["path"][place + 1 :]})
    assert not included({**proof, "path": [*proof["path"], leaf_hash(b"another").hex()]})


@given(SIZES, st.data())
def test_a_consistency_proof_holds_for_a_beginning_only(size: int, data: st.DataObject) -> None:
    """A grown tree has a consistency proof; a tree with a changed past has none."""
    leaves = leaves_of(size)
    before = data.draw(st.integers(1, size))
    path = [step.hex() for step in consistency_path([leaf_hash(leaf) for leaf in leaves], before)]
    old = {"size": before, "root": naive_root(leaves[:before]).hex(), "path": path}
    new = {"size": size, "root": naive_root(leaves).hex()}
    assert consistent(old, new)
    changed = data.draw(st.integers(0, before - 1))
    forged = [*leaves[:changed], b"forged", *leaves[changed + 1 :]]
    assert not consistent({**old, "root": naive_root(forged[:before]).hex()}, new)
    assert not consistent(old, {**new, "root": naive_root(forged).hex()})
    steps = [step.hex() for step in consistency_path([leaf_hash(leaf) for leaf in forged], before)]
    assert not consistent({**old, "path": steps}, {**new, "root": naive_root(forged).hex()})
    if path:
        assert not consistent({**old, "path": path[:-1]}, new)
    assert not consistent({**old, "path": [*path, leaf_hash(b"another").hex()]}, new)


FIELDS: dict[str, Any] = {
    "session": "t",
    "first": 8,
    "count": 3,
    "epoch": 5,
    "time": -1,
    "payload": b"paylod",
    "request": None,
    "salt": bytes([1]) * SALT_BYTES,
}


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_everything_of_a_commit_is_in_its_leaf(field: str) -> None:
    """Every field of an append except its place in the store changes its leaf."""
    given: dict[str, Any] = {
        "session": "s",
        "first": 7,
        "count": 2,
        "position": 1,
        "epoch": 4,
        "time": 0,
        "payload": b"payload",
        "request": "",
        "salt": bytes(SALT_BYTES),
    }
    commit = Commit(**given)
    leaf = leaf_data(commit)
    assert leaf_data(structs.replace(commit, **{field: FIELDS[field]})) != leaf
    assert leaf_data(structs.replace(commit, position=9)) == leaf
    assert leaf.endswith(b"spayload")


@given(st.text(max_size=9), st.none() | st.text(max_size=9), st.binary(max_size=9), st.data())
def test_two_commits_have_two_leaves(session: str, request: str | None, payload: bytes, data: st.DataObject) -> None:
    """Moving bytes between neighbouring fields of a commit changes its leaf."""
    others = (data.draw(st.text(max_size=9)), data.draw(st.none() | st.text(max_size=9)), data.draw(st.binary()))
    one = Commit(session, 1, 1, 1, 0, 0, payload, request, bytes(SALT_BYTES))
    other = Commit(others[0], 1, 1, 1, 0, 0, others[2], others[1], bytes(SALT_BYTES))
    assert (leaf_data(one) == leaf_data(other)) == (one == other)


@pytest.mark.parametrize(
    ("first", "count", "salt"), [(7, 1, b""), (-1, 1, bytes(SALT_BYTES)), (7, 1 << 64, bytes(SALT_BYTES))]
)
def test_what_cannot_have_been_committed_is_damage(first: int, count: int, salt: bytes) -> None:
    """A commit that cannot be hashed is a typed error that names session and version."""
    with pytest.raises(DamagedError) as caught:
        leaf_data(Commit("s", first, count, 1, 0, 0, b"", None, salt))
    assert (caught.value.session, caught.value.version) == ("s", first)
