"""The Merkle tree of the log: its root conforms to RFC 6962, and only true statements can be proven."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.audit import merkle

MANY = 70_000
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
"""Entries from the reference implementation of RFC 6962; ROOTS contains the expected roots."""
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


class Log:
    """A log with the stored hashes of its tree and all its roots."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        self.leaves = [merkle.leaf(each) for each in entries]
        self.nodes: dict[tuple[int, int], bytes] = {}
        self.asked = 0
        tree = merkle.Growing()
        self.roots = [tree.root()]
        for each in self.leaves:
            self.nodes |= {(whole.level, whole.n): whole.hash for whole in tree.add(each)}
            self.roots.append(tree.root())

    def kept(self, level: int, first: int, count: int) -> list[bytes]:
        self.asked += count
        if level == 0:
            return self.leaves[first : first + count]
        return [self.nodes[level, n] for n in range(first, first + count) if (level, n) in self.nodes]


def numbered(count: int) -> Log:
    return Log([str(n).encode() for n in range(count)])


LOG = numbered(600)
sizes = st.integers(1, len(LOG.leaves))


@pytest.mark.parametrize("size", range(1, 9))
def test_the_root_matches_the_reference_implementation(size: int) -> None:
    log = Log([bytes.fromhex(each) for each in INPUTS])
    assert log.roots[size].hex() == ROOTS[size - 1]
    assert log.roots[0] == hashlib.sha256().digest()


def test_a_leaf_hash_never_equals_a_node_hash() -> None:
    left, right = merkle.leaf(b"a"), merkle.leaf(b"b")
    assert merkle.leaf(left + right) != merkle.node(left, right)


@given(size=sizes)
def test_a_tree_can_be_extended_from_its_stored_hashes(size: int) -> None:
    tree = merkle.grown(LOG.kept, size)
    assert tree.root() == LOG.roots[size]
    if size < len(LOG.leaves):
        tree.add(LOG.leaves[size])
        assert tree.root() == LOG.roots[size + 1]


@given(size=sizes, data=st.data())
def test_an_inclusion_proof_is_valid_only_for_its_entry_and_position(size: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(-1, size).filter(lambda n: n != position))
    path = merkle.inclusion(LOG.kept, position, size)

    assert merkle.includes(LOG.leaves[position], position, size, path, LOG.roots[size])
    assert not merkle.includes(LOG.leaves[position], other, size, path, LOG.roots[size])
    assert not merkle.includes(merkle.leaf(b"x"), position, size, path, LOG.roots[size])
    assert not merkle.includes(LOG.leaves[position], position, size, [*path, b"x" * 32], LOG.roots[size])
    assert not merkle.includes(LOG.leaves[position], position, size, path, merkle.leaf(b"x"))
    for n in range(len(path)):
        assert not merkle.includes(LOG.leaves[position], position, size, path[:n] + path[n + 1 :], LOG.roots[size])
        changed = [*path[:n], merkle.leaf(b"x"), *path[n + 1 :]]
        assert not merkle.includes(LOG.leaves[position], position, size, changed, LOG.roots[size])


@given(second=sizes, data=st.data())
def test_a_consistency_proof_is_valid_only_for_its_two_roots(second: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, second))
    path = merkle.consistency(LOG.kept, first, second)
    old, new = LOG.roots[first], LOG.roots[second]

    assert merkle.continues(first, old, second, new, path)
    assert not merkle.continues(first, merkle.leaf(b"x"), second, new, path)
    assert not merkle.continues(first, old, second, merkle.leaf(b"x"), path)
    assert not merkle.continues(first, old, second, new, [*path, b"x" * 32])
    for n in range(len(path)):
        assert not merkle.continues(first, old, second, new, path[:n] + path[n + 1 :])
        assert not merkle.continues(first, old, second, new, [*path[:n], merkle.leaf(b"x"), *path[n + 1 :]])


@pytest.mark.parametrize(("position", "size"), [(-1, 5), (5, 5), (0, 0)])
def test_an_inclusion_proof_requires_a_position_in_the_tree(position: int, size: int) -> None:
    with pytest.raises(ValueError, match="is not in a tree"):
        merkle.inclusion(LOG.kept, position, size)
    assert not merkle.includes(LOG.leaves[0], position, size, [], LOG.roots[0])


@pytest.mark.parametrize(("first", "second"), [(0, 5), (6, 5), (-1, 5)])
def test_a_consistency_proof_requires_a_nonempty_prefix(first: int, second: int) -> None:
    with pytest.raises(ValueError, match="is not a prefix"):
        merkle.consistency(LOG.kept, first, second)
    assert not merkle.continues(first, LOG.roots[0], second, LOG.roots[5], [])


def test_a_missing_hash_raises_an_error() -> None:
    with pytest.raises(LookupError):
        merkle.inclusion(lambda *_: [], 3, 9)


def test_a_long_log_stores_and_reads_only_a_few_hashes() -> None:
    log = numbered(MANY)
    assert len(log.nodes) == MANY // 256 + MANY // 65_536
    merkle.grown(log.kept, MANY - 1)
    assert log.asked <= 2 * 256
    log.asked = 0
    path = merkle.inclusion(log.kept, 12_345, MANY)
    assert merkle.includes(log.leaves[12_345], 12_345, MANY, path, log.roots[MANY])
    assert log.asked <= 3 * 256 + MANY.bit_length()
