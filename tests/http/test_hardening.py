"""Security headers of every response, and the logging of rejected requests and sign-ins."""

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from assent.kernel.settings import Settings
from tests.support.nodes import ManualClock, Node, running_node, server
from tests.web.visitors import PASSWORD, person, signed_in, visitor

DOCUMENTED = ("/api/breakpoints", "/api/nothing", "/healthz", "/readyz", "/metrics", "/openapi.json")
PAGES = ("/", "/sign-in", "/account", "/nowhere", "/problems/forbidden")
LONGEST_PASSWORD = "é" * 99 + "  Aa\u202f" + "x" * 96


async def answers(node: Node) -> dict[str, Any]:
    """Return responses of every kind: of the API, of pages, a script, and an agent's file."""
    browser = await signed_in(node, "ann", "viewer")
    file = {"path": "a.md", "format": "markdown", "content": "x"}
    created = await node.create(payload={"context": {"files": [file]}})
    agent = await node.token("agent")
    home = await browser.get("/")
    script = home.text.partition('<script type="module" src="')[2].partition('"')[0]
    return {
        **{path: await node.call("GET", path, await node.token("admin")) for path in DOCUMENTED},
        **{path: await browser.get(path) for path in PAGES},
        "a file": await node.call("GET", f"/api/breakpoints/{created['id']}/files/0", agent),
        "a file on its page": await browser.get(f"/breakpoints/{created['id']}/files/0"),
        "without a token": await node.client.get("/api/breakpoints"),
        "a script": await browser.get(script or "/static/none"),
        "a hook": await node.client.post("/hooks/nobody", content=b"{}"),
    }


async def test_every_response_has_a_content_security_policy(node: Node) -> None:
    for name, answer in (await answers(node)).items():
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy, name
        for part in ("object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"):
            assert part in policy, (name, part)
        assert "unsafe-eval" not in policy, name
        assert "script-src *" not in policy, name


async def test_every_text_response_declares_its_encoding(node: Node) -> None:
    for name, answer in (await answers(node)).items():
        if not answer.content:
            continue
        kind = answer.headers["content-type"]
        if kind.startswith("text/"):
            assert "charset=utf-8" in kind.lower(), name
        else:
            assert kind in {"application/json", "application/problem+json"}, name


async def test_api_responses_are_never_cached(node: Node) -> None:
    admin = await node.token("admin")
    for path in ("/api/breakpoints", "/api/people", "/api/tokens", "/api/rules", "/api/policy", "/api/nothing"):
        assert "no-store" in (await node.call("GET", path, admin)).headers["cache-control"], path


async def test_no_response_allows_cross_origin_access(node: Node) -> None:
    elsewhere = {"origin": "https://elsewhere.example"}
    for path in (*DOCUMENTED, *PAGES):
        answer = await node.client.get(path, headers=elsewhere)
        assert not [each for each in answer.headers if each.startswith("access-control-")], path


async def test_behind_tls_every_response_has_an_hsts_header(sqlite_settings: Settings, clock: ManualClock) -> None:
    settings = sqlite_settings.model_copy(update={"public_url": "https://assent.example"})
    async with running_node(settings, clock=clock) as node:
        for path in (*DOCUMENTED, *PAGES):
            sent = (await node.client.get(path)).headers["strict-transport-security"]
            assert sent == "max-age=31536000; includeSubDomains", path


async def test_responses_without_tls_do_not_have_an_hsts_header(node: Node) -> None:
    assert "strict-transport-security" not in (await node.client.get("/healthz")).headers


async def test_rejected_requests_are_logged_with_path_and_address(node: Node) -> None:
    agent = await node.token("agent")
    with capture_logs() as logs:
        await node.client.get("/api/breakpoints", headers={"authorization": "Bearer hunter2"})
        await node.call("GET", "/api/people", agent)
        await node.call("GET", "/api/breakpoints", agent)
    requests = [each for each in logs if each["event"] == "request"]
    assert [(each["path"], each["status"], each["address"], each["log_level"]) for each in requests] == [
        ("/api/breakpoints", 401, "127.0.0.1", "warning"),
        ("/api/people", 403, "127.0.0.1", "warning"),
    ]
    assert "hunter2" not in str(logs)


async def test_sign_ins_are_logged_with_their_method_and_address(node: Node) -> None:
    await person(node, "ann", "reviewer")
    browser = visitor(node, address="192.0.2.7")
    with capture_logs() as logs:
        await browser.sign_in("ann", "not her password")
        await browser.sign_in("ann")
        await signed_in(node, "bea")
    told = [(each["event"], each.get("way"), each.get("status"), each["address"]) for each in logs]
    assert told == [
        ("request", None, 401, "192.0.2.7"),
        ("signed_in", "password", None, "192.0.2.7"),
        ("signed_in", "link", None, "127.0.0.1"),
    ]
    assert all(str(each["person"]).startswith("per_") for each in logs if each["event"] == "signed_in")
    assert PASSWORD not in str(logs)


async def test_a_password_must_match_exactly(node: Node) -> None:
    await person(node, "ann", "reviewer", password=LONGEST_PASSWORD)
    for typed in (LONGEST_PASSWORD.strip() + " ", LONGEST_PASSWORD.swapcase(), LONGEST_PASSWORD[:-1]):
        assert (await visitor(node).sign_in("ann", typed)).status_code == 401
    assert (await visitor(node).sign_in("ann", LONGEST_PASSWORD)).status_code == 303


async def test_a_password_does_not_expire(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    clock.advance(10 * 366 * 24 * 3600)
    assert (await visitor(node).sign_in("ann")).status_code == 303


async def test_a_password_field_is_masked_and_allows_password_managers(node: Node) -> None:
    browser = await signed_in(node)
    for page in (await visitor(node).page("/sign-in"), await browser.page("/account")):
        boxes = [each for each in page.all("input") if "password" in each.get("autocomplete", "")]
        assert boxes
        for box in boxes:
            assert box["type"] == "password"
            assert not [name for name in box if name.startswith("on")]


async def test_every_page_has_a_sign_out_button(node: Node) -> None:
    browser = await signed_in(node, "ann", "reviewer", "admin", "auditor", "rule-admin")
    for path in ("/", "/account", "/runs", "/rules", "/gates", "/insights", "/deliveries", "/admin/people"):
        assert "/sign-out" in {form.action for form in (await browser.page(path)).forms}, path


@pytest.mark.parametrize("name", ["owner", "admin", "root", "assent"])
async def test_no_account_has_a_default_password(node: Node, name: str) -> None:
    for password in ("", name, "password", "nobody has this password"):
        assert (await visitor(node).sign_in(name, password)).status_code == 401


SMUGGLED = {
    "two ways to tell the length": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a length that is none": b"Content-Length: +4\r\n\r\nabcd",
    "an unknown encoding": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Content-Length : 4\r\n\r\nabcd",
}


def test_a_request_with_an_ambiguous_length_is_rejected(sqlite_settings: Settings) -> None:
    with server(sqlite_settings) as process:
        where = urlsplit(process.url)
        for name, rest in SMUGGLED.items():
            with socket.create_connection((where.hostname, where.port), timeout=60) as raw:
                raw.sendall(b"POST /api/breakpoints HTTP/1.1\r\nHost: assent.test\r\n" + rest)
                assert raw.recv(1000).startswith(b"HTTP/1.1 400"), name


def test_a_client_that_never_reads_is_disconnected_by_a_real_server(sqlite_settings: Settings) -> None:
    with server(sqlite_settings, write_timeout_seconds="0.2") as process:
        where = urlsplit(process.url)
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(60)
            raw.connect((where.hostname, where.port))
            with pytest.raises(ConnectionError):
                raw.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: assent.test\r\n\r\n" * 500_000)


def test_a_websocket_upgrade_is_treated_as_a_plain_request(sqlite_settings: Settings) -> None:
    """Connections of other protocols are not watched for slow clients."""
    with server(sqlite_settings) as process:
        where = urlsplit(process.url)
        with socket.create_connection((where.hostname, where.port), timeout=60) as raw:
            raw.sendall(
                b"GET /healthz HTTP/1.1\r\nHost: assent.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            assert raw.recv(1000).startswith(b"HTTP/1.1 200")
