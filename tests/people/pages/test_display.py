"""Every page uses the account's theme and time zone."""

from collections.abc import Sequence

import pytest

from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Delivery
from assent.delivery.usecases.recipients import addressee
from assent.kernel.settings import Settings
from tests.delivery.usecases import delegating
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, link, signed_in, visitor

PLACES: Sequence[str] = ("/", "/runs", "/rules", "/gates", "/insights", "/deliveries", "/account")
SAVED = "/account?done=display#display"


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def choose(browser: Visitor, *, theme: str = "system", zone: str = "") -> str:
    answer = await browser.send("/account", "/account/display", theme=theme, timeZone=zone)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def root(page: Page) -> dict[str, str]:
    return page.all("html")[0]


def scheme(page: Page) -> str:
    return next(each["content"] for each in page.all("meta") if each.get("name") == "color-scheme")


async def test_every_page_uses_the_accounts_theme(node: Node) -> None:
    ann = await signed_in(node)
    shown = await ann.page("/")
    assert ("data-theme" in root(shown), scheme(shown)) == (False, "light dark")
    assert await choose(ann, theme="dark") == SAVED
    for path in PLACES:
        shown = await ann.page(path)
        assert (root(shown)["data-theme"], scheme(shown)) == ("dark", "dark"), path
    checked = [each["value"] for each in shown.all("input") if each.get("name") == "theme" and "checked" in each]
    assert checked == ["dark"]
    await choose(ann)
    assert "data-theme" not in root(await ann.page("/"))


async def test_the_theme_is_stored_per_person_and_not_per_browser(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    await choose(ann, theme="light")
    other = visitor(node)
    await other.post(f"/sign-in/{await link(node, 'ann')}", {})
    assert root(await other.page("/"))["data-theme"] == "light"
    assert "data-theme" not in root(await bea.page("/"))


async def test_an_error_page_uses_the_accounts_theme(node: Node) -> None:
    ann = await signed_in(node)
    await choose(ann, theme="dark")
    missing = await ann.get("/breakpoints/bp_none")
    assert missing.status_code == 404
    assert root(Page(missing.text))["data-theme"] == "dark"


async def test_times_are_displayed_in_the_accounts_time_zone(node: Node) -> None:
    ann = await signed_in(node)
    one = f"/breakpoints/{(await node.create())['id']}"
    # The clock in these tests is frozen at 08:00 UTC.
    assert "2027-01-15 08:00:00 UTC" in (await ann.page(one)).text
    for zone, expected in (
        ("Europe/Berlin", "2027-01-15 09:00:00 CET"),
        ("America/New_York", "2027-01-15 03:00:00 EST"),
        ("America/Sao_Paulo", "2027-01-15 05:00:00 UTC-03"),
    ):
        await choose(ann, zone=zone)
        shown = await ann.page(one)
        assert root(shown)["data-zone"] == zone
        assert expected in shown.text
        assert expected in {each.get("title") for each in shown.all("time")}, "on hover"
        assert "08:00:00 UTC" not in shown.text
        assert "2027-01-15T08:00:00.000000Z" in {each["datetime"] for each in shown.all("time")}, "for scripts"
    await choose(ann)
    assert "2027-01-15 08:00:00 UTC" in (await ann.page(one)).text


async def test_a_time_zone_setting_affects_only_its_own_account(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    one = f"/breakpoints/{(await node.create())['id']}"
    await choose(ann, zone="Asia/Tokyo")
    assert "2027-01-15 17:00:00 JST" in (await ann.page(one)).text
    assert "2027-01-15 08:00:00 UTC" in (await bea.page(one)).text


async def test_messages_use_the_accounts_time_zone(node: Node) -> None:
    ann = await signed_in(node)
    quiet = {"quiet-from": "22:00", "quiet-to": "07:00", "zone": "America/New_York"}
    await ann.send("/account", "/account/reached", **quiet)
    channel = await delegating.channel(node, "mail", "email")

    def zone(tx: Transaction) -> str | None:
        delivery = Delivery(
            id="dlv_1", project="default", breakpoint_id="bp_1", channel=channel, recipient="person:ann", seq=1,
            type="created", state="pending", attempts=0, next_at=1, last_error=None, created_at=1, updated_at=1,
        )  # fmt: skip
        return addressee(tx, delivery).zone

    assert await node.assent.database.read(zone) == "America/New_York"
    await choose(ann, zone="Europe/Berlin")
    assert await node.assent.database.read(zone) == "Europe/Berlin"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"timeZone": "Mars/Olympus"}, "Time zone: must be a time zone, for example Europe/Berlin or UTC"),
        ({"timeZone": "../../etc/passwd"}, "Time zone: must be a time zone"),
        ({"theme": "pink"}, "Theme: must be system, light or dark"),
    ],
)
async def test_an_invalid_theme_or_time_zone_is_rejected_and_redisplayed(
    node: Node, typed: dict[str, str], said: str
) -> None:
    ann = await signed_in(node)
    answer = await ann.send("/account", "/account/display", **({"theme": "dark"} | typed))
    assert answer.status_code == 422
    shown = Page(answer.text)
    assert said in shown.text
    assert typed.get("timeZone", "") == next(
        each["value"] for each in shown.all("input") if each.get("id") == "timeZone"
    )
    assert "data-theme" not in root(await ann.page("/")), "nothing was saved"


async def test_the_account_page_suggests_time_zones(node: Node) -> None:
    shown = await (await signed_in(node)).page("/account")
    offered = [each["value"] for each in shown.all("option")]
    assert {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"} <= {*offered}
    lists = {each.get("list") for each in shown.all("input") if each.get("id") in {"timeZone", "zone"}}
    assert lists == {"zones"}


def avatars(page: Page) -> list[str]:
    return [each["data-initials"] for each in page.all("span") if "avatar" in each.get("class", "")]


async def test_lists_and_answers_show_peoples_initials(node: Node) -> None:
    root = await signed_in(node, "root", "admin", "reviewer")
    await signed_in(node, "ann-lee")
    bea = await signed_in(node, "bea")
    await root.send("/admin/groups", "/admin/groups", name="team", members="ann-lee bea")
    own = ["RO", "RO"]
    assert sorted(avatars(await root.page("/admin/people"))) == sorted([*own, "AL", "BE", "OW", "RO"])
    assert avatars(await root.page("/admin/people/ann-lee")) == [*own, "AL"]
    assert avatars(await root.page("/admin/groups")) == [*own, "AL", "BE"]
    created = await node.create(payload={"question": "?", "expert": ["bea", "ann-lee"], "strategy": "collect-all"})
    one = f"/breakpoints/{created['id']}"
    await bea.decide(created["id"], "approve", comment="Fine.")
    shown = await root.page(one)
    assert "BE" in avatars(shown)
    assert "AL" in avatars(shown)


async def test_initials_are_hidden_from_screen_readers(node: Node) -> None:
    root = await signed_in(node, "root", "admin")
    shown = await root.page("/admin/people/root")
    assert {each["aria-hidden"] for each in shown.all("span") if "avatar" in each.get("class", "")} == {"true"}
    assert "RO" not in shown.text
