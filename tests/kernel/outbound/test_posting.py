"""Sent requests, accepted responses, and which failures can be retried."""

import asyncio
import gzip
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.kernel.outbound import (
    LONGEST_RETRY_AFTER,
    Limits,
    Outbound,
    Permanent,
    Reply,
    Transient,
    _headers,
    _parsed,
    _retry_after,
)
from tests.kernel.outbound.receivers import (
    Answer,
    Directory,
    certificate,
    receiving,
    repeats,
    resets,
    says,
    says_then_closes,
    stalls,
    writes,
)
from tests.support.nodes import free_port

LOOPBACK = [ip_network("127.0.0.0/8")]
QUICK = Limits(connect=5, read=0.2, total=600)
BUSY = Limits(connect=5, read=600, total=0.5)


async def posted(answer: Answer, *, limits: Limits | None = None) -> Reply:
    outbound = Outbound(allow=LOOPBACK, limits=limits)
    try:
        async with receiving(answer) as receiver:
            return await outbound.post(receiver.url(), body=b"{}", headers={})
    finally:
        await outbound.close()


async def test_the_request_is_sent_unchanged() -> None:
    outbound = Outbound(allow=LOOPBACK, resolver=Directory({"hooks.test": ["127.0.0.1"]}))
    async with receiving(says(202, b"thanks", x_trace="7")) as receiver:
        reply = await outbound.post(receiver.url("Hooks.Test"), body=b'{"a":1}', headers={"X-One": "1"})
        await outbound.close()

    heard = receiver.heard[0]
    assert heard.line == "POST /hook?a=1 HTTP/1.1"
    assert heard.body == b'{"a":1}'
    assert heard.headers == {
        "host": f"hooks.test:{receiver.port}",
        "accept-encoding": "identity",
        "content-length": "7",
        "user-agent": "Assent",
        "x-one": "1",
    }
    assert (reply.status, reply.body, reply.headers["x-trace"]) == (202, b"thanks", "7")
    assert reply.milliseconds >= 0


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "X-Ümlaut"])
async def test_a_reserved_header_is_rejected(name: str) -> None:
    with pytest.raises(Permanent, match="is reserved"):
        await Outbound(allow=LOOPBACK).post("http://127.0.0.1/", body=b"", headers={name: "1"})


@pytest.mark.parametrize(("name", "value"), [("X", "a\r\nHost: b"), ("X\n", "a"), ("X", "a\0"), ("X Y", "a")])
async def test_a_header_cannot_inject_another_header(name: str, value: str) -> None:
    outbound = Outbound(allow=LOOPBACK)
    async with receiving(says()) as receiver:
        with pytest.raises(Permanent, match="could not be encoded"):
            await outbound.post(receiver.url(), body=b"", headers={name: value})
        await outbound.close()
    assert receiver.heard == []


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_only_2xx_responses_count_as_success(status: int) -> None:
    assert (await posted(says(status, b""))).status == status


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422])
async def test_a_message_rejected_by_the_receiver_is_not_retried(status: int) -> None:
    with pytest.raises(Permanent, match=f"responded with {status}") as failed:
        await posted(says(status))
    assert (failed.value.status, failed.value.gone) == (status, False)


async def test_a_410_response_marks_the_receiver_as_gone() -> None:
    with pytest.raises(Permanent) as failed:
        await posted(says(410))
    assert failed.value.gone


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 418, 421, 425, 429, 451, 500, 501, 502, 503, 504, 599])
async def test_a_retryable_status_is_a_transient_failure(status: int) -> None:
    with pytest.raises(Transient) as failed:
        await posted(says(status, retry_after="7"))
    assert (failed.value.status, failed.value.retry_after) == (status, 7)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with receiving(says()) as elsewhere:
        with pytest.raises(Transient, match="does not follow redirects"):
            await posted(says(status, location=elsewhere.url()))
    assert elsewhere.connections == 0


@pytest.mark.parametrize(
    ("retry_after", "date", "seconds"),
    [
        ("0", None, 0),
        ("120", None, 120),
        ("86400", None, 86400),
        ("86401", None, LONGEST_RETRY_AFTER),
        ("9" * 400, None, LONGEST_RETRY_AFTER),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:26:30 GMT", 90),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT", 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT", LONGEST_RETRY_AFTER),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "yesterday", None),
        ("Wed, 21 Oct 2026 07:28:00 -0000", "Wed, 21 Oct 2026 07:26:30 GMT", None),
        ("-5", None, None),
        ("1.5", None, None),
        ("soon", None, None),
        ("", None, None),
        ("٣", None, None),
    ],
)
def test_both_forms_of_retry_after_are_parsed(retry_after: str, date: str | None, seconds: int | None) -> None:
    headers = {"retry-after": retry_after} | ({"date": date} if date else {})
    assert _retry_after(headers) == seconds


@given(st.text(), st.text())
def test_any_retry_after_header_can_be_parsed(retry_after: str, date: str) -> None:
    wait = _retry_after({"retry-after": retry_after, "date": date})
    assert wait is None or 0 <= wait <= LONGEST_RETRY_AFTER


async def test_a_response_without_retry_after_has_no_delay() -> None:
    with pytest.raises(Transient) as failed:
        await posted(says(503))
    assert failed.value.retry_after is None


async def test_an_endless_response_is_truncated_and_its_connection_closed() -> None:
    endless = repeats(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"a" * 1024 + b"\r\n")
    outbound = Outbound(allow=LOOPBACK)
    async with receiving(endless) as receiver:
        reply = await outbound.post(receiver.url(), body=b"", headers={})
        await receiver.hung_up.wait()
    await outbound.close()
    assert reply.body == b"a" * 64 * 1024


@pytest.mark.parametrize("size", [0, 99, 100, 101])
async def test_a_response_body_is_truncated_to_the_limit(size: int) -> None:
    reply = await posted(says(200, b"a" * size), limits=Limits(body=100))
    assert reply.body == b"a" * min(size, 100)


async def test_compressed_responses_are_not_decompressed() -> None:
    bomb = gzip.compress(bytes(1_000_000))
    assert (await posted(says(200, bomb, content_encoding="gzip"))).body == bomb


@pytest.mark.parametrize(
    ("answer", "limits"),
    [
        (stalls(), QUICK),
        (stalls(b"HTTP/1.1 200 OK\r\nContent-Le"), QUICK),
        (stalls(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na"), QUICK),
        (stalls(), BUSY),
        (repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), BUSY),
    ],
    ids=["no answer", "half a head", "half a body", "no answer at all", "only promises"],
)
async def test_a_receiver_that_takes_too_long_times_out(answer: Answer, limits: Limits) -> None:
    with pytest.raises(Transient, match="did not respond in time") as failed:
        await posted(answer, limits=limits)
    assert not failed.value.unsent


async def test_a_name_server_that_does_not_respond_times_out() -> None:
    class Silent:
        async def __call__(self, host: str, port: int) -> list[str]:
            del host, port
            await asyncio.Event().wait()
            return []

    outbound = Outbound(resolver=Silent(), limits=Limits(connect=0.1))
    with pytest.raises(Transient, match=r"The DNS lookup for .* timed out") as failed:
        await outbound.post("http://hooks.test/", body=b"", headers={})
    assert failed.value.unsent


@pytest.mark.parametrize(
    "answer",
    [
        resets,
        says_then_closes(b""),
        says_then_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na"),
        writes(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        writes(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000 + b"\r\n\r\n"),
        repeats(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 100),
        writes(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        writes(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\naa"),
    ],
    ids=["reset", "closed", "cut", "not HTTP", "huge header", "endless headers", "another protocol", "two lengths"],
)
async def test_a_malformed_response_is_retried(answer: Answer) -> None:
    with pytest.raises(Transient, match=r"The request to 127\.0\.0\.1 failed") as failed:
        await posted(answer)
    assert not failed.value.unsent


async def test_a_refused_connection_is_retried() -> None:
    outbound, port = Outbound(allow=LOOPBACK), free_port()
    with pytest.raises(Transient, match="connection refused") as failed:
        await outbound.post(f"http://127.0.0.1:{port}/", body=b"", headers={})
    assert failed.value.unsent
    with pytest.raises(Transient, match="connection refused") as failed:
        await outbound.dial("127.0.0.1", port)
    assert failed.value.unsent


async def test_the_next_address_is_tried_if_one_does_not_respond() -> None:
    outbound = Outbound(allow=LOOPBACK, resolver=Directory({"hooks.test": ["127.0.0.3", "127.0.0.1"]}))
    async with receiving(says()) as receiver:
        assert (await outbound.post(receiver.url("hooks.test"), body=b"", headers={})).status == 200
        await outbound.close()


async def test_the_operating_system_resolves_hostnames() -> None:
    outbound = Outbound(allow=[*LOOPBACK, ip_network("::1")])
    async with receiving(says()) as receiver:
        assert (await outbound.post(receiver.url("localhost"), body=b"", headers={})).status == 200
        await outbound.close()


async def test_proxies_from_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving(says()) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        await posted(says())
    assert proxy.connections == 0


async def test_all_of_150_concurrent_posts_arrive() -> None:
    outbound = Outbound(allow=LOOPBACK)
    async with receiving(says()) as receiver:
        posts = [outbound.post(receiver.url(), body=str(n).encode(), headers={}) for n in range(150)]
        assert {each.status for each in await asyncio.gather(*posts)} == {200}
        await outbound.close()
    assert sorted(int(each.body) for each in receiver.heard) == list(range(150))


async def test_a_cancelled_post_does_not_affect_later_ones() -> None:
    outbound = Outbound(allow=LOOPBACK)
    async with receiving(stalls()) as silent, receiving(says()) as receiver:
        waiting = asyncio.create_task(outbound.post(silent.url(), body=b"", headers={}))
        await silent.reached.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await outbound.post(receiver.url(), body=b"", headers={})).status == 200
        await outbound.close()


async def test_a_certificate_must_match_the_hostname_and_not_the_address(tmp_path: Path) -> None:
    made = certificate(tmp_path, "good.test")
    asked = list[str | None]()
    made.server.sni_callback = lambda _socket, name, _context: asked.append(name)
    names = Directory({"good.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})
    outbound = Outbound(allow=LOOPBACK, resolver=names, tls=made.client)

    async with receiving(says(), tls=made.server) as receiver:
        reply = await outbound.post(receiver.url("good.test", scheme="https"), body=b"{}", headers={})
        with pytest.raises(Transient, match=r"its certificate was rejected.*other\.test"):
            await outbound.post(receiver.url("other.test", scheme="https"), body=b"{}", headers={})
        with pytest.raises(Transient, match="its certificate was rejected"):
            await outbound.post(receiver.url(scheme="https"), body=b"{}", headers={})
        await outbound.close()

    assert reply.status == 200
    assert asked[:2] == ["good.test", "other.test"]
    assert [each.headers["host"] for each in receiver.heard] == [f"good.test:{receiver.port}"]


async def test_an_untrusted_certificate_is_rejected(tmp_path: Path) -> None:
    made = certificate(tmp_path, "good.test")
    outbound = Outbound(allow=LOOPBACK, resolver=Directory({"good.test": ["127.0.0.1"]}))

    async with receiving(says(), tls=made.server) as receiver:
        with pytest.raises(Transient, match="its certificate was rejected: self-signed") as failed:
            await outbound.post(receiver.url("good.test", scheme="https"), body=b"{}", headers={})
        assert failed.value.unsent
        await outbound.close()
    assert receiver.heard == []


async def test_an_https_request_to_a_plain_http_receiver_is_retried() -> None:
    outbound = Outbound(allow=LOOPBACK, limits=Limits(connect=0.5))
    async with receiving(says()) as receiver:
        with pytest.raises(Transient):
            await outbound.post(receiver.url(scheme="https"), body=b"", headers={})
        await outbound.close()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://hooks.test", b"hooks.test"),
        ("https://hooks.test:443/", b"hooks.test"),
        ("http://hooks.test:443/", b"hooks.test:443"),
        ("http://[2606:4700::1111]:0080?x", b"[2606:4700::1111]"),
    ],
)
def test_the_host_header_omits_the_default_port(url: str, host: bytes) -> None:
    assert _headers(_parsed(url), b"", {})[0] == (b"host", host)


async def test_an_unused_client_can_be_closed() -> None:
    await Outbound().close()
