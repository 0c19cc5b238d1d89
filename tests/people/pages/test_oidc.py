"""Sign-in with an identity provider that runs as a real HTTP server, on both databases."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from pydantic import ValidationError

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.authenticator import Authenticator
from assent.people.store.identities import Identities
from assent.people.store.people import People
from assent.people.usecases.oidc import handle
from assent.people.usecases.people import NewToken, PeopleService
from tests.support.nodes import Node, free_port, running_node
from tests.support.oidc import (
    CLIENT_ID,
    CLIENT_SECRET,
    Provider,
    provider,
    unsigned,
    with_another_key,
    with_our_secret,
)
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in, visitor

COOKIE = "assent_journey"


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


@pytest.fixture
def idp() -> Iterator[Provider]:
    with provider() as running:
        yield running


@asynccontextmanager
async def node_with(settings: Settings, issuer: str, **more: Any) -> AsyncIterator[Node]:
    wanted = {
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_name": "Example",
        "outbound_allow": ("127.0.0.0/8",),
    }
    kept = settings.model_dump(include={"data_dir", "database_url", "secret_keys"})
    async with running_node(Settings(**kept, **wanted | more)) as node:
        yield node


async def link_by_admin(node: Node, name: str, subject: str = "248289761001") -> Visitor:
    """Link a person to a subject on the person's page, as an admin."""
    ada = await signed_in(node, "ada", "admin")
    answer = await ada.send(f"/admin/people/{name}", "/identities", subject=subject)
    assert answer.status_code == 303, answer.text
    return ada


async def to_provider(browser: Visitor, after: str = "") -> str:
    """Visit the provider, which signs the person in immediately, and return the URL that it redirects to."""
    answer = await browser.get("/sign-in/oidc" + (f"?next={after}" if after else ""))
    assert answer.status_code == 303, answer.text
    async with httpx2.AsyncClient() as client:
        back = await client.get(answer.headers["location"])
    return str(back.headers["location"]).removeprefix("http://assent.test")


async def sign_in(node: Node, browser: Visitor | None = None) -> httpx2.Response:
    browser = browser or visitor(node)
    return await browser.get(await to_provider(browser))


async def test_a_linked_person_can_sign_in_with_the_identity_provider(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        await person(node, "ann", "reviewer")
        await link_by_admin(node, "ann")
        browser = visitor(node)
        assert "Sign in with Example" in (await browser.page("/sign-in")).text
        back = await to_provider(browser, "/runs")
        arrived = await browser.get(back)
        assert (arrived.status_code, arrived.headers["location"]) == (303, "/runs")
        assert (await browser.page("/account")).text.count("ann")
        asked = idp.asked[-1]
        assert asked["code_challenge_method"] == "S256"
        assert asked["response_type"] == "code"
        assert len(asked["state"]) >= 40
        assert len(asked["nonce"]) >= 40
        again = await visitor(node).get(back)
        assert again.status_code == 401, "another browser has no use for it"
        replayed = await browser.get(back)
        assert replayed.status_code == 401, "nor has the same one, a second time"


async def test_the_sign_in_cookie_is_short_lived_and_hidden_from_scripts(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        browser = visitor(node)
        cookie = (await browser.get("/sign-in/oidc")).headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        for part in ("HttpOnly", "Max-Age=600", "SameSite=lax", "Path=/"):
            assert part.lower() in cookie.lower()


async def test_the_browser_never_receives_a_provider_token(sqlite_settings: Settings, idp: Provider) -> None:
    async with node_with(sqlite_settings, idp.url, oidc_create_people=True) as node:
        idp.claims |= {"preferred_username": "ann"}
        answer = await sign_in(node)
        assert answer.status_code == 303
        assert COOKIE in answer.headers["set-cookie"]
        assert "eyJ" not in answer.text + str(answer.headers), "how a token begins"


async def test_a_state_that_is_invalid_or_from_another_browser_is_rejected(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        await person(node, "ann", "reviewer")
        await link_by_admin(node, "ann")
        browser, other = visitor(node), visitor(node)
        mine, theirs = await to_provider(browser), await to_provider(other)
        assert (await browser.get(theirs)).status_code == 401, "begun in another browser"
        mine = await to_provider(browser)
        changed = mine.replace("state=", "state=x")
        assert (await browser.get(changed)).status_code == 401
        mine = await to_provider(browser)
        sealed = browser.client.cookies[COOKIE]
        browser.client.cookies.delete(COOKIE)
        browser.client.cookies.set(COOKIE, sealed[:-1] + ("0" if sealed[-1] != "0" else "1"))
        assert (await browser.get(mine)).status_code == 401, "a seal that is not ours"
        assert (await visitor(node).get("/sign-in/oidc/callback")).status_code == 401
        assert (await visitor(node).get("/sign-in/oidc/callback?state=&code=x")).status_code == 401


async def test_a_replayed_authorization_code_is_rejected(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        await person(node, "ann", "reviewer")
        await link_by_admin(node, "ann")
        browser = visitor(node)
        first = dict(parse_qsl(urlsplit(await to_provider(browser)).query))
        used = await browser.get(f"/sign-in/oidc/callback?code={first['code']}&state={first['state']}")
        assert used.status_code == 303
        thief = visitor(node)
        second = dict(parse_qsl(urlsplit(await to_provider(thief)).query))
        answer = await thief.get(f"/sign-in/oidc/callback?code={first['code']}&state={second['state']}")
        assert answer.status_code == 401
        assert "rejected the authorization code" in answer.text


def _say(**claims: Any) -> Any:
    return lambda token: token.update(claims)


@pytest.mark.parametrize(
    "spoil",
    [
        _say(nonce="another"),
        lambda token: token.pop("nonce"),
        _say(exp=1_000_000_000),
        lambda token: token.pop("exp"),
        _say(aud="somebody-else"),
        _say(aud=[CLIENT_ID, "somebody-else"]),
        _say(azp="somebody-else"),
        _say(iss="https://evil.example"),
        lambda token: token.pop("sub"),
        _say(sub=""),
        _say(sub=7),
        _say(sub="x" * 256),
        _say(iat="odd"),
    ],
)
async def test_an_id_token_with_invalid_claims_is_rejected(
    sqlite_settings: Settings, idp: Provider, spoil: Any
) -> None:
    async with node_with(sqlite_settings, idp.url, oidc_create_people=True) as node:
        idp.claims |= {"preferred_username": "ann"}
        idp.spoil = spoil
        answer = await sign_in(node)
        assert answer.status_code == 401
        assert "could not be verified" in answer.text
        assert await node.assent.database.read(lambda tx: tx[People].find_by_name("ann")) is None


@pytest.mark.parametrize("sign", [unsigned, with_our_secret, with_another_key, lambda *_: "odd", lambda *_: "a.b.c"])
async def test_an_id_token_not_signed_by_the_provider_is_rejected(
    sqlite_settings: Settings, idp: Provider, sign: Any
) -> None:
    async with node_with(sqlite_settings, idp.url, oidc_create_people=True) as node:
        idp.claims |= {"preferred_username": "ann"}
        idp.sign = sign
        answer = await sign_in(node)
        assert answer.status_code == 401
        assert await node.assent.database.read(lambda tx: tx[People].find_by_name("ann")) is None


async def test_the_error_for_an_unlinked_identity_shows_its_subject(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        idp.claims |= {"email": "owner@example.org", "email_verified": True, "preferred_username": "owner"}
        answer = await sign_in(node)
        assert answer.status_code == 403
        page = Page(answer.text)
        assert "Your account is not linked" in page.text
        assert "248289761001" in page.text
        assert not [each for each in answer.headers.get_list("set-cookie") if each.startswith("assent_session")]


async def test_an_identity_is_linked_only_by_a_verified_email_and_only_once(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url, oidc_link_by_email=True, oidc_create_people=True) as node:

        def use_case(tx: Transaction) -> None:
            roles = frozenset({Role.ADMIN})
            node.assent[PeopleService].create_person(tx, "ann", project="default", roles=roles, email="ann@example.org")

        await node.assent.database.write(use_case)
        idp.claims |= {"email": "ann@example.org", "preferred_username": "ann"}
        for verified in (None, False, "true", 1):
            idp.claims["email_verified"] = verified
            assert (await sign_in(node)).status_code == 403, "not verified, and the name is taken"
        idp.claims["email_verified"] = True
        assert (await sign_in(node)).status_code == 303
        idp.claims["sub"] = "another"
        assert (await sign_in(node)).status_code == 403, "somebody else with the same address"


async def planted(node: Node, **changes: Any) -> None:
    """Create a person with someone else's email address, as an admin of another project."""
    owner = await node.token("admin")
    assert (await node.call("POST", "/api/projects", owner, json={"id": "other"})).status_code == 201
    eve = await node.person("eve", "admin", project="other")
    body = {"name": "mallory", "email": "ann@example.org", "roles": []} | changes
    assert (await node.call("POST", "/api/people", eve, json=body)).status_code == 201


async def test_an_email_does_not_link_an_account_managed_by_another_project(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url, oidc_link_by_email=True) as node:
        await planted(node)
        idp.claims |= {"email": "ann@example.org", "email_verified": True}
        assert (await sign_in(node)).status_code == 403

        def use_case(tx: Transaction) -> None:
            roles = frozenset({Role.VIEWER})
            node.assent[PeopleService].create_person(tx, "ann", project="default", roles=roles, email="ann@example.org")

        await node.assent.database.write(use_case)
        browser = visitor(node)
        assert (await sign_in(node, browser)).status_code == 303, "nor does that account keep the right one from theirs"
        assert "ann" in (await browser.page("/account")).text


async def test_an_email_does_not_link_an_account_with_an_unconfirmed_reset(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url, oidc_link_by_email=True) as node:
        admin = await node.person("eve", "admin")
        body = {"name": "mallory", "email": "ann@example.org", "password": "known to eve as well", "roles": ["viewer"]}
        assert (await node.call("POST", "/api/people", admin, json=body)).json()["resetBy"] == "eve"
        idp.claims |= {"email": "ann@example.org", "email_verified": True}
        assert (await sign_in(node)).status_code == 403


async def test_provider_groups_grant_no_roles_while_a_reset_is_unconfirmed(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url, oidc_roles={"assent-reviewers": "reviewer"}) as node:
        await planted(node, password="known to eve as well")

        def linked(tx: Transaction) -> None:
            mallory = tx[People].get_by_name("mallory").id
            tx[Identities].add(idp.url, "248289761001", person_id=mallory, by="system:test", now=tx.now())

        await node.assent.database.write(linked)

        def held(tx: Transaction) -> frozenset[Role]:
            return tx[People].grants(tx[People].get_by_name("mallory").id).get("default", frozenset())

        idp.claims["groups"] = ["assent-reviewers"]
        assert (await sign_in(node)).status_code == 303
        assert await node.assent.database.read(held) == frozenset()
        confirmed = await node.call("POST", "/api/people/mallory/confirm", await node.token("admin"))
        assert confirmed.status_code == 200, confirmed.text
        assert (await sign_in(node)).status_code == 303
        assert await node.assent.database.read(held) == {Role.REVIEWER}


async def test_confirming_a_reset_by_signing_in_revokes_what_the_admin_created(
    settings: Settings, idp: Provider
) -> None:
    async with node_with(settings, idp.url) as node:
        await person(node, "ann", "reviewer")
        people, database = node.assent[PeopleService], node.assent.database

        def linked(tx: Transaction) -> None:
            ann = tx[People].get_by_name("ann").id
            tx[Identities].add(idp.url, "248289761001", person_id=ann, by="system:test", now=tx.now())

        await database.write(linked)
        eve = await node.assent[Authenticator].principal(f"Bearer {await node.person('eve', 'admin')}")
        link = await database.write(lambda tx: people.invite(tx, "ann", purpose="reset", by=eve))
        assert link is not None
        secret, _ = await database.write(lambda tx: people.use_link(tx, link))
        found = await database.read(lambda tx: people.session_principal(tx, secret))
        assert found is not None
        as_ann = found[0]
        ann = await database.read(lambda tx: people.prove_password(tx, as_ann.id, old=""))
        hashed = people.password_hash("known to eve as well")
        session = await database.write(lambda tx: people.set_password(tx, ann, hashed=hashed, by=as_ann))
        new = NewToken(kind="reviewer", name="planted")
        _, token = await database.write(lambda tx: people.issue_token(tx, new, project="default", by=as_ann))

        browser = visitor(node)
        assert (await sign_in(node, browser)).status_code == 303
        kept = await database.read(lambda tx: tx[People].get_by_name("ann"))
        assert (kept.reset_by, kept.password_hash) == (None, None)
        assert await database.read(lambda tx: people.session_principal(tx, session)) is None
        assert (await node.call("GET", "/api/people", token)).status_code == 401
        assert (await browser.get("/account")).status_code == 200, "the sign-in that confirmed it goes on"


async def test_a_newly_created_persons_roles_follow_their_provider_groups(settings: Settings, idp: Provider) -> None:
    roles = {"assent-admins": "admin", "assent-reviewers": "reviewer"}
    async with node_with(settings, idp.url, oidc_create_people=True, oidc_roles=roles) as node:
        idp.claims |= {"preferred_username": "Bea@example.org", "name": "Bea B.", "groups": ["assent-reviewers", 7]}
        browser = visitor(node)
        assert (await sign_in(node, browser)).status_code == 303
        assert (await browser.get("/")).status_code == 200
        assert (await browser.get("/admin/people")).status_code == 403

        def held(tx: Transaction) -> frozenset[Role]:
            return tx[People].grants(tx[People].get_by_name("bea").id).get("default", frozenset())

        assert await node.assent.database.read(held) == {Role.REVIEWER}
        await node.assent.database.write(
            lambda tx: tx[People].grant(tx[People].get_by_name("bea").id, "default", [Role.REVIEWER, Role.AUDITOR])
        )
        idp.claims["groups"] = []
        assert (await sign_in(node)).status_code == 303
        assert await node.assent.database.read(held) == {Role.AUDITOR}, "what the mapping names follows the groups"


async def test_a_closed_account_cannot_sign_in_with_the_provider(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        await person(node, "ann", "reviewer")
        ada = await link_by_admin(node, "ann")
        assert (await ada.send("/admin/people/ann/close", "/close")).status_code == 303
        answer = await sign_in(node)
        assert answer.status_code == 403
        assert "is closed" in answer.text


async def test_an_unlinked_identity_can_no_longer_sign_in(settings: Settings, idp: Provider) -> None:
    async with node_with(settings, idp.url) as node:
        await person(node, "ann", "reviewer")
        ada = await link_by_admin(node, "ann")
        taken = await ada.send("/admin/people/ada", "/identities", subject="248289761001")
        assert taken.status_code == 409
        assert (await sign_in(node)).status_code == 303
        assert (await ada.send("/admin/people/ann", "/identities/remove")).status_code == 303
        assert (await sign_in(node)).status_code == 403


async def test_an_unreachable_provider_is_reported_on_the_page(settings: Settings) -> None:
    async with node_with(settings, f"http://127.0.0.1:{free_port()}") as node:
        answer = await visitor(node).get("/sign-in/oidc")
        assert answer.status_code == 503
        assert "Example is currently unreachable" in answer.text
        assert (await visitor(node).get("/sign-in")).status_code == 200


async def test_a_provider_on_a_private_network_must_be_allowed_explicitly(
    sqlite_settings: Settings, idp: Provider
) -> None:
    async with node_with(sqlite_settings, idp.url, outbound_allow=None) as node:
        assert (await visitor(node).get("/sign-in/oidc")).status_code == 503
        assert not idp.asked


async def test_provider_metadata_with_a_different_issuer_is_rejected(sqlite_settings: Settings, idp: Provider) -> None:
    idp.issuer = "https://evil.example"
    async with node_with(sqlite_settings, idp.url) as node:
        assert (await visitor(node).get("/sign-in/oidc")).status_code == 401


async def test_a_person_who_denies_consent_at_the_identity_provider_is_not_signed_in(
    sqlite_settings: Settings, idp: Provider
) -> None:
    idp.refuses = "access_denied"
    async with node_with(sqlite_settings, idp.url) as node:
        answer = await sign_in(node)
        assert answer.status_code == 401
        assert "access_denied" in answer.text


async def test_the_client_secret_is_sent_in_the_form_if_the_provider_requires_it(
    sqlite_settings: Settings, idp: Provider
) -> None:
    idp.posts_secret = True
    idp.claims["preferred_username"] = "ann"
    async with node_with(sqlite_settings, idp.url, oidc_create_people=True) as node:
        assert (await sign_in(node)).status_code == 303


async def test_oidc_pages_do_not_exist_without_a_provider(node: Node) -> None:
    assert (await visitor(node).get("/sign-in/oidc")).status_code == 404
    assert (await visitor(node).get("/sign-in/oidc/callback")).status_code == 404
    assert "or with a password" not in (await visitor(node).page("/sign-in")).text


def test_incomplete_provider_settings_are_rejected() -> None:
    with pytest.raises(ValidationError, match="oidc_client_secret"):
        Settings(oidc_issuer="https://id.example.org", oidc_client_id="x")
    for wrong in ("id.example.org", "ftp://id.example.org", "https://id.example.org/?x"):
        with pytest.raises(ValidationError):
            Settings(oidc_issuer=wrong, oidc_client_id="x", oidc_client_secret="y")


@pytest.mark.parametrize(
    ("claim", "name"),
    [("Ann", "ann"), ("ann@x.org", "ann"), ("a.b-c_1", "a.b-c_1"), ("", None), ("ä", None), (".a", None), (7, None),
     ("a" * 65, None), ("a b", None), ("@x", None)],
)  # fmt: skip
def test_only_a_valid_claim_is_converted_to_a_username(claim: object, name: str | None) -> None:
    assert handle(claim) == name


def test_the_role_mapping_is_parsed_from_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENT_OIDC_ROLES", "a team=reviewer, admins = admin")
    assert Settings().oidc_role_mapping == {"a team": "reviewer", "admins": "admin"}
    monkeypatch.setenv("ASSENT_OIDC_ROLES", "a=king")
    with pytest.raises(ValidationError):
        Settings()
