"""The content, markup and response headers of every page."""

import base64
import re
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from assent.core.errors import AssentError
from assent.web.open_pages import error_classes
from assent.web.site import ASSETS, CSP
from tests.support.nodes import ManualClock, Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, link, person, signed_in, visitor

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
EVERYTHING: dict[str, Any] = {
    "title": "Deploy to production",
    "runId": "run-7",
    "tags": ["prod"],
    "ttlSeconds": 300,
    "priority": "urgent",
    "payload": {
        "question": "Deploy build 4812?",
        "breakpointId": "deploy.production",
        "risk": "high",
        "attempt": 3,
        "previousFeedback": "Run the smoke tests first.",
        "expert": ["ann", "nobody-has-this-name"],
        "strategy": "quorum",
        "options": ["Canary", "All at once"],
        "arguments": {"build": 4812},
        "form": {
            "properties": {
                "budget": {"type": "integer", "title": "Budget", "description": "In euros", "minimum": 1},
                "note": {"type": "string"},
                "line": {"type": "string", "maxLength": 20},
                "sure": {"type": "boolean"},
                "region": {"type": "string", "enum": ["eu", "us"]},
            },
            "required": ["budget", "sure"],
        },
        "context": {
            "files": [
                {"path": "plan.md", "format": "markdown", "content": "# A plan\n"},
                {"path": "page.html", "format": "html", "content": "<h1>Hi</h1>"},
                {"path": "shot.png", "format": "image", "contentBase64": base64.b64encode(PNG).decode()},
                {"path": "tool.bin", "format": "image", "contentBase64": "AAECAw=="},
                {"path": "lost.log", "format": "text"},
            ]
        },
    },
}


async def every_page(node: Node) -> dict[str, httpx2.Response]:
    browser = await signed_in(node)
    created = await node.create(**EVERYTHING)
    one = f"/breakpoints/{created['id']}"
    form = (await browser.page(one)).form("/confirm").fields
    answers = {"option": "0", "field-0": "5", "field-3": "yes"}
    return {
        "sign-in": await visitor(node).get("/sign-in"),
        "wrong password": await visitor(node).sign_in("ann", "wrong"),
        "link": await visitor(node).get(f"/sign-in/{await link(node, 'ann')}"),
        "used link": await visitor(node).get("/sign-in/used"),
        "list": await browser.get("/"),
        "filtered list": await browser.get("/?status=all&tag=prod&tag=x&agent=a&gate=g&q=w&sort=newest"),
        "empty list": await browser.get("/?status=expired"),
        "bad filter": await browser.get("/?status=nonsense"),
        "detail": await browser.get(one),
        "missing": await browser.get("/breakpoints/bp_00000000000000000000000000"),
        "confirm": await browser.post(f"{one}/confirm", form | answers | {"decision": "approve"}),
        "not filled in": await browser.post(f"{one}/confirm", form | {"decision": "approve"}),
        "no reason": await browser.post(f"{one}/confirm", form | {"decision": "reject"}),
        "without form key": await browser.post(f"{one}/confirm", {}),
        "problem": await visitor(node).get("/problems/already_ended"),
        "no such problem": await visitor(node).get("/problems/nonsense"),
        "nowhere": await visitor(node).get("/nowhere"),
        "wrong method": await browser.client.request("PUT", "/", headers={"accept": "text/html"}),
    }


async def test_every_page_has_accessible_markup(node: Node) -> None:
    """There is one h1 and one main element, every control has a label, and IDs are unique."""
    for name, answer in (await every_page(node)).items():
        page = Page(answer.text)
        assert len(page.all("h1")) == 1, name
        assert len(page.all("main")) == 1, name
        assert page.all("html") == [{"lang": "en"}], name
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        labelled = {attributes.get("for") for attributes in page.all("label")}
        for tag in ("input", "select", "textarea"):
            for control in page.all(tag):
                if control.get("type") not in {"hidden", "radio"} and control not in page.wrapped:
                    assert control["id"] in labelled, (name, control)
        for attributes in (attributes for _, attributes in page.elements):
            for reference in ("aria-describedby", "aria-labelledby"):
                assert set(attributes.get(reference, "").split()) <= set(ids), (name, attributes)


async def test_every_page_has_restrictive_security_headers(node: Node) -> None:
    for name, answer in (await every_page(node)).items():
        assert answer.headers["content-type"] == "text/html; charset=utf-8", name
        assert answer.headers["content-security-policy"] == CSP, name
        assert answer.headers["cache-control"] == "no-store", name
        assert answer.headers["x-content-type-options"] == "nosniff", name
        assert answer.headers["x-frame-options"] == "DENY", name


async def test_no_page_has_inline_scripts_or_styles(node: Node) -> None:
    """Scripts are loaded only from our own files, and HTML from agents is in a sandboxed frame."""
    for name, answer in (await every_page(node)).items():
        for tag, attributes in Page(answer.text).elements:
            assert tag not in {"style", "object", "embed"}, name
            if tag == "script":
                assert attributes["src"].startswith(f"/static/{ASSETS.digest}/"), name
            if tag == "iframe":
                assert (attributes["sandbox"], attributes["src"][:13]) == ("", "/breakpoints/"), name
            assert not [each for each in attributes if each.startswith(("on", "hx-on")) or each == "style"], name
        assert not re.findall(r"<script[^>]*>[^<]", answer.text), name


async def test_every_post_form_has_a_csrf_token(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    page = await browser.page(f"/breakpoints/{created['id']}")
    keys = {form.fields.get("csrf") for form in page.forms if form.method == "post"}
    assert len(keys) == 1
    assert len((keys.pop() or "").partition(".")[0]) == 32


@pytest.mark.parametrize(
    ("form", "origin", "status"),
    [
        ({}, "http://assent.test", 403),
        ({"csrf": "0" * 32}, "http://assent.test", 403),
        ({"csrf": "ü"}, "http://assent.test", 403),
        ({"csrf": "right"}, "https://evil.example", 403),
    ],
)
async def test_a_forged_form_changes_nothing(node: Node, form: dict[str, str], origin: str, status: int) -> None:
    browser = await signed_in(node)
    created = await node.create()
    one = f"/breakpoints/{created['id']}"
    right = (await browser.page(one)).form("/confirm").fields
    sent = {"decision": "approve", "text": "Hi", "digest": right["digest"]} | form
    if form.get("csrf") == "right":
        sent["csrf"] = right["csrf"]
    for action in ("confirm", "decide", "comment"):
        assert (await browser.post(f"{one}/{action}", sent, origin=origin)).status_code == status
    seen = (await node.call("GET", f"/api/breakpoints/{created['id']}", await node.token("agent"))).json()
    assert (seen["status"], seen["version"]) == ("waiting", created["version"])


async def test_another_persons_csrf_token_is_rejected(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create()
    one = f"/breakpoints/{created['id']}"
    stolen = (await ann.page(one)).form("/comment").fields
    assert (await bea.post(f"{one}/comment", stolen | {"text": "Hi"})).status_code == 403


async def test_get_requests_have_no_side_effects(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    one = f"/breakpoints/{created['id']}"
    form = (await browser.page(one)).form("/confirm").fields
    for action in ("confirm", "decide", "comment"):
        answer = await browser.get(f"{one}/{action}", params=form | {"decision": "approve", "text": "Hi"})
        assert (answer.status_code, answer.headers["location"]) == (303, one)
    assert (await browser.get("/sign-out")).status_code == 405
    seen = (await node.call("GET", f"/api/breakpoints/{created['id']}", await node.token("agent"))).json()
    assert (seen["status"], seen["version"]) == ("waiting", created["version"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("assent.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("vendor/htmx.min.js", "text/javascript; charset=utf-8"),
        ("assent.svg", "image/svg+xml"),
    ],
)
async def test_static_files_are_immutable_under_urls_with_a_content_hash(node: Node, name: str, kind: str) -> None:
    answer = await visitor(node).get(ASSETS.url(name))
    assert answer.headers["content-type"] == kind
    assert "immutable" in answer.headers["cache-control"]
    assert (await visitor(node).get(f"/static/0000000000000000/{name}")).status_code == 404


async def test_only_known_static_files_are_served(node: Node) -> None:
    page = await visitor(node).page("/sign-in")
    assert {"rel": "stylesheet", "href": ASSETS.url("assent.css")} in page.all("link")
    for name in ("..%2fframe.py", "../frame.py", "", "nonsense.js", "rules.css"):
        assert (await visitor(node).get(f"/static/{ASSETS.digest}/{name}")).status_code == 404, name


@pytest.mark.parametrize("code", error_classes())
async def test_every_error_code_has_an_explanation_page(node: Node, code: str) -> None:
    page = await visitor(node).page(f"/problems/{code}")
    error: type[AssentError] = error_classes()[code]
    assert error.title in page.text
    assert "Meaning: " in page.text


async def test_pending_breakpoints_are_listed_most_urgent_first(node: Node) -> None:
    browser = await signed_in(node)
    calm = await node.create(title="Calm")
    late = await node.create(title="Late", ttlSeconds=1000)
    soon = await node.create(title="Soon", ttlSeconds=100)
    assert _rows(await browser.page("/")) == [soon["id"], late["id"], calm["id"]]
    assert "due in 1 min" in (await browser.page("/")).text


@pytest.mark.parametrize(
    "query",
    ["tag=prod", "agent=bot", "gate=a.gate", "q=zebra", "tag=prod&tag=eu&agent=bot", "q=&tag=&agent=&gate=a.gate"],
)
async def test_a_filter_shows_only_matching_breakpoints(node: Node, query: str) -> None:
    browser = await signed_in(node)
    wanted = await node.create(
        agentId="bot", title="The zebra", tags=["prod", "eu"], payload={"breakpointId": "a.gate"}
    )
    await node.create()
    page = await browser.page(f"/?{query}")
    assert _rows(page) == [wanted["id"]]
    assert "1 pending, most urgent first." in page.text


async def test_links_and_forms_preserve_the_filters(node: Node) -> None:
    browser = await signed_in(node)
    await node.create()
    page = await browser.page("/?status=all&tag=a+b&tag=c%26d&agent=agent-1&sort=newest")
    assert "/?status=released&agent=agent-1&tag=a+b&tag=c%26d" in page.links()
    values = [control["value"] for control in page.all("input") if control.get("name") == "tag"]
    assert values == ["a b", "c&d"]


async def test_a_list_grows_in_place_before_continuing_on_the_next_page(node: Node) -> None:
    browser = await signed_in(node)
    created = sorted([(await node.create(title=f"Number {n}"))["id"] for n in range(303)])
    page, path, sizes = await browser.page("/"), "/", []
    while path:
        page = await browser.page(path)
        sizes.append(len(_rows(page)))
        assert _rows(page) == created[: sizes[-1]]
        assert f"{sizes[-1]} of 303 pending" in page.text
        path = next((target for target in page.links() if "shown=" in target and "breakpoints" not in target), "")
    assert sizes == [50, 100, 150, 200, 250, 300]
    following = next(target for target in page.links() if "cursor=" in target)
    assert _rows(await browser.page(following)) == created[300:]


async def test_every_status_tab_shows_a_count(node: Node) -> None:
    browser = await signed_in(node)
    reviewer = await node.token("reviewer")
    await node.create()
    await node.feedback((await node.create())["id"], reviewer, release=True)
    text = " ".join((await browser.page("/")).text.split())
    assert "Pending 1 Decided 1 Expired 0 Cancelled 0 All 2" in text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/", "Connect your first agent"),
        ("/?sort=newest", "Waiting for the first request"),
        ("/?status=released", "Nothing here yet"),
        ("/?q=zebra", "No results for “zebra”."),
    ],
)
async def test_an_empty_list_explains_why_it_is_empty(node: Node, path: str, said: str) -> None:
    assert said in (await (await signed_in(node)).page(path)).text


@pytest.mark.parametrize(
    "query", ["status=nonsense", "sort=nonsense", "cursor=nonsense", "q=%00", "tag=" + "x" * 400, "cursor=W10"]
)
async def test_an_invalid_filter_is_rejected_with_an_explanation(node: Node, query: str) -> None:
    answer = await (await signed_in(node)).get(f"/?{query}")
    assert answer.status_code == 422
    assert "The request is not valid" in answer.text


@pytest.mark.parametrize("q", ["'", '"', "*", "a AND", "NEAR(", "(", "-", "a:b", "\\", "％", "&|!"])
async def test_special_characters_do_not_break_the_search(node: Node, q: str) -> None:
    browser = await signed_in(node)
    assert (await browser.get("/", params={"q": q})).status_code == 200


def _rows(page: Page) -> list[str]:
    titles = [attributes["href"] for attributes in page.all("a") if attributes.get("class") == "title"]
    return [target.removeprefix("/breakpoints/").partition("?")[0] for target in titles]


async def test_a_breakpoint_page_shows_all_details(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create(**EVERYTHING)
    await node.feedback(created["id"], await node.token("agent"), comment="I can wait.")
    page = await browser.page(f"/breakpoints/{created['id']}")
    for text in (
        "Deploy to production", "Deploy build 4812?", "agent-1", "deploy.production", "run-7", "high risk", "urgent",
        "Run the smoke tests first.", "Attempt 3", "due in 5 min", "a majority of experts decides",
        "nobody-has-this-name", "# A plan", "<h1>Hi</h1>", "not provided", "I can wait.", '"build": 4812',
        "High risk: requires human approval.", created["digest"], "created this", "commented", "Canary",
        "Budget", "In euros",
    ):  # fmt: skip
        assert text in page.text, text


async def test_times_are_shown_in_both_relative_and_exact_form(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node)
    created = await node.create()
    clock.advance(90)
    page = await browser.page(f"/breakpoints/{created['id']}")
    assert {"datetime": "2027-01-15T08:00:00.000000Z", "title": "2027-01-15 08:00:00 UTC"} in page.all("time")
    assert "1 min ago" in page.text


async def test_files_are_served_with_content_types_that_browsers_do_not_execute(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create(**EVERYTHING)
    one = f"/breakpoints/{created['id']}/files"
    kinds = [(await browser.get(f"{one}/{n}")).headers["content-type"] for n in range(4)]
    assert kinds == [
        "text/plain; charset=utf-8", "text/plain; charset=utf-8", "image/png", "application/octet-stream",
    ]  # fmt: skip
    answer = await browser.get(f"{one}/1")
    assert answer.text == "<h1>Hi</h1>"
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert (await browser.page(f"/breakpoints/{created['id']}")).all("img")[0]["src"] == f"{one}/2"


@pytest.mark.parametrize("n", ["4", "99", "-1", "x", "0x1", "1e9", "9999999999", "%00", "١"])
async def test_requesting_a_missing_file_returns_404(node: Node, n: str) -> None:
    browser = await signed_in(node)
    created = await node.create(**EVERYTHING)
    assert (await browser.get(f"/breakpoints/{created['id']}/files/{n}")).status_code == 404


@pytest.mark.parametrize("breakpoint_id", ["x", "bp_0", "%00", "..%2f..", "bp_" + "Z" * 26, "bp_" + "0" * 26])
async def test_requesting_an_unknown_breakpoint_returns_404(node: Node, breakpoint_id: str) -> None:
    browser = await signed_in(node)
    for path in ("", "/files/0", "/decide"):
        assert (await browser.get(f"/breakpoints/{breakpoint_id}{path}")).status_code == 404


async def test_a_breakpoint_in_another_project_is_not_found(node: Node) -> None:
    admin = await node.token("admin")
    await node.call("POST", "/api/projects", admin, json={"id": "other"})
    agent = await node.token("agent", project="other", name="their agent")
    created = await node.create(agent, title="Theirs")
    browser = await signed_in(node)
    assert (await browser.get(f"/breakpoints/{created['id']}")).status_code == 404
    assert "Theirs" not in (await browser.page("/?status=all")).text


async def _forbidden(browser: Visitor, breakpoint_id: str) -> Page:
    page = await browser.page(f"/breakpoints/{breakpoint_id}")
    assert not [form for form in page.forms if form.action == f"/breakpoints/{breakpoint_id}/confirm"], "no buttons"
    return page


async def test_a_viewer_can_read_but_has_no_decision_buttons(node: Node) -> None:
    created = await node.create()
    page = await _forbidden(await signed_in(node, "vic", "viewer"), created["id"])
    assert "vic (viewer) lacks the “" in page.text
    assert {form.action for form in page.forms if form.method == "post"} == {"/sign-out"}


async def test_a_reviewer_who_is_not_an_expert_sees_who_can_respond(node: Node) -> None:
    await person(node, "bea", "reviewer", password=None)
    created = await node.create(payload={"question": "?", "expert": "bea"})
    page = await _forbidden(await signed_in(node, "ann"), created["id"])
    assert "Only bea can respond to this breakpoint." in page.text


async def test_a_person_cannot_decide_their_own_breakpoint(node: Node) -> None:
    token = await node.person("ann", "reviewer")
    created = await node.create(token)
    browser = visitor(node)
    await browser.post(f"/sign-in/{await link(node, 'ann')}", {})
    page = await _forbidden(browser, created["id"])
    assert "You cannot respond to your own breakpoint" in page.text


async def test_an_ended_breakpoint_has_no_forms_and_names_its_decider(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create()
    await node.feedback(created["id"], await node.token("reviewer"), approved=False, comment="No.")
    page = await _forbidden(browser, created["id"])
    text = " ".join(page.text.split())
    assert "rejected by owner" in text
    assert {form.action for form in page.forms if created["id"] in form.action} == set()


def _by_script(target: str, here: str = "/") -> dict[str, str]:
    return {"hx-request": "true", "hx-target": f"div#{target}", "hx-current-url": f"http://assent.test{here}"}


async def test_a_script_gets_only_the_region_it_requests(node: Node) -> None:
    browser = await signed_in(node)
    created = await node.create(title="Asked for")
    one = f"/breakpoints/{created['id']}"
    for path, target, there, not_there in (
        ("/", "rows", "Asked for", "Filters &amp; views"),
        (one, "detail", "Your answer", "Filters &amp; views"),
        (one, "live", "History", "Your answer"),
    ):
        answer = await browser.client.get(path, headers=_by_script(target))
        assert answer.status_code == 200, path
        assert "<html" not in answer.text, path
        assert there in answer.text, path
        assert not_there not in answer.text, path


async def test_an_error_in_a_region_is_returned_without_the_page_layout(node: Node) -> None:
    browser = await signed_in(node)
    answer = await browser.client.get("/breakpoints/bp_00000000000000000000000000", headers=_by_script("detail"))
    assert answer.status_code == 404
    assert "<html" not in answer.text
    assert "not found in this project" in answer.text


async def test_an_ended_session_redirects_the_whole_page_to_sign_in(node: Node) -> None:
    stranger = visitor(node)
    here = "/breakpoints/bp_00000000000000000000000000?tag=a"
    answer = await stranger.client.get("/", headers=_by_script("detail", here))
    assert answer.headers["hx-redirect"] == "/sign-in?next=" + quote(here, safe="")
    assert answer.text == ""
    elsewhere = await stranger.client.get(
        "/", headers=_by_script("detail") | {"hx-current-url": "https://evil.example//evil.example/x"}
    )
    assert elsewhere.headers["hx-redirect"] == "/sign-in?next=%2F"
    for target in ("rows", "live", "run-live"):
        assert (await stranger.client.get("/", headers=_by_script(target))).status_code == 204
