"""URLs and addresses that are rejected before anything is sent."""

import contextlib
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.kernel.outbound import BadUrl, Outbound, Permanent, Transient, _Guard, check_url, refused
from tests.kernel.outbound.receivers import Directory

# At least one address of each kind that is not public.
REFUSED = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255"),
    *("127.0.0.1", "127.1.2.3", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255"),
    *("192.0.0.1", "192.0.0.9", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::7f00:1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8"),
    *("::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808", "64:ff9b:1::1"),
    *("64:ff9b:1:ffff::7f00:1", "100::1", "100:0:0:1::1", "200::1", "400::1", "1000::1"),
    *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1::1"),
    *("2001:db8::1", "2002::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:808:808::1", "3fff::1", "3fff:fff::1"),
    *("4000::1", "5f00::1", "8000::1", "c000::1", "e000::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%1"),
    *("febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1"),
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1"),
    *("198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001:82a::200e", "2001:4860:4860::8888"),
]

# URLs that must be rejected wherever a URL is accepted.
BAD_URLS = {
    # other spellings of 127.0.0.1 and similar addresses
    **dict.fromkeys(
        [
            *("http://0x7f.1/", "http://0x7f000001/", "http://0x7F.0.0.0x1/", "http://2130706433/", "http://127.1/"),
            *("http://017700000001/", "http://0177.0.0.1/", "http://127.0.1/", "http://127.0.0.1.1/", "http://0/"),
            *("http://00/", "http://0x/", "http://127.0.0.0x1/", "http://4294967295/", "http://127.0.0.256/"),
            *("http://99999999999/", "http://1.2.3/", "http://a.b.7/", "http://evil.0x7f/", "http://010.0.0.1/"),
        ],
        "is not a valid IPv4 address in dotted decimal notation",
    ),
    **dict.fromkeys(
        [
            *("http://127.0.0.1/", "https://127.0.0.1:8443/", "http://[::ffff:127.0.0.1]/", "http://[::1]/"),
            *("http://[::]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b::7f00:1]/"),
            *("http://localhost/", "http://LOCALHOST:8080/", "http://a.localhost/", "http://169.254.169.254/latest"),
            *("http://[fd00:ec2::254]/", "http://0.0.0.0/", "http://192.168.1.1/", "http://[fe80::1]/"),
        ],
        "The operator can allow it with ASSENT_OUTBOUND_ALLOW",
    ),
    **dict.fromkeys(
        [
            "http://[::1%25eth0]/",
            "http://[fe80::1%1]/",
            "http://[::1/",
            "http://::1/",
            "http://a[b]/",
            "http://[v1.a]/",
        ],
        "must have a valid host",
    ),
    **dict.fromkeys(["http://[:::1]/", "http://[1:2]/", "http://[127.0.0.1]/"], "is not a valid IPv6 address"),
    # invalid names
    **dict.fromkeys(["http://127.0.0.1./", "http://localhost./", "https://example.com./"], "must not end with a dot"),
    **dict.fromkeys(
        [
            *("http://a..b/", "http://.a/", "http://-a.b/", "http://a-.b/", f"http://{'a' * 64}.com/"),
            f"http://{'a.' * 130}com/",
        ],
        "is not a valid hostname",
    ),
    **dict.fromkeys(
        [
            "http://",
            "http:///x",
            "http://?x",
            "http://a:b/",
            "http://a:/",
            "http://a:123456/",
            "http://%31/",
            "http://a;b/",
        ],
        "must have a valid host",
    ),
    # characters that one program drops and another keeps
    **dict.fromkeys(
        [
            *("http://１２７.０.０.１/", "http://127。0。0。1/", "http://ⓛocalhost/", "http://bücher.example/"),
            *("http://a b/", "http://a\tb/", "http://a\r\nHost: b/", "http://a/\r\nX: y", "http://a\0b/", " http://a/"),
            *("http://a/ü", "http://a/\x7f", "http://a\u200bb/", "http://a/\ud800"),
        ],
        "must not contain the character U+",
    ),
    # URLs whose apparent host is not the actual one
    **dict.fromkeys(
        [
            *("http://user@example.com/", "http://user:pass@example.com/", "http://example.com@127.0.0.1/"),
            *("http://example.com:80@127.0.0.1/", "http://@a/", "http://a%40b@c/"),
        ],
        "must not contain a username or password",
    ),
    **dict.fromkeys(["http://a\\@b/", "http://a\\b/", "http://a#@b/", "http://a|b/"], "must have a valid host"),
    "http://example.com/#@127.0.0.1": "must not contain a fragment",
    **dict.fromkeys(
        [
            *("ftp://example.com/", "file:///etc/passwd", "gopher://a/", "javascript:alert(1)", "//example.com/", ""),
            *("example.com", "http:example.com", "http:/example.com", "https", "data:,a", "unix:///run/docker.sock"),
        ],
        "must start with https:// or http://",
    ),
    **dict.fromkeys(
        ["http://example.com:25/", "http://example.com:6379/", "http://example.com:0/", "https://example.com:0022/"],
        "is not used for HTTP",
    ),
    "http://example.com:65536/": "65536 is not a valid port",
    "https://example.com/" + "a" * 2000: "must be at most 2000",
}
GOOD_URLS = [
    *("https://example.com", "https://example.com/", "http://example.com/hook?x=1&y=%20", "HTTPS://Example.COM/A"),
    *("https://example.com?x", "https://xn--bcher-kva.example/", "https://a_b.example.com:8443/", "http://intranet/x"),
    *("http://8.8.8.8/", "http://[2606:4700::1111]:8080/", "https://1.com/", "https://0x7f.com/", "https://a-b.c/"),
    "https://example.com/a@b:c//d",
]

addresses_v4 = st.integers(0, 2**32 - 1).map(IPv4Address)
addresses_v6 = st.integers(0, 2**128 - 1).map(IPv6Address)
not_public_v4 = st.sampled_from([IPv4Address(each) for each in REFUSED if "." in each and ":" not in each])
EVERYTHING = [ip_network("0.0.0.0/0"), ip_network("::/0")]


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_is_not_public_is_rejected(text: str) -> None:
    assert refused(ip_address(text))


# The kind comes from our own table and does not depend on the version of Python.
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0.1.2.3", "an unspecified address"),
        ("127.1.2.3", "a loopback address"),
        ("fd00::1", "a private address"),
        ("fec0::1", "a private address"),
        ("169.254.169.254", "a link-local address"),
        ("100.64.0.1", "a carrier-grade NAT address"),
        ("ff0e::1", "a multicast address"),
        ("2001:db8::1", "a documentation address"),
        ("64:ff9b::808:808", "an IPv6 address that contains an IPv4 address"),
        ("64:ff9b:1::1", "an IPv6 address that contains an IPv4 address"),
        ("::ffff:8.8.8.8", "an IPv6 address that contains an IPv4 address"),
        ("2001:1::1", "a reserved address"),
        ("240.0.0.1", "a reserved address"),
        ("4000::1", "not a public address"),
    ],
)
def test_an_error_names_the_kind_of_address(text: str, kind: str) -> None:
    assert refused(ip_address(text)) == kind


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_accepted(text: str) -> None:
    assert refused(ip_address(text)) is None


@pytest.mark.parametrize("text", REFUSED)
def test_an_operator_can_allow_any_address(text: str) -> None:
    assert refused(ip_address(text), EVERYTHING) is None


def test_allowing_an_address_does_not_allow_others() -> None:
    assert refused(ip_address("127.0.0.1"), [ip_network("127.0.0.1")]) is None
    assert refused(ip_address("::1"), [ip_network("::1")]) is None
    assert refused(ip_address("127.0.0.2"), [ip_network("127.0.0.1")])


@given(addresses_v4 | addresses_v6)
def test_addresses_that_python_classifies_as_special_are_rejected(address: IPv4Address | IPv6Address) -> None:
    special = (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
    )
    assert not special or refused(address)


@given(
    not_public_v4,
    st.sampled_from(["::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/96", "::ffff:0:0:0/96"]).map(IPv6Network),
)
def test_an_ipv4_address_inside_an_ipv6_address_is_checked_too(inner: IPv4Address, around: IPv6Network) -> None:
    outer = around[int(inner)]
    assert refused(outer)
    assert refused(outer, [around]), "allowing a translation prefix does not allow embedded addresses"
    assert refused(outer, [around, IPv4Network(inner)]) is None


@given(not_public_v4)
def test_6to4_and_teredo_do_not_hide_an_address(inner: IPv4Address) -> None:
    tunnel = IPv6Address((0x2002 << 112) | (int(inner) << 80) | 1)
    teredo = IPv6Address((0x20010000 << 96) | (0x01010101 << 64) | (int(inner) ^ 0xFFFFFFFF))
    assert refused(tunnel, [ip_network("2002::/16")])
    assert refused(teredo, [ip_network("2001::/32")])


@pytest.mark.parametrize(("url", "why"), BAD_URLS.items(), ids=map(ascii, BAD_URLS))
async def test_an_invalid_url_is_rejected_with_the_reason(url: str, why: str) -> None:
    resolver = Directory({})

    with pytest.raises(BadUrl) as refusal:
        check_url(url)
    with pytest.raises(Permanent) as failed:
        await Outbound(resolver=resolver).post(url, body=b"", headers={})

    assert why in str(refusal.value)
    assert failed.value.message == str(refusal.value)
    assert resolver.asked == []


@pytest.mark.parametrize("url", GOOD_URLS)
def test_a_valid_url_is_accepted(url: str) -> None:
    check_url(url)


def test_the_corpus_has_at_least_60_entries_per_list() -> None:
    assert len(set(REFUSED)) >= 60
    assert len(BAD_URLS) >= 60


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://localhost:8080/", "http://[::1]/"])
def test_a_url_in_an_allowed_network_is_accepted(url: str) -> None:
    check_url(url, allow=[ip_network("127.0.0.0/8"), ip_network("::1")])


@given(st.text() | st.builds("http{}://{}".format, st.sampled_from(["", "s"]), st.text(max_size=30)))
def test_any_text_is_either_accepted_or_rejected(text: str) -> None:
    with contextlib.suppress(BadUrl):
        check_url(text)


urlish = st.text(alphabet="abz019.:/@?#%[]\\-_x", max_size=25)


@given(st.builds("http://{}".format, urlish))
def test_other_parsers_find_the_same_host(url: str) -> None:
    try:
        check_url(url)
    except BadUrl:
        return
    assert (urlsplit(url).hostname or "") == httpx2.URL(url).host
    assert httpx2.URL(url).userinfo == b""


numbers = st.builds(
    lambda number, spelling: spelling.format(number), st.integers(0, 2**32), st.sampled_from(["{}", "0x{:x}", "0{:o}"])
)


@given(st.lists(numbers | st.sampled_from(["127", "0", "1", "10"]), min_size=1, max_size=4).map(".".join))
def test_no_spelling_of_an_address_bypasses_the_check(host: str) -> None:
    try:
        check_url(f"http://{host}/")
    except BadUrl:
        return
    meant = socket.inet_ntoa(socket.inet_aton(host))
    assert host == meant
    assert refused(IPv4Address(meant)) is None


@pytest.mark.parametrize("text", REFUSED)
async def test_a_hostname_that_resolves_to_a_forbidden_address_is_rejected(text: str) -> None:
    outbound = Outbound(resolver=Directory({"hooks.test": [text]}))

    with pytest.raises(Permanent, match="ASSENT_OUTBOUND_ALLOW") as failed:
        await outbound.post("http://hooks.test/", body=b"", headers={})

    assert not failed.value.gone
    assert text not in failed.value.message, "the message must not reveal our network"


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_hostname_with_a_single_forbidden_address_is_rejected(place: int) -> None:
    addresses = ["8.8.8.8", "2606:4700::1111"]
    addresses.insert(place, "10.0.0.1")

    with pytest.raises(Permanent, match=r"hooks\.test resolves to a private address"):
        await Outbound(resolver=Directory({"hooks.test": addresses})).post("http://hooks.test/", body=b"", headers={})


async def test_all_public_addresses_of_a_hostname_are_returned() -> None:
    guard = _Guard(Directory({"hooks.test": PUBLIC}), ())

    assert await guard.vetted("hooks.test", 443, 5) == [ip_address(each) for each in PUBLIC]


@pytest.mark.parametrize("names", [{}, {"hooks.test": []}])
async def test_a_hostname_that_does_not_resolve_is_a_transient_failure(names: dict[str, list[str]]) -> None:
    with pytest.raises(Transient, match=r"The hostname hooks\.test") as failed:
        await Outbound(resolver=Directory(names)).post("https://hooks.test/", body=b"", headers={})
    assert failed.value.unsent
