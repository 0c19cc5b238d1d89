"""Context files: the three ways to upload them, and how they are served safely."""

import base64
from typing import Any

import pytest

from assent.core.canonical import sha256
from assent.http.middleware import MAX_UPLOAD
from tests.support.nodes import Node

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
SCRIPT = b"<html><script>alert(document.cookie)</script></html>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'


async def attach(node: Node, *files: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    return await node.create(token, payload={"question": "?", "context": {"files": list(files)}})


async def upload(node: Node, content: bytes, token: str | None = None) -> str:
    answer = await node.call("POST", "/api/files", token or await node.token("agent"), content=content)
    assert answer.status_code == 201, answer.text
    digest: str = answer.json()["sha256"]
    return digest


async def fetch(node: Node, created: dict[str, Any], n: int = 0) -> Any:
    return await node.call("GET", f"/api/breakpoints/{created['id']}/files/{n}", await node.token("reviewer"))


async def test_every_upload_method_preserves_the_content_byte_for_byte(shared: Node) -> None:
    text, blob = "Grüße 😀\n", bytes(range(256))
    uploaded = await upload(shared, b"uploaded bytes")
    created = await attach(
        shared,
        {"path": "a/notes.md", "format": "markdown", "content": text},
        {"path": "blob.bin", "format": "text", "contentBase64": base64.b64encode(blob).decode()},
        {"path": "big.diff", "format": "diff", "language": "diff", "sha256": uploaded},
        {"path": "empty.txt", "format": "text", "content": ""},
    )
    for n, expected in enumerate((text.encode(), blob, b"uploaded bytes", b"")):
        got = await fetch(shared, created, n)
        assert (got.status_code, got.content) == (200, expected)
        assert got.headers["etag"] == f'"{sha256(expected)}"'


async def test_the_payload_contains_file_digests_but_never_file_content(shared: Node) -> None:
    content = base64.b64encode(b"secret plan").decode()
    created = await attach(shared, {"path": "plan.txt", "format": "text", "language": "en", "contentBase64": content})
    assert created["payload"]["context"]["files"] == [
        {"path": "plan.txt", "format": "text", "language": "en", "sha256": sha256(b"secret plan")}
    ]


async def test_uploading_the_same_bytes_again_returns_the_same_digest(shared: Node) -> None:
    assert await upload(shared, b"twice") == await upload(shared, b"twice") == sha256(b"twice")


async def test_a_file_with_only_a_path_is_accepted_but_cannot_be_read(shared: Node) -> None:
    created = await attach(shared, {"path": "/etc/passwd", "format": "text"})
    assert created["payload"]["context"]["files"] == [{"path": "/etc/passwd", "format": "text"}]
    got = await fetch(shared, created)
    assert (got.status_code, got.json()["code"]) == (404, "not_found")
    assert "root:" not in got.text


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/hostname", "C:\\boot.ini", "~/x", "a/../../b", "file:///etc/passwd"]
)
async def test_the_server_never_opens_a_path_supplied_by_an_agent(shared: Node, path: str) -> None:
    created = await attach(shared, {"path": path, "format": "text"})
    assert (await fetch(shared, created)).status_code == 404


@pytest.mark.parametrize(
    ("format_", "content", "kind", "shown"),
    [
        ("html", SCRIPT, "text/plain; charset=utf-8", "inline"),
        ("markdown", SCRIPT, "text/plain; charset=utf-8", "inline"),
        ("code", b"print(1)", "text/plain; charset=utf-8", "inline"),
        ("json", b"{}", "text/plain; charset=utf-8", "inline"),
        ("diff", b"+a", "text/plain; charset=utf-8", "inline"),
        ("image", PNG, "image/png", "inline"),
        ("image", b"\xff\xd8\xff\xe0", "image/jpeg", "inline"),
        ("image", b"GIF89a;", "image/gif", "inline"),
        ("image", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp", "inline"),
        ("image", SVG, "application/octet-stream", "attachment"),
        ("image", SCRIPT, "application/octet-stream", "attachment"),
        ("image", b"", "application/octet-stream", "attachment"),
        ("image", b"%PDF-1.7", "application/octet-stream", "attachment"),
    ],
)
async def test_no_file_is_served_with_an_executable_type(
    shared: Node, format_: str, content: bytes, kind: str, shown: str
) -> None:
    encoded = base64.b64encode(content).decode()
    created = await attach(shared, {"path": "evil.html", "format": format_, "contentBase64": encoded})
    got = await fetch(shared, created)
    assert got.headers["content-type"] == kind
    assert got.headers["content-disposition"].startswith(f"{shown};")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-security-policy"].startswith("sandbox; default-src 'none'")


async def test_a_file_name_cannot_break_out_of_its_header(shared: Node) -> None:
    name = 'a";\u202e filename=evil.exe 😀;é.txt'
    created = await attach(shared, {"path": f"dir/{name}", "format": "text", "content": "x"})
    disposition = (await fetch(shared, created)).headers["content-disposition"]
    assert disposition.isascii()
    assert disposition.count(";") == 1
    assert '"' not in disposition


async def test_a_file_uploaded_to_another_project_cannot_be_attached(node: Node) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "elsewhere"})
    foreign = await node.token("agent", project="elsewhere", name="foreign")
    digest = await upload(node, b"only over there", foreign)
    body = {
        "agentId": "a",
        "payload": {"context": {"files": [{"path": "x", "format": "text", "sha256": digest}]}},
    }
    refused = await node.call("POST", "/api/breakpoints", await node.token("agent"), json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert refused.json()["errors"][0]["pointer"] == "/payload/context/files/0/sha256"
    assert (await node.call("POST", "/api/breakpoints", foreign, json=body)).status_code == 201


async def test_the_total_size_of_all_files_is_limited_to_50_mebibytes(shared: Node) -> None:
    digests = [await upload(shared, bytes([n]) * MAX_UPLOAD) for n in range(5)]
    small = await upload(shared, b"x")
    files = [{"path": f"{n}", "format": "text", "sha256": digest} for n, digest in enumerate(digests)]
    assert (await attach(shared, *files))["status"] == "waiting"
    files.append({"path": "one more", "format": "text", "sha256": small})
    body = {"agentId": "a", "payload": {"context": {"files": files}}}
    answer = await shared.call("POST", "/api/breakpoints", await shared.token("agent"), json=body)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_the_digest_covers_the_files(shared: Node) -> None:
    one = await attach(shared, {"path": "a", "format": "text", "content": "1"})
    two = await attach(shared, {"path": "a", "format": "text", "content": "2"})
    same = await attach(shared, {"path": "a", "format": "text", "sha256": sha256(b"1")})
    assert one["digest"] != two["digest"]
    assert one["digest"] == same["digest"]
