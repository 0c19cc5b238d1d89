"""Verifies the output of `assent audit export` without using any of Assent's code. Short enough to be reviewed.

`python verify_export.py EXPORT` exits with 0, or with 1 and a line per finding. Needs Python 3.11 and `cryptography`.
"""

import argparse
import hashlib
import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Line = dict[str, Any]
NOUNS = ("event", "chain", "checkpoint", "finding")


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def node(left: bytes, right: bytes) -> bytes:
    return sha(b"\x01" + left + right)


def climb(start: bytes, here: int, last: int, path: list[bytes]) -> tuple[bytes, bytes]:
    """Follow a path to two roots: of the entries up to the start, and of all entries (RFC 9162, 2.1.3 and 4)."""
    old = new = start
    for part in path:
        if last == 0:
            return b"", b""
        if here % 2 or here == last:
            old, new = node(part, old), node(part, new)
            while here % 2 == 0 and here:
                here, last = here // 2, last // 2
        else:
            new = node(new, part)
        here, last = here // 2, last // 2
    return (old, new) if last == 0 else (b"", b"")


def only_grew(old_size: int, old_root: bytes, size: int, root: bytes, path: list[bytes]) -> bool:
    parts = path if old_size & (old_size - 1) else [old_root, *path]
    here, last = old_size - 1, size - 1
    while here % 2:
        here, last = here // 2, last // 2
    return old_size < size and bool(parts) and climb(parts[0], here, last, parts[1:]) == (old_root, root)


class Verifier:
    """Verifies the lines of an export one by one, and collects the findings."""

    def __init__(self, keys: list[str]) -> None:
        self.found: list[str] = []
        self.keys: dict[bytes, tuple[str, Ed25519PublicKey]] = {}
        for key in keys:
            self.trust(key)
        self.pinned, self.whole, self.signed, self.size = bool(keys), True, 0, 0
        self.proofs, self.peaks = list[Line](), list[tuple[int, bytes]]()
        self.last, self.notes = (0, 0, b""), dict[int, str]()
        self.heads: dict[str, tuple[int, str]] = {}
        self.created, self.ends, self.standing = dict[str, Line](), dict[str, Line](), set[str]()

    def trust(self, key: str) -> None:
        origin, named, spelt = key.split("+", 2)
        raw = b64decode(spelt)
        if sha(f"{origin}\n".encode() + raw)[:4].hex() != named or raw[:1] != b"\x01":
            self.found.append(f"{key} is not a valid verifier key")
        self.keys[bytes.fromhex(named)] = (origin, Ed25519PublicKey.from_public_bytes(raw[1:]))

    def take(self, line: Line) -> None:
        if line["kind"] == "assent-audit-export" and line["version"] == 1:
            self.whole, self.signed = line["project"] is None, line["size"]
        elif line["kind"] != "key":
            getattr(self, f"take_{line['kind']}")(line)
        elif not self.pinned:
            self.trust(line["verifierKey"])

    def take_event(self, line: Line) -> None:
        name, (seq, head) = f"{line['id']} event {line['seq']}", self.heads.get(line["id"], (0, "0" * 64))
        digest = line["purged"] if "purged" in line else sha(line["metadata"].encode()).hex()
        if "purged" in line and line["type"] not in ("commented", "responded"):
            self.found.append(f"{name} is purged, which its type does not allow")
        body = {each: line[each] for each in ("seq", "type", "actor", "at")} | {"metadata": digest}
        body[{"breakpoint": "breakpointId", "rule": "ruleId", "admin": "adminChain"}[line["of"]]] = line["id"]
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if (line["seq"], line["previous"]) != (seq + 1, head):
            self.found.append(f"{name} does not follow event {seq}")
        if sha(f"assent-event/1\n{line['previous']}\n{text}".encode()).hex() != line["hash"]:
            self.found.append(f"{name} does not match its hash")
        self.heads[line["id"]] = (line["seq"], line["hash"])
        self.created.setdefault(line["id"], line)
        if line["type"] in ("released", "expired", "cancelled"):
            self.ends[line["id"]] = line
        if line["position"] is not None:
            self.log(line, name) if self.whole else self.proofs.append({"name": name} | line)

    def log(self, line: Line, name: str) -> None:
        if line["position"] != self.size:
            self.found.append(f"{name} is at position {line['position']} in the log; expected {self.size}")
        level, found = 0, sha(b"\x00" + line["hash"].encode())
        while self.peaks and self.peaks[-1][0] == level:
            level, found = level + 1, node(self.peaks.pop()[1], found)
        self.peaks.append((level, found))
        self.size += 1

    def root(self) -> bytes:
        found = self.peaks[-1][1] if self.peaks else sha(b"")
        for _, peak in reversed(self.peaks[:-1]):
            found = node(peak, found)
        return found

    def take_checkpoint(self, line: Line) -> None:
        name, text = f"checkpoint {line['number']}", line["note"].split("\n\n")[0] + "\n"
        origin, written, spelt, number, _ = text.splitlines()
        size, root, raw = int(written), b64decode(spelt), b64decode(line["note"].rsplit(" ", 1)[1])
        try:
            key_origin, key = self.keys[raw[:4]]
            key.verify(raw[4:], text.encode())
        except (KeyError, InvalidSignature):
            key_origin = ""
        if key_origin != origin:
            self.found.append(f"{name} is not signed by a trusted key: {raw[:4].hex()}")
        if number != f"number {line['number']}" or line["number"] != self.last[0] + 1:
            self.found.append(f"{name} has the wrong number; the previous checkpoint is {self.last[0]}")
        if self.last[0] and not only_grew(*self.last[1:], size, root, [*map(b64decode, line["consistency"])]):
            self.found.append(f"{name} is not consistent with the previous checkpoint")
        if self.whole and (size, root) != (self.size, self.root()):
            self.found.append(f"{name} does not match the events in the export")
        self.last, self.notes[line["number"]] = (line["number"], size, root), line["note"]

    def take_breakpoint(self, line: Line) -> None:
        self.take_rule(line)
        name, end = line["id"], self.ends.get(line["id"])
        said = (end["type"], json.loads(end["metadata"]).get("decision")) if end else ("waiting", None)
        if said != (line["status"], line["decision"]):
            self.found.append(f"{name} is {line['decision'] or line['status']}; its events say {said[1] or said[0]}")
        if name not in self.created or json.loads(self.created[name]["metadata"])["digest"] != line["digest"]:
            self.found.append(f"{name} has a different digest than its first event")
        if line["content"] and sha(f"assent-content/1\n{line['content']}".encode()).hex() != line["digest"]:
            self.found.append(f"the content of {name} does not match its digest")

    def take_rule(self, line: Line) -> None:
        self.standing.add(line["id"])
        if self.heads.get(line["id"]) != (line["version"], line["head"]):
            self.found.append(f"{line['id']} does not match its last event")

    take_chain = take_rule

    def take_receipt(self, line: Line) -> None:
        self.standing.add(line["id"])
        if json.loads(self.created[line["id"]]["metadata"])["after"] != json.loads(line["used"]):
            self.found.append(f"{line['id']} does not match the receipt use recorded in its event")

    def close(self, anchors: Path | None) -> None:
        _, size, root = self.last
        if size != self.signed or (self.whole and size != self.size):
            self.found.append(f"the last checkpoint covers {size} of {self.size or self.signed} log entries")
        for line in self.proofs:
            start, path = sha(b"\x00" + line["hash"].encode()), [*map(b64decode, line["proof"])]
            if climb(start, line["position"], size - 1, path)[1] != root:
                self.found.append(f"{line['name']} has no valid proof that it is in the log")
        for name in sorted(self.heads.keys() - self.standing):
            self.found.append(f"{name} has events but is not in the export")
        for text in anchors.read_text("utf-8").splitlines() if anchors else ():
            told = json.loads(text)
            if self.notes.get(told["number"]) != told["note"]:
                self.found.append(f"checkpoint {told['number']} from the anchor file is missing or different")


def verify(export: Path, *, keys: list[str], anchors: Path | None) -> Verifier:
    verifier, before, whole = Verifier(keys), hashlib.sha256(), False
    with export.open("rb") as file:
        for n, raw in enumerate(file):
            try:
                line = json.loads(raw)
                whole = line == {"kind": "end", "lines": n, "sha256": before.hexdigest()}
                if not whole:
                    verifier.take(line)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                verifier.found.append(f"line {n + 1} cannot be read: {type(error).__name__}")
            before.update(raw)
    verifier.close(anchors)
    verifier.found += [] if whole else ["the file is incomplete or was changed"]
    return verifier


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Verify an Assent audit export without using Assent.")
    parser.add_argument("export", type=Path)
    parser.add_argument("--anchors", type=Path, help="anchor file to which the server appends its checkpoints")
    parser.add_argument("--key", dest="keys", metavar="KEY", action="append", default=[], help="trust only this key")
    done = verify(**vars(parser.parse_args()))
    counts = (sum(n for n, _ in done.heads.values()), len(done.heads), len(done.notes), len(done.found))
    told = [f"{n or 'no'} {noun}{'s' * (n != 1)}" for n, noun in zip(counts, NOUNS, strict=True)]
    sys.stdout.write("".join(f"{what}.\n" for what in [*done.found, "{} in {}, {}: {}".format(*told)]))
    sys.exit(1 if done.found else 0)
