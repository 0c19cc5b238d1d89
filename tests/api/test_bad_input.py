"""Invalid input gets the same 4xx response on both databases, changes nothing and reveals no stack trace or secret."""

import base64
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from assent.core.canonical import sha256
from assent.http.middleware import MAX_BODY, MAX_UPLOAD
from tests.api.streams import Stream
from tests.support.nodes import Node

CANARY = "s3cr3t-canary-7f1d"
JSON = {"content-type": "application/json"}
ONE = "/api/breakpoints/{id}"
VALID_CREATE = {"agentId": "agent-1", "payload": {"question": "Deploy?"}}
# Every endpoint that accepts a JSON body, with a valid example.
WRITES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "create": ("POST", "/api/breakpoints", VALID_CREATE),
    "feedback": ("POST", ONE + "/feedback", {"comment": "Hm."}),
    "create person": ("POST", "/api/people", {"name": "newcomer"}),
    "change person": ("PATCH", "/api/people/ann", {"displayName": "Ann"}),
    "put group": ("PUT", "/api/groups/ops", {"members": ["ann"]}),
    "create token": ("POST", "/api/tokens", {"kind": "agent", "name": "bot"}),
    "create project": ("POST", "/api/projects", {"id": "another"}),
    "change project": ("PATCH", "/api/projects/default", {"name": "Default"}),
    "put policy": ("PUT", "/api/policy", {"unknownExperts": "warn"}),
}
BODYLESS = {"cancel": ("POST", ONE + "/cancel"), "expire": ("POST", ONE + "/expire")}


@dataclass
class Place:
    """A node with a pending breakpoint, a person named ann, and a token for an admin who is also a reviewer."""

    node: Node
    token: str
    id: str

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return await self.node.call(method, path.replace("{id}", self.id), self.token, **options)

    async def raw(self, method: str, path: str, content: bytes, **headers: str) -> httpx2.Response:
        return await self.send(method, path, content=content, headers=JSON | headers)

    async def state(self) -> dict[str, Any]:
        paths = ["people", "groups", "projects", "policy", "tokens", "breakpoints?limit=200", f"breakpoints/{self.id}"]
        found = {path: (await self.send("GET", f"/api/{path}")).json() for path in paths}
        for token in found["tokens"]["items"]:
            del token["lastUsedAt"]
        return found


@pytest.fixture(scope="module")
async def place(shared: Node) -> Place:
    await shared.person("ann", "viewer")
    breakpoint_id = (await shared.create(payload={"question": "?", "options": ["yes", "no"], "editable": ["n"]}))["id"]
    return Place(shared, await shared.token("admin"), breakpoint_id)


def problem_of(answer: httpx2.Response) -> tuple[int, str]:
    """Check that a response is a well-formed problem, and return its status and code."""
    assert answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json", answer.text[:200]
    assert answer.headers["x-request-id"]
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["type"] == f"/problems/{body['code']}"
    assert body["title"]
    assert body["detail"]
    assert "Traceback" not in answer.text
    assert CANARY not in answer.text
    return answer.status_code, body["code"]


MALFORMED: dict[str, bytes] = {
    "not JSON": b"nonsense",
    "cut off": b'{"x": 1',
    "single quotes": b"{'x': 1}",
    "trailing comma": b'{"x": 1,}',
    "two values": b'{"x": 1} {"x": 1}',
    "comment": b'{"x": 1} // why not',
    "raw control character": b'{"x": "a\x01b"}',
    "raw NUL": b'{"x": "a\x00b"}',
    "escaped NUL": b'{"x": "a\\u0000b"}',
    "escaped NUL in a key": b'{"a\\u0000b": 1}',
    "lone surrogate": b'{"x": "\\ud800"}',
    "lone low surrogate": b'{"x": "\\udfff"}',
    "lone surrogate in a key": b'{"\\ud800": 1}',
    "surrogates the wrong way round": b'{"x": "\\udc00\\ud800"}',
    "surrogate as bytes": b'{"x": "\xed\xa0\x80"}',
    "not UTF-8": b'{"x": "\xff"}',
    "UTF-16": '{"x": 1}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"x": 1}',
    "NaN": b'{"x": NaN}',
    "Infinity": b'{"x": Infinity}',
    "minus Infinity": b'{"x": -Infinity}',
    "beyond a double": b'{"x": 1e999}',
    "below a double": b'{"x": -1e999}',
    "beyond 2^53": b'{"x": 9007199254740992}',
    "below -2^53": b'{"x": -9007199254740992}',
    "a number of 5000 digits": b'{"x": ' + b"9" * 5000 + b"}",
    "duplicate keys": b'{"x": "rollback", "x": "deploy"}',
    "duplicate keys inside": b'{"x": [{"y": 1, "y": 1}]}',
    "duplicate keys by escape": b'{"x": 1, "\\u0078": 2}',
    "a hundred thousand keys, one twice": b"{" + b",".join(b'"%d":1' % n for n in range(80_000)) + b',"79999":2}',
    "65 deep": b'{"x": ' + b"[" * 64 + b"]" * 64 + b"}",
    "5000 deep": b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "half a million deep": b"[" * 500_000,
    "deep objects": b'{"x":' * 200 + b"1" + b"}" * 200,
    "leading zero": b'{"x": 01}',
    "hexadecimal": b'{"x": 0x10}',
    "a plus sign": b'{"x": +1}',
}
WRONG_SHAPE: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "a string": b'"text"',
    "a number": b"1",
    "true": b"true",
    "a list of objects": b"[{}]",
}


@pytest.mark.parametrize("name", WRITES)
async def test_malformed_json_returns_400_everywhere_and_changes_nothing(place: Place, name: str) -> None:
    method, path, _ = WRITES[name]
    before = await place.state()
    answers = {what: problem_of(await place.raw(method, path, body)) for what, body in MALFORMED.items()}
    assert answers == dict.fromkeys(MALFORMED, (400, "malformed_json"))
    assert await place.state() == before


@pytest.mark.parametrize("name", WRITES)
async def test_hostile_values_in_an_otherwise_valid_body_are_rejected(place: Place, name: str) -> None:
    method, path, valid = WRITES[name]
    before = await place.state()
    wrong: dict[str, tuple[int, str]] = {}
    for what, body in MALFORMED.items():
        if body.startswith(b'{"x":') and body.endswith(b"}"):
            inside = json.dumps(valid).encode()[:-1] + b", " + body[1:]
            found = problem_of(await place.raw(method, path, inside))
            if found != (400, "malformed_json"):
                wrong[what] = found
    assert wrong == {}
    assert await place.state() == before


@pytest.mark.parametrize("name", WRITES)
async def test_any_json_body_other_than_an_object_returns_422(place: Place, name: str) -> None:
    method, path, _ = WRITES[name]
    before = await place.state()
    answers = {what: problem_of(await place.raw(method, path, body)) for what, body in WRONG_SHAPE.items()}
    assert answers == dict.fromkeys(WRONG_SHAPE, (422, "invalid_request"))
    assert await place.state() == before


@pytest.mark.parametrize("name", WRITES)
async def test_unknown_fields_are_rejected(place: Place, name: str) -> None:
    method, path, valid = WRITES[name]
    before = await place.state()
    for field in ("surprise", "agent_id", "__proto__", "display_name", "Name", ""):
        answer = await place.send(method, path, json=valid | {field: CANARY})
        assert problem_of(answer) == (422, "invalid_request"), field
    assert await place.state() == before


@pytest.mark.parametrize("name", [*WRITES, *BODYLESS])
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/vnd.api+json",
        "application/jsonp",
        "",
    ],
)
async def test_a_body_with_a_media_type_other_than_json_returns_415(place: Place, name: str, kind: str) -> None:
    method, path, *rest = WRITES.get(name) or BODYLESS[name]
    body = json.dumps(rest[0] if rest else {}).encode()
    before = await place.state()
    answer = await place.send(method, path, content=body, headers={"content-type": kind})
    assert problem_of(answer) == (415, "unsupported_media_type")
    assert await place.state() == before


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json;odata=x"])
async def test_every_spelling_of_the_json_media_type_is_accepted(place: Place, kind: str) -> None:
    content = json.dumps(VALID_CREATE).encode()
    answer = await place.send("POST", "/api/breakpoints", content=content, headers={"content-type": kind})
    assert answer.status_code == 201


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "zstd"])
@pytest.mark.parametrize("name", [*WRITES, *BODYLESS, "upload"])
async def test_compressed_bodies_return_415_to_prevent_zip_bombs(place: Place, name: str, encoding: str) -> None:
    method, path, *rest = WRITES.get(name) or (BODYLESS | {"upload": ("POST", "/api/files")})[name]
    body = gzip.compress(json.dumps(rest[0] if rest else {}).encode())
    answer = await place.raw(method, path, body, **{"content-encoding": encoding})
    assert problem_of(answer) == (415, "unsupported_media_type")


@pytest.mark.parametrize("name", BODYLESS)
async def test_an_endpoint_that_takes_no_fields_rejects_any_field(place: Place, name: str) -> None:
    method, path = BODYLESS[name]
    before = await place.state()
    for body in MALFORMED.values():
        assert problem_of(await place.raw(method, path, body)) == (400, "malformed_json")
    for body in (b'{"reason": "x"}', b"[]", b"1", b'"x"', b"null"):
        assert problem_of(await place.raw(method, path, body)) == (422, "invalid_request")
    assert await place.state() == before
    other = (await place.node.create())["id"]
    assert (await place.raw(method, path.replace("{id}", other), b"{}")).status_code == 200


def _padded(size: int) -> bytes:
    body = json.dumps(VALID_CREATE).encode()
    return body[:-1] + b" " * (size - len(body)) + b"}"


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


async def test_a_body_can_be_exactly_one_mebibyte_but_not_larger(place: Place) -> None:
    assert (await place.raw("POST", "/api/breakpoints", _padded(MAX_BODY))).status_code == 201
    before = await place.state()
    assert problem_of(await place.raw("POST", "/api/breakpoints", _padded(MAX_BODY + 1))) == (413, "too_large")
    assert await place.state() == before


async def test_the_limit_applies_to_a_chunked_body_without_a_length(place: Place) -> None:
    good = await place.send("POST", "/api/breakpoints", content=_in_pieces(_padded(MAX_BODY)), headers=JSON)
    assert good.status_code == 201
    bad = await place.send("POST", "/api/breakpoints", content=_in_pieces(_padded(MAX_BODY + 1)), headers=JSON)
    assert problem_of(bad) == (413, "too_large")


@pytest.mark.parametrize("name", [*WRITES, *BODYLESS])
async def test_every_mutating_endpoint_returns_413_for_two_mebibytes(place: Place, name: str) -> None:
    method, path, *_ = WRITES.get(name) or BODYLESS[name]
    before = await place.state()
    assert problem_of(await place.raw(method, path, b" " * (2 * MAX_BODY))) == (413, "too_large")
    assert await place.state() == before


async def test_an_upload_can_be_exactly_ten_mebibytes_but_not_larger(place: Place) -> None:
    content = b"x" * MAX_UPLOAD
    kept = await place.send("POST", "/api/files", content=content)
    assert (kept.status_code, kept.json()) == (201, {"sha256": sha256(content), "size": MAX_UPLOAD})
    assert problem_of(await place.send("POST", "/api/files", content=content + b"x")) == (413, "too_large")
    chunked = await place.send("POST", "/api/files", content=_in_pieces(content + b"x"))
    assert problem_of(chunked) == (413, "too_large")


def _create(payload: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return VALID_CREATE | ({"payload": VALID_CREATE["payload"] | payload} if payload is not None else {}) | fields  # type: ignore[operator]


def _file(**fields: Any) -> dict[str, Any]:
    return _create({"context": {"files": [{"path": "a.md", "format": "markdown", **fields}]}})


def _form(**form: Any) -> dict[str, Any]:
    return _create({"form": form})


EMOJI = "🦀"
BAD_CREATE: dict[str, dict[str, Any]] = {
    "no agentId": {"payload": {}},
    "no payload": {"agentId": "a"},
    "agentId null": _create(agentId=None),
    "agentId a number": _create(agentId=1),
    "agentId empty": _create(agentId=""),
    "agentId too long": _create(agentId="a" * 201),
    "agentId with a line break": _create(agentId="a\nb"),
    "payload a list": _create(payload=None) | {"payload": []},
    "payload a string": _create(payload=None) | {"payload": "x"},
    "payload null": _create(payload=None) | {"payload": None},
    "title empty": _create(title=""),
    "title too long": _create(title="t" * 301),
    "title a list": _create(title=["t"]),
    "runId empty": _create(runId=""),
    "tags a string": _create(tags="prod"),
    "tags with a number": _create(tags=[1]),
    "tags with an empty one": _create(tags=[""]),
    "tags too many": _create(tags=[str(n) for n in range(51)]),
    "tag too long": _create(tags=["t" * 101]),
    "tag with a tab": _create(tags=["a\tb"]),
    "ttl zero": _create(ttlSeconds=0),
    "ttl negative": _create(ttlSeconds=-1),
    "ttl absurd": _create(ttlSeconds=366 * 24 * 3600 + 1),
    "ttl enormous": _create(ttlSeconds=2**53 - 1),
    "ttl a string": _create(ttlSeconds="60"),
    "ttl a fraction": _create(ttlSeconds=1.5),
    "ttl a round float": _create(ttlSeconds=60.0),
    "ttl a boolean": _create(ttlSeconds=True),
    "onTimeout approve": _create(onTimeout="approve"),
    "priority unknown": _create(priority="whenever"),
    "callbackUrl javascript": _create(callbackUrl="javascript:alert(1)"),
    "callbackUrl file": _create(callbackUrl="file:///etc/passwd"),
    "callbackUrl without a host": _create(callbackUrl="https://"),
    "callbackUrl with a blank": _create(callbackUrl="https://a b"),
    "callbackUrl too long": _create(callbackUrl="https://a/" + "a" * 2000),
    "question a number": _create({"question": 1}),
    "question too long": _create({"question": "q" * 20_001}),
    "payload title empty": _create({"title": ""}),
    "contradicting title": _create({"title": "B"}, title="A"),
    "contradicting runId": _create({"context": {"runId": "B"}}, runId="A"),
    "context a list": _create({"context": []}),
    "context runId a number": _create({"context": {"runId": 1}}),
    "files an object": _create({"context": {"files": {}}}),
    "files too many": _create({"context": {"files": [{"path": "a", "format": "text"}] * 101}}),
    "file without a path": _create({"context": {"files": [{"format": "text"}]}}),
    "file without a format": _create({"context": {"files": [{"path": "a"}]}}),
    "file of an unknown format": _file(format="exe"),
    "file with an unknown field": _file(url="https://x"),
    "file path empty": _file(path=""),
    "file path with a line break": _file(path="a\nb"),
    "file path too long": _file(path="p" * 501),
    "file content a number": _file(content=1),
    "file with content and base64": _file(content="a", contentBase64="YQ=="),
    "file with content and sha256": _file(content="a", sha256="0" * 64),
    "file base64 not base64": _file(contentBase64="%%%%"),
    "file base64 cut off": _file(contentBase64="YQ"),
    "file base64 of the other alphabet": _file(contentBase64="_-__"),
    "file sha256 too short": _file(sha256="0" * 63),
    "file sha256 in capitals": _file(sha256="A" * 64),
    "file sha256 never uploaded": _file(sha256="0" * 64),
    "expert empty": _create({"expert": ""}),
    "expert an empty list": _create({"expert": []}),
    "expert a number": _create({"expert": 7}),
    "expert an object": _create({"expert": {"name": "ann"}}),
    "expert list with a number": _create({"expert": ["ann", 1]}),
    "experts too many": _create({"expert": [f"e{n}" for n in range(51)]}),
    "strategy unknown": _create({"strategy": "whoever"}),
    "quorum without experts": _create({"strategy": "quorum"}),
    "collect-all without experts": _create({"strategy": "collect-all"}),
    "previousFeedback a list": _create({"previousFeedback": []}),
    "attempt negative": _create({"attempt": -1}),
    "attempt a string": _create({"attempt": "1"}),
    "attempt absurd": _create({"attempt": 1_000_001}),
    "gate empty": _create({"breakpointId": ""}),
    "gate with a blank": _create({"breakpointId": "a b"}),
    "gate too long": _create({"breakpointId": "g" * 201}),
    "gate a number": _create({"breakpointId": 5}),
    "autoApproveAfterN too small": _create({"autoApproveAfterN": -2}),
    "autoApproveAfterN a string": _create({"autoApproveAfterN": "3"}),
    "presentAlwaysApprove a number": _create({"presentAlwaysApprove": 1}),
    "options empty": _create({"options": []}),
    "options twice the same": _create({"options": ["a", "a"]}),
    "options with an empty one": _create({"options": [""]}),
    "options too many": _create({"options": [str(n) for n in range(51)]}),
    "hardStop a string": _create({"hardStop": "true"}),
    "risk unknown": _create({"risk": "extreme"}),
    "editable a string": _create({"editable": "n"}),
    "form a list": _create({"form": []}),
    "form without properties": _form(type="object"),
    "form of an array": _form(type="array", properties={"a": {"type": "string"}}),
    "form with a nested object": _form(properties={"a": {"type": "object"}}),
    "form with a reference": _form(properties={"a": {"$ref": "https://evil/schema"}}),
    "form with a pattern": _form(properties={"a": {"type": "string", "pattern": "(a+)+$"}}),
    "form requiring an unknown field": _form(properties={"a": {"type": "string"}}, required=["b"]),
    "form with required as a string": _form(properties={"a": {"type": "string"}}, required="a"),
    "form with required numbers": _form(properties={"a": {"type": "string"}}, required=[1]),
    "form with required lists": _form(properties={"a": {"type": "string"}}, required=[["a"]]),
    "form with a type that is a list": _form(properties={"a": {"type": ["string"]}}),
    "form with a type that is an object": _form(properties={"a": {"type": {}}}),
    "form with an enum of objects": _form(properties={"a": {"type": "string", "enum": [{}]}}),
    "form with an empty enum": _form(properties={"a": {"type": "string", "enum": []}}),
    "form with a length that is a word": _form(properties={"a": {"type": "string", "minLength": "long"}}),
    "form with too many fields": _form(properties={f"f{n}": {"type": "string"} for n in range(51)}),
}
BAD_FEEDBACK: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an empty comment": {"comment": ""},
    "release false alone": {"release": False},
    "null for everything": {"comment": None, "release": None, "approved": None},
    "release a string": {"release": "false"},
    "release a number": {"release": 1},
    "approved a string": {"approved": "yes"},
    "approved against release": {"release": False, "approved": True},
    "comment a number": {"comment": 5},
    "comment too long": {"comment": "c" * 20_001},
    "option without release": {"option": "yes", "comment": "Hm."},
    "answers without release": {"answers": {}, "comment": "Hm."},
    "edits without release": {"edits": {"n": 1}, "comment": "Hm."},
    "an option nobody offered": {"release": True, "option": "maybe"},
    "approval without the option": {"release": True},
    "answers without a form": {"release": True, "option": "yes", "answers": {"a": 1}},
    "edit of what is not editable": {"release": True, "option": "yes", "edits": {"m": 1}},
    "edits a list": {"release": True, "option": "yes", "edits": [1]},
    "answers a string": {"release": True, "option": "yes", "answers": "x"},
    "digest not hexadecimal": {"release": True, "option": "yes", "digest": "z" * 64},
    "digest too short": {"release": True, "option": "yes", "digest": "0" * 63},
    "confirm too long": {"release": True, "option": "yes", "confirm": "c" * 301},
    "decision instead of approved": {"decision": "approved"},
    "status instead of release": {"status": "released"},
}
BAD_OTHERS: dict[str, dict[str, dict[str, Any]]] = {
    "create person": {
        "no name": {},
        "name empty": {"name": ""},
        "name in capitals": {"name": "Bob"},
        "name with a blank": {"name": "bob smith"},
        "name too long": {"name": "b" * 65},
        "name a number": {"name": 5},
        "the owner's name": {"name": "owner"},
        "email without an at sign": {"name": "bob", "email": "bob"},
        "email with a line break": {"name": "bob", "email": "bob@x\nBcc: a@b"},
        "email too long": {"name": "bob", "email": "b" * 250 + "@example.org"},
        "password too short": {"name": "bob", "password": "short"},
        "password too long": {"name": "bob", "password": "p" * 201},
        "roles a string": {"name": "bob", "roles": "admin"},
        "an unknown role": {"name": "bob", "roles": ["god"]},
        "display name empty": {"name": "bob", "displayName": ""},
        "active a string": {"name": "bob", "active": "true"},
    },
    "change person": {
        "active a string": {"active": "false"},
        "active a number": {"active": 0},
        "roles unknown": {"roles": ["god"]},
        "password too short": {"password": "x"},
        "display name too long": {"displayName": "d" * 301},
        "a new name": {"name": "anne"},
    },
    "put group": {
        "no members": {},
        "members a string": {"members": "ann"},
        "members null": {"members": None},
        "members with capitals": {"members": ["Ann"]},
        "somebody unknown": {"members": ["ann", "nobody-here"]},
        "too many": {"members": ["ann"] * 1001},
    },
    "create token": {
        "no kind": {"name": "x"},
        "no name": {"kind": "agent"},
        "an unknown kind": {"kind": "root", "name": "x"},
        "name empty": {"kind": "agent", "name": ""},
        "name with a line break": {"kind": "agent", "name": "a\nb"},
        "gates empty": {"kind": "agent", "name": "x", "gates": []},
        "gates a string": {"kind": "agent", "name": "x", "gates": "*"},
        "gate with a blank": {"kind": "agent", "name": "x", "gates": ["a b"]},
        "agentIds empty": {"kind": "agent", "name": "x", "agentIds": []},
        "no life": {"kind": "agent", "name": "x", "expiresInSeconds": 0},
        "eternal life": {"kind": "agent", "name": "x", "expiresInSeconds": 10**12},
        "no quota": {"kind": "agent", "name": "x", "createsPerMinute": 0},
        "quota a string": {"kind": "agent", "name": "x", "createsPerMinute": "many"},
        "person with capitals": {"kind": "viewer", "name": "x", "person": "Ann"},
        "roles by hand": {"kind": "viewer", "name": "x", "person": "ann", "roles": ["admin"]},
    },
    "create project": {
        "no id": {},
        "id in capitals": {"id": "Big"},
        "id a star": {"id": "*"},
        "id with a slash": {"id": "a/b"},
        "id too long": {"id": "p" * 65},
        "name empty": {"id": "p", "name": ""},
        "owner with capitals": {"id": "p", "owner": "Ann"},
    },
    "change project": {"name empty": {"name": ""}, "owner a number": {"owner": 1}, "another id": {"id": "other"}},
    "put policy": {
        "cap zero": {"maxTtlSeconds": 0},
        "cap absurd": {"maxTtlSeconds": 2**40},
        "cap a string": {"maxTtlSeconds": "60"},
        "an unknown choice": {"unknownExperts": "maybe"},
    },
}
REFUSED = {"create": BAD_CREATE, "feedback": BAD_FEEDBACK} | BAD_OTHERS


@pytest.mark.parametrize("name", REFUSED)
async def test_an_invalid_value_returns_422_with_a_pointer_to_it(place: Place, name: str) -> None:
    method, path, _ = WRITES[name]
    before = await place.state()
    wrong: dict[str, Any] = {}
    for what, body in REFUSED[name].items():
        answer = await place.send(method, path, json=body)
        if problem_of(answer) != (422, "invalid_request") or not answer.json()["errors"][0]["pointer"].startswith("/"):
            wrong[what] = answer.text
    assert wrong == {}
    assert await place.state() == before


async def test_invalid_values_are_not_echoed_in_the_response(place: Place) -> None:
    long = CANARY + "x" * 30_000
    bodies = [
        _create(agentId=[CANARY]),
        _create(title=long),
        _create(callbackUrl=f"ftp://{CANARY}"),
        _create(onTimeout=CANARY),
        _create({"question": [CANARY]}),
        _create({"risk": CANARY}),
        _create({"title": CANARY}, title="another"),
        _file(sha256=CANARY),
        _file(contentBase64=CANARY),
        _form(properties={"a": {"type": CANARY}}),
    ]
    for body in bodies:
        assert problem_of(await place.send("POST", "/api/breakpoints", json=body)) == (422, "invalid_request")
    for body in ({"name": "bob", "password": [CANARY]}, {"name": "bob", "email": CANARY}):
        assert problem_of(await place.send("POST", "/api/people", json=body)) == (422, "invalid_request")
    for raw in (f'{{"x": {CANARY}}}', f'{{"password": "{CANARY}", }}', f'"{CANARY}'):
        assert problem_of(await place.raw("POST", "/api/people", raw.encode()))[0] == 400


async def test_an_invalid_token_is_not_echoed_in_the_response(place: Place) -> None:
    for token in (CANARY, f"asta_{CANARY}", "asta_" + CANARY * 100, f"{CANARY} {CANARY}"):
        answer = await place.node.call("GET", "/api/breakpoints", token)
        assert problem_of(answer) == (401, "unauthenticated")


NAMES = {
    "NUL": "%00",
    "an id with NUL": "bp_%00",
    "a line break": "%0d%0aX-Evil:1",
    "a traversal": "..%2f..%2fetc%2fpasswd",
    "SQL": quote("' OR '1'='1' --"),
    "a lone surrogate": "%ED%A0%80",
    "bad UTF-8": "%FF%FE",
    "Arabic digits": quote("٠١٢"),
    "an emoji": quote(EMOJI),
    "a star": "*",
    "capitals": "BP_" + "0" * 26,
    "nearly an id": "bp_" + "0" * 25 + "%20",
    "an id and a line break": "bp_" + "0" * 26 + "%0A",
    "full-width digits": "bp_" + quote("\uff10" * 26),
    "five thousand letters": "a" * 5000,
    "braces": "%7Bid%7D",
    "a percent sign": "%25",
}
ADDRESSES = [
    ("GET", "/api/breakpoints/{}"),
    ("GET", "/api/breakpoints/{}/status"),
    ("GET", "/api/breakpoints/{}/stream"),
    ("GET", "/api/breakpoints/{}/events"),
    ("GET", "/api/breakpoints/{}/files/0"),
    ("POST", "/api/breakpoints/{}/feedback"),
    ("POST", "/api/breakpoints/{}/cancel"),
    ("POST", "/api/breakpoints/{}/expire"),
    ("GET", "/api/people/{}"),
    ("PATCH", "/api/people/{}"),
    ("PUT", "/api/groups/{}"),
    ("DELETE", "/api/groups/{}"),
    ("DELETE", "/api/tokens/{}"),
    ("DELETE", "/api/holds/{}"),
    ("PATCH", "/api/projects/{}"),
    ("DELETE", "/api/projects/{}"),
]


@pytest.mark.parametrize(("method", "path"), ADDRESSES, ids=lambda value: value)
async def test_a_hostile_name_in_a_path_is_rejected_without_changes(place: Place, method: str, path: str) -> None:
    bodies: dict[str, Any] = {
        "PUT": {"members": []},
        "PATCH": {},
        "POST": {"comment": "Hm."} if "feedback" in path else None,
    }
    before = await place.state()
    for what, name in NAMES.items():
        answer = await place.send(method, path.format(name), json=bodies.get(method))
        assert problem_of(answer)[0] in {404, 405, 422}, what
    assert await place.state() == before


@pytest.mark.parametrize(
    "n", ["-1", "100", "1e1", "0x0", "a", quote("٣"), "%00", "1.5", "9" * 400, "%2B1%2B", quote("\uff10")]
)
async def test_a_file_number_must_be_a_small_integer(place: Place, n: str) -> None:
    assert problem_of(await place.send("GET", f"{ONE}/files/{n}"))[0] in {404, 422}


async def test_an_id_with_an_extra_character_returns_404(place: Place) -> None:
    for method, path in ADDRESSES[:8]:
        body = {"comment": "Hm."} if path.endswith("feedback") else None
        answer = await place.send(method, path.format(place.id + "0"), json=body)
        assert problem_of(answer) == (404, "not_found")


async def test_a_file_number_past_the_last_file_returns_404(place: Place) -> None:
    assert problem_of(await place.send("GET", f"{ONE}/files/0")) == (404, "not_found")


SEARCHES = [
    '"', '""', "*", "a*", "NEAR(", "NEAR(a b, 2)", "a OR", "OR", "a AND", "NOT", "a NOT b", "-x", "+x", "^a", "{a b}",
    "(", ")", "()", "a:b", "search:a", "ordinal", "'", "''", "\\", "\\'", "%", "_", "a:*", "!a", "a & b", "a | b",
    "<->", "a <-> b", '"a" "b', "a; DROP TABLE assent_breakpoints; --", "$1", ":q", "?", "?1", "@x", "#", "~", EMOJI,
    "日本語", "é", "\u202e",
    "\ufffd", "a" * 1000, "a " * 500, "\t\n a", "ﬁ", "İ", "\u0301", "0", "1e999", "null",
]  # fmt: skip


@pytest.mark.parametrize("extra", ["", "&counts=true", "&sort=updated&status=waiting", "&sort=deadline&tag=a&tag=b"])
async def test_search_syntax_is_treated_as_text(place: Place, extra: str) -> None:
    for q in SEARCHES:
        answer = await place.send("GET", f"/api/breakpoints?q={quote(q)}{extra}")
        assert answer.status_code == 200, (q, answer.text)
        assert isinstance(answer.json()["items"], list)


def _cursor(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


BAD_QUERIES: dict[str, str] = {
    "q empty": "q=",
    "q blank": "q=%20",
    "q with NUL": "q=a%00b",
    "q too long": "q=" + "a" * 1001,
    "an unknown filter": "colour=red",
    "a misspelt filter": "statuss=waiting",
    "a filter with NUL in its name": "sta%00tus=waiting",
    "status unknown": "status=done",
    "status in capitals": "status=Waiting",
    "status empty": "status=",
    "one of two statuses unknown": "status=waiting&status=x",
    "limit zero": "limit=0",
    "limit too large": "limit=201",
    "limit negative": "limit=-1",
    "limit a fraction": "limit=1.5",
    "limit a word": "limit=all",
    "limit in Arabic digits": "limit=" + quote("٥"),
    "limit in full-width digits": "limit=" + quote("\uff15"),
    "limit superscript": "limit=" + quote("²"),
    "limit enormous": "limit=" + "9" * 400,
    "limit empty": "limit=",
    "sort unknown": "sort=id",
    "sort SQL": "sort=created_at;DROP TABLE x",
    "sort backwards": "sort=-updated",
    "counts yes": "counts=yes",
    "counts a number": "counts=1",
    "assigned to somebody else": "assignedTo=ann",
    "createdAfter a word": "createdAfter=yesterday",
    "createdAfter a number": "createdAfter=1",
    "createdAfter month 13": "createdAfter=2026-13-01T00:00:00Z",
    "createdAfter year 10000": "createdAfter=10000-01-01T00:00:00Z",
    "createdAfter in Arabic digits": "createdAfter=" + quote("٢٠٢٦-01-01T00:00:00Z"),
    "createdBefore before time": "createdBefore=0000-01-01T00:00:00Z",
    "cursor garbage": "cursor=garbage",
    "cursor not base64": "cursor=%25%25%25",
    "cursor not ASCII": "cursor=" + quote(EMOJI),
    "cursor of other types": "cursor=" + _cursor(["-created", "1", 1]),
    "cursor of another list": "cursor=" + _cursor(["updated", 1, "bp_x"]),
    "cursor too long a list": "cursor=" + _cursor(["-created", 1, "bp_x", 2]),
    "cursor an object": "cursor=" + _cursor({"a": 1}),
    "cursor beyond 64 bits": "cursor=" + _cursor(["-created", 2**64, "bp_x"]),
    "cursor with NUL": "cursor=" + _cursor(["-created", 1, "bp_\x00"]),
    "cursor with a lone surrogate": "cursor=" + _cursor(["-created", 1, "bp_\ud800"]),
    "cursor a fraction": "cursor=" + _cursor(["-created", 1.5, "bp_x"]),
    "cursor empty": "cursor=",
    "tag with NUL": "tag=%00",
    "tag too long": "tag=" + "t" * 1001,
}


async def test_an_invalid_list_query_returns_422(place: Place) -> None:
    answers = {what: problem_of(await place.send("GET", f"/api/breakpoints?{q}")) for what, q in BAD_QUERIES.items()}
    assert answers == dict.fromkeys(BAD_QUERIES, (422, "invalid_request"))


@pytest.mark.parametrize(
    "query",
    [
        "tag=" + quote("' OR 1=1 --"), "tag=" + quote(EMOJI), "agentId=%25", "runId=_", "gate=*", "expert=e%3Ax",
        "createdAfter=2026-01-01", "createdBefore=9999-12-31T23:59:59.999999Z",
        "createdAfter=0001-01-01T00:00:00%2B14:00",
        "cursor=" + _cursor(["-created", -(2**61), "' OR 1=1 --"]), "cursor=" + _cursor(["-created", 2**62, "z" * 500]),
        "tag=%ED%A0%80", "agentId=%FF", "&".join(f"tag=t{n}" for n in range(60)), "status=waiting&status=waiting",
    ],
)  # fmt: skip
async def test_unusual_but_harmless_filters_are_accepted(place: Place, query: str) -> None:
    answer = await place.send("GET", f"/api/breakpoints?{query}&counts=true")
    assert answer.status_code == 200, answer.text


BAD_WAITS = [
    "nan",
    "inf",
    "-inf",
    "-1",
    "31",
    "1e9",
    "",
    "%20",
    "five",
    "1_0",
    "%205",
    quote("٥"),
    quote("\uff15"),
    "0x5",
    "%00",
]


@pytest.mark.parametrize("wait", BAD_WAITS)
async def test_a_wait_must_be_between_0_and_30_seconds(place: Place, wait: str) -> None:
    answer = await place.send("GET", f"{ONE}/status?wait={wait}")
    assert problem_of(answer) == (422, "invalid_request")


BAD_KEYS = {
    "empty": "",
    "too long": "k" * 256,
    "with a blank": "a b",
    "with a tab": "a\tb",
    "not ASCII": "schlüssel",
    "a control character": "a\x07b",
}


@pytest.mark.parametrize("path", ["/api/breakpoints", ONE + "/feedback"])
async def test_an_idempotency_key_must_be_visible_ascii(place: Place, path: str) -> None:
    body = VALID_CREATE if path == "/api/breakpoints" else {"comment": "Hm."}
    before = await place.state()
    for what, key in BAD_KEYS.items():
        headers = {"Idempotency-Key": key.encode("latin-1")}
        answer = await place.node.client.request(
            "POST",
            path.replace("{id}", place.id),
            headers=[
                (b"authorization", f"Bearer {place.token}".encode()),
                *((k.encode(), v) for k, v in headers.items()),
            ],
            json=body,
        )
        assert problem_of(answer) == (422, "invalid_request"), what
    assert await place.state() == before


@pytest.mark.parametrize("last", ["abc", "-1", "1.5", "1e3", "9" * 10, "", " ", "0x1", "1,2"])
async def test_a_last_event_id_must_be_an_event_number(place: Place, last: str) -> None:
    path = f"/api/breakpoints/{place.id}/stream"
    async with Stream(place.node, path, place.token, headers={"Last-Event-ID": last}) as stream:
        assert stream.status == 422
        assert json.loads(await stream.body())["code"] == "invalid_request"


@pytest.mark.parametrize("etag", ["garbage", '"v0"', '"v999999999"', '"v-1"', "v1", '"v1', '""', '"x", "y"', "W/v1"])
async def test_an_if_match_other_than_the_current_version_returns_412(place: Place, etag: str) -> None:
    before = await place.state()
    body = {"release": True, "option": "yes"}
    answer = await place.send("POST", ONE + "/feedback", json=body, headers={"If-Match": etag})
    assert problem_of(answer) == (412, "precondition_failed")
    assert await place.state() == before


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "not_found"),
        ("GET", "/api/breakpoints/", 404, "not_found"),
        ("POST", "/api/files/", 404, "not_found"),
        ("GET", "/api//breakpoints", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("PUT", "/api/breakpoints", 405, "method_not_allowed"),
        ("DELETE", "/api/breakpoints/bp_x", 405, "method_not_allowed"),
        ("GET", "/api/breakpoints/bp_x/cancel", 405, "method_not_allowed"),
        ("PATCH", "/api/policy", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("TRACE", "/api/breakpoints", 405, "method_not_allowed"),
        ("OPTIONS", "/api/breakpoints", 405, "method_not_allowed"),
        ("BREW", "/api/breakpoints", 405, "method_not_allowed"),
    ],
)
async def test_unknown_paths_and_methods_return_problem_responses(
    place: Place, method: str, path: str, status: int, code: str
) -> None:
    answer = await place.send(method, path)
    assert problem_of(answer) == (status, code)


async def test_a_405_lists_the_allowed_methods(place: Place) -> None:
    answer = await place.send("PUT", "/api/breakpoints")
    assert {"GET", "POST"} <= set(answer.headers["allow"].split(", "))


async def test_all_fields_at_their_limits_are_accepted_together(place: Place) -> None:
    """All texts consist of four-byte characters, so that rows and index entries are as large as possible."""
    body = {
        "agentId": EMOJI * 200,
        "runId": EMOJI * 200,
        "title": EMOJI * 300,
        "tags": [EMOJI * 98 + f"{n:02}" for n in range(50)],
        "ttlSeconds": 366 * 24 * 3600,
        "callbackUrl": "https://a/" + "a" * 1990,
        "payload": {
            "question": EMOJI * 20_000,
            "breakpointId": EMOJI * 200,
            "expert": [EMOJI * 198 + f"{n:02}" for n in range(50)],
            "options": [EMOJI * 298 + f"{n:02}" for n in range(50)],
            "context": {"files": [{"path": EMOJI * 500, "format": "text", "content": EMOJI}] * 100},
            "editable": [EMOJI * 200] * 100,
        },
    }
    created = await place.send("POST", "/api/breakpoints", json=body)
    assert created.status_code == 201, created.text[:300]
    got = (await place.send("GET", f"/api/breakpoints/{created.json()['id']}")).json()
    assert got["agentId"] == EMOJI * 200
    assert got["payload"]["question"] == EMOJI * 20_000
    found = await place.send("GET", f"/api/breakpoints?tag={quote(EMOJI * 98 + '07')}&agentId={quote(EMOJI * 200)}")
    assert [each["id"] for each in found.json()["items"]] == [created.json()["id"]]


@pytest.mark.parametrize(
    "value",
    [
        0, -0.0, 1.5, 1e300, -1e-300, 2**53 - 1, -(2**53) + 1, 0.1, 1e21, 1e22, 123456789.123456789, True, None, "", [],
        {}, "\u2028\u2029\ufeff", "\x01\x1f\x7f", "😀", "é", "e\u0301", "\\", "</script>", {"": ""},
        {"é": 1, "😀": 2, "a": 3}, [[[[[[[[1]]]]]]]], "x" * 100_000,
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
async def test_any_other_payload_value_is_returned_unchanged(place: Place, value: Any) -> None:
    created = await place.send("POST", "/api/breakpoints", json=_create({"extra": value}))
    assert created.status_code == 201, created.text[:300]
    got = await place.send("GET", f"/api/breakpoints/{created.json()['id']}")
    assert got.json()["payload"]["extra"] == value
