"""The Merkle tree compared with the definitions of RFC 6962, section 2.1, and its edge cases."""

import hashlib
from collections.abc import Sequence

import pytest

from assent.audit import merkle
from tests.audit.model.test_merkle import LOG

SMALL = range(1, 23)
X = b"x" * 32


def split(count: int) -> int:
    """Return the largest power of two smaller than the count."""
    return max(1 << n for n in range(10) if 1 << n < count)


def head(entries: Sequence[bytes]) -> bytes:
    """MTH(D[n])."""
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return hashlib.sha256(b"\x01" + head(entries[:k]) + head(entries[k:])).digest()


def path(m: int, entries: Sequence[bytes]) -> list[bytes]:
    """PATH(m, D[n])."""
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if m < k:
        return [*path(m, entries[:k]), head(entries[k:])]
    return [*path(m - k, entries[k:]), head(entries[:k])]


def subproof(m: int, entries: Sequence[bytes], *, whole: bool) -> list[bytes]:
    """SUBPROOF(m, D[n], b); PROOF(m, D[n]) is the one with b = true."""
    if m == len(entries):
        return [] if whole else [head(entries)]
    k = split(len(entries))
    if m <= k:
        return [*subproof(m, entries[:k], whole=whole), head(entries[k:])]
    return [*subproof(m - k, entries[k:], whole=False), head(entries[:k])]


ENTRIES = [str(n).encode() for n in range(600)]


@pytest.mark.parametrize("size", [*SMALL, 255, 256, 257, 511, 512, 600])
def test_the_root_matches_the_definition(size: int) -> None:
    assert LOG.roots[size] == merkle.grown(LOG.kept, size).root() == head(ENTRIES[:size])


def test_the_root_of_an_empty_tree_is_the_hash_of_the_empty_string() -> None:
    tree = merkle.grown(LOG.kept, 0)
    assert (tree, tree.root()) == (merkle.Growing(), hashlib.sha256().digest())


@pytest.mark.parametrize("size", SMALL)
def test_only_inclusion_proofs_that_match_the_definition_are_valid(size: int) -> None:
    root = LOG.roots[size]
    for position in range(size):
        leaf, proof = LOG.leaves[position], merkle.inclusion(LOG.kept, position, size)
        assert proof == path(position, ENTRIES[:size])
        places = [n for n in range(-size, 2 * size) if merkle.includes(leaf, n, size, proof, root)]
        assert places == [position]
        assert merkle.includes(leaf, position, size, proof, X) is False
        assert merkle.includes(leaf, position, size, [*proof, X], root) is False


@pytest.mark.parametrize("second", SMALL)
def test_only_consistency_proofs_that_match_the_definition_are_valid(second: int) -> None:
    new = LOG.roots[second]
    for first in range(1, second + 1):
        old, proof = LOG.roots[first], merkle.consistency(LOG.kept, first, second)
        assert proof == subproof(first, ENTRIES[:second], whole=True)
        assert merkle.continues(first, old, second, new, proof) is True
        assert merkle.continues(first, X, second, new, proof) is False
        assert merkle.continues(first, old, second, X, proof) is False
        assert merkle.continues(first, old, second, new, [*proof, X]) is False
        assert merkle.continues(first, old, second, new, proof[:-1]) is (first == second)


@pytest.mark.parametrize(("position", "size"), [(256, 600), (599, 600), (0, 257), (300, 513)])
def test_inclusion_proofs_for_larger_logs_match_the_definition(position: int, size: int) -> None:
    proof = merkle.inclusion(LOG.kept, position, size)
    assert proof == path(position, ENTRIES[:size])
    assert merkle.includes(LOG.leaves[position], position, size, proof, LOG.roots[size]) is True


@pytest.mark.parametrize(("first", "second"), [(256, 600), (599, 600), (1, 257), (300, 513), (255, 256)])
def test_consistency_proofs_for_larger_logs_match_the_definition(first: int, second: int) -> None:
    proof = merkle.consistency(LOG.kept, first, second)
    assert proof == subproof(first, ENTRIES[:second], whole=True)
    assert merkle.continues(first, LOG.roots[first], second, LOG.roots[second], proof) is True


def test_a_proof_longer_than_the_height_of_the_tree_is_never_valid() -> None:
    """Otherwise, an attacker who chooses the root could attach the whole log below another node."""
    for position, size in ((0, 1), (2, 3), (4, 5), (6, 8)):
        proof, root = merkle.inclusion(LOG.kept, position, size), merkle.node(X, LOG.roots[size])
        assert merkle.includes(LOG.leaves[position], position, size, [*proof, X], root) is False
    for first, second in ((3, 5), (5, 7), (6, 8)):
        proof = merkle.consistency(LOG.kept, first, second)
        old, new = (merkle.node(X, LOG.roots[size]) for size in (first, second))
        assert merkle.continues(first, old, second, new, [*proof, X]) is False


@pytest.mark.parametrize(("position", "size"), [(-1, 1), (1, 1), (0, 0), (0, -1), (2, 1)])
def test_the_only_entry_of_a_log_has_only_one_valid_position(position: int, size: int) -> None:
    (leaf,) = LOG.leaves[:1]
    assert merkle.includes(leaf, 0, 1, [], leaf) is True
    assert merkle.includes(leaf, position, size, [], leaf) is False


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 5), (-1, 5), (-2, 5), (6, 5), (5, 0)])
@pytest.mark.parametrize("proof", [[], [X], [X, X, X]], ids=len)
def test_no_proof_shows_consistency_with_an_empty_or_longer_log(first: int, second: int, proof: list[bytes]) -> None:
    assert merkle.continues(first, X, second, X, proof) is False
    with pytest.raises(ValueError, match=f"^a tree of size {first} is not a prefix of a tree of size {second}$"):
        merkle.consistency(LOG.kept, first, second)


def test_a_log_is_consistent_with_itself_without_a_proof() -> None:
    root = LOG.roots[5]
    assert merkle.continues(5, root, 5, root, []) is True
    assert merkle.continues(5, root, 5, X, []) is False
    assert merkle.continues(5, root, 5, root, [X]) is False


@pytest.mark.parametrize("first", range(1, 8))
def test_an_empty_proof_is_invalid_for_a_longer_log(first: int) -> None:
    assert merkle.continues(first, LOG.roots[first], 8, LOG.roots[8], []) is False
    assert merkle.continues(first, LOG.roots[first], 8, LOG.roots[first], []) is False


def test_only_subtrees_of_256_and_65536_entries_are_stored() -> None:
    """With subtrees of other sizes, no database would contain the hashes that the tree requests."""
    tree = merkle.Growing()
    made = [(n, whole) for n, leaf in enumerate(LOG.leaves) for whole in tree.add(leaf)]
    assert made == [
        (255, merkle.Subtree(8, 0, head(ENTRIES[:256]))),
        (511, merkle.Subtree(8, 1, head(ENTRIES[256:512]))),
    ]
    peaks = [bytes([n]) * 32 for n in range(16)]
    almost = merkle.Growing(2**16 - 1, list(peaks))
    found = [(each.level, each.n) for each in almost.add(X)]
    assert found == [(8, 255), (16, 0)]
    assert (almost.size, len(almost.peaks)) == (2**16, 1)


@pytest.mark.parametrize(
    ("size", "level", "number"), [(512, 8, 0), (768, 8, 2), (4, 0, 0), (300, 0, 256), (2**17, 16, 0)]
)
def test_an_error_about_a_missing_hash_contains_its_level_and_number(size: int, level: int, number: int) -> None:
    def kept(asked: int, first: int, count: int) -> list[bytes]:
        return [X] * (count - 1 if (asked, first) == (level, number) else count)

    with pytest.raises(LookupError, match=f"^the hashes of level {level} are missing, starting at number {number}$"):
        merkle.grown(kept, size)


def test_only_existing_hashes_are_requested() -> None:
    asked: list[tuple[int, int, int]] = []

    def kept(level: int, first: int, count: int) -> list[bytes]:
        asked.append((level, first, count))
        return [X] * count

    merkle.grown(kept, 2**16 + 2**9 + 2**8 + 2 + 1)
    above = 2**8
    assert asked == [(16, 0, 1), (8, above, 2), (8, above + 2, 1), (0, 2**16 + 768, 2), (0, 2**16 + 770, 1)]
