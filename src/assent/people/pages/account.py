"""The Account page: roles, sessions, password, current project and notification preferences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from zoneinfo import available_timezones

from starlette.responses import Response
from starlette.routing import Route

from assent.contracts import people as wire
from assent.contracts.tokens import CreateToken
from assent.core.access import Permission, Principal
from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.core.secrets import secret_hash
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels
from assent.delivery.store.links import Link, Links
from assent.delivery.usecases.channels import ChannelService
from assent.delivery.usecases.links import LinkService
from assent.delivery.usecases.recipients import is_personal
from assent.http.problems import STATUS
from assent.http.sessions import local_path
from assent.people.authenticator import Authenticator
from assent.people.pages.sign_in import MAX_PASSWORD
from assent.people.preferences import Preferences, written
from assent.people.store.people import EVERYWHERE, People, Person
from assent.people.store.sessions import BrowserSession, Sessions
from assent.people.store.tokens import Token, Tokens
from assent.people.usecases.people import NewToken, PeopleService
from assent.people.usecases.preferences import PreferenceService
from assent.web.admin import PLACES, checked, number, secret_page, text, words
from assent.web.site import PASSWORD_PAGE, Site, Visit, page, redirect, route

MOST_SESSIONS = 50
DAY = 24 * 3600
PERSONAL = {
    "reviewer": "can answer on your behalf",
    "viewer": "read-only",
    "rule-admin": "can manage rules",
    "auditor": "can verify and export the audit log",
    "admin": "can do everything you can",
}
"""The kinds of tokens that people can create for themselves, with descriptions."""
MOST_CHOICES = 20
CHOICES = 3
"""Number of channel fields in an empty form."""
_KINDS = {
    **dict.fromkeys(("/runs", "/rules", "/gates", "/insights", "/deliveries", "/account"), Permission.READ),
    **dict.fromkeys(("/triggers", "/events", "/firings", "/sources", "/schedule"), Permission.READ_PEOPLE),
    **{f"/admin/{name}": permission for name, _, permission in PLACES},
}
"""The pages that exist in every project, and the permission that each requires."""
DONE = {
    "password": "Password changed. You have been signed out of all other sessions.",
    "display": "Display preferences saved.",
    "reached": "Preferences saved. They apply to notifications sent from now on.",
    "linked": "Account linked. Answers from it now count as yours.",
    "revoked": "Token revoked. It stops working within seconds.",
    "unlinked": "Account unlinked. Answers from it no longer count as yours.",
}


def routes(site: Site) -> list[Route]:
    return [
        # A person without a role in the current project must still be able to switch projects and to sign out.
        route("/account", account, site, members_only=False),
        route("/account/password", change_password, site, method="POST", members_only=False),
        route("/account/sign-out-everywhere", sign_out_everywhere, site, method="POST", members_only=False),
        route("/account/project", choose_project, site, method="POST", members_only=False),
        route("/account/display", put_display, site, method="POST", members_only=False),
        route("/account/reached", put_preferences, site, method="POST", members_only=False),
        route("/account/unlink", unlink, site, method="POST", members_only=False),
        route("/account/tokens", create_token, site, method="POST"),
        route("/account/tokens/revoke", revoke_token, site, method="POST", members_only=False),
        # Without needs_password=False, these pages would redirect to themselves.
        route(PASSWORD_PAGE, new_password_form, site, members_only=False, needs_password=False),
        route(PASSWORD_PAGE, new_password, site, method="POST", members_only=False, needs_password=False),
    ]


@dataclass(frozen=True, slots=True)
class Mine:
    person: Person
    roles: list[tuple[str, list[str]]]
    sessions: list[BrowserSession]
    groups: list[str]
    preferences: Preferences
    channels: list[str]
    """The names of channels that send messages to individual people."""
    links: list[tuple[str, Link]]
    """The person's linked channel accounts, each with the name of the channel."""
    reviewers: list[tuple[str, str]]
    """Username and full name of each suggested deputy."""
    tokens: list[Token]
    """The person's valid tokens in this project."""


def _mine(tx: Transaction, *, visit: Visit) -> Mine:
    who = visit.who
    person = tx[People].find(who.id)
    assert person is not None, "they are signed in"
    grants = tx[People].grants(who.id)
    return Mine(
        person,
        [("all projects" if project == EVERYWHERE else project, sorted(held)) for project, held in grants.items()],
        tx[Sessions].of(who.id, now=tx.now(), limit=MOST_SESSIONS),
        sorted(tx[People].group_names(who.id, project=who.project)),
        visit.site[PreferenceService].of(tx, who.name, by=who),
        _channels(tx, visit),
        [(stored.name, each) for each in tx[Links].of_person(who.id) if (stored := tx[Channels].find(each.channel_id))],
        [each for each in visit.site[PeopleService].suggested(tx, by=who, reviewers=True) if each[0] != who.name],
        [each for each in tx[Tokens].every(who.project) if each.person_id == who.id and each.works(tx.now())],
    )


def _channels(tx: Transaction, visit: Visit) -> list[str]:
    if not visit.who.may(Permission.READ_PEOPLE):
        return []
    return [each.name for each in visit.site[ChannelService].listed(tx, by=visit.who) if is_personal(each)]


async def account(visit: Visit) -> Response:
    return await _account_page(visit)


async def _account_page(visit: Visit, error: AssentError | None = None) -> Response:
    mine = await visit.site.database.read(partial(_mine, visit=visit))
    return page(
        "account.html",
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        now=visit.site.clock.now(),
        mine=mine,
        this=secret_hash(visit.signed_in.secret),
        problem=words(error) if error else None,
        kinds={kind: PERSONAL[kind] for kind in PERSONAL if kind in visit.who.roles},
        typed=visit.form if error else {},
        reached=reached(mine, visit.form if error else {}),
        zones=_zones(),
        done=DONE.get(visit.request.query_params.get("done", "")) if not error else None,
    )


async def change_password(visit: Visit) -> Response:
    try:
        secret = await _set_password(visit)
    except AssentError as error:
        return await _account_page(visit, error)
    response = redirect("/account?done=password")
    visit.site.sessions.give(response, secret)
    return response


async def _set_password(visit: Visit) -> str:
    form = visit.form
    new = form.get("new", "")
    if new != form.get("again", ""):
        raise InvalidRequest("The new passwords do not match.")
    checked(wire.ChangePerson, password=new)
    old = form.get("old", "")[:MAX_PASSWORD]
    return await visit.site.sessions.change_password(visit.request, visit.who, old, new)


async def new_password_form(visit: Visit) -> Response:
    """Ask an invited person to set a password, without which they could not sign in again."""
    after = local_path(visit.request.query_params.get("next"))
    if not visit.signed_in.must_set_password:
        return redirect(after)
    return _new_password_page(visit, after)


async def new_password(visit: Visit) -> Response:
    after = local_path(visit.form.get("next"))
    try:
        secret = await _set_password(visit)
    except AssentError as error:
        return _new_password_page(visit, after, error)
    response = redirect(after)
    visit.site.sessions.give(response, secret)
    return response


def _new_password_page(visit: Visit, after: str, error: AssentError | None = None) -> Response:
    return page(
        "new_password.html",
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        name=visit.who.name,
        after=after,
        action=PASSWORD_PAGE,
        problem=words(error) if error else None,
    )


async def create_token(visit: Visit) -> Response:
    """Create a token for the visitor, with no more roles than the visitor has."""
    form = visit.form
    try:
        days = number(form, "expiresInDays")
        asked = checked(
            CreateToken,
            kind=form.get("kind", ""),
            name=text(form, "name") or "",
            expiresInSeconds=days * DAY if days is not None else None,
        )
        if asked.kind not in PERSONAL:
            raise InvalidRequest.at("/kind", f"must be one of {', '.join(PERSONAL)}")
        new = NewToken(kind=asked.kind, name=asked.name, expires_in=asked.expires_in_seconds)
        issue = partial(visit.site[PeopleService].issue_token, new=new, project=visit.who.project, by=visit.who)
        _, secret = await visit.site.database.write(issue)
    except AssentError as error:
        return await _account_page(visit, error)
    hints = (
        "Copy the token now. It is not stored and cannot be shown again.",
        "Send it as Authorization: Bearer …, or set ASSENT_TOKEN. All actions taken with it are attributed to you.",
    )
    return secret_page(visit, title=f"Token {asked.name}", secret=secret, hints=hints, back="/account#tokens")


async def revoke_token(visit: Visit) -> Response:
    token_id = visit.form.get("token", "")
    try:
        await visit.site.database.write(partial(_revoke_own, token_id=token_id, visit=visit))
    except AssentError as error:
        return await _account_page(visit, error)
    visit.site[Authenticator].forget()
    visit.site.hub.cut(token_id)
    return redirect("/account?done=revoked#tokens")


def _revoke_own(tx: Transaction, *, token_id: str, visit: Visit) -> None:
    # An admin may revoke other tokens too, but not on this page.
    own = {each.id for each in tx[Tokens].every(visit.who.project) if each.person_id == visit.who.id}
    if token_id not in own:
        msg = "This token does not exist or belongs to someone else."
        raise NotFound(msg)
    visit.site[PeopleService].revoke_token(tx, token_id, by=visit.who)


async def sign_out_everywhere(visit: Visit) -> Response:
    response = redirect("/sign-in")
    await visit.site.sessions.sign_out_everywhere(visit.request, response, visit.who)
    return response


async def put_display(visit: Visit) -> Response:
    chosen, zone = visit.form.get("theme", ""), text(visit.form, "timeZone")
    try:
        use_case = partial(visit.site[PreferenceService].set_display, chosen_theme=chosen, zone=zone, by=visit.who)
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _account_page(visit, error)
    # The cached session still has the previous theme and time zone.
    visit.site.sessions.forget(visit.signed_in)
    return redirect("/account?done=display#display")


@cache
def _zones() -> Sequence[str]:
    """Return the time zones to choose from: those named after places, and UTC."""
    return ["UTC", *sorted(each for each in available_timezones() if "/" in each and not each.startswith("Etc/"))]


async def choose_project(visit: Visit) -> Response:
    """Switch to another project, and open the page that corresponds to the current page."""
    await visit.site.sessions.look_at(visit.signed_in, visit.form.get("project", ""))
    there = await visit.site.sessions.find(visit.request)
    return redirect(_like(visit.form.get("from", ""), there.principal) if there else "/")


def _like(path: str, who: Principal) -> str:
    """Return the page for this path in any project, or the inbox if the person cannot open such a page."""
    first, _, rest = path.strip("/").partition("/")
    kind = f"/admin/{rest.partition('/')[0]}" if first == "admin" else f"/{first}"
    return kind if kind in _KINDS and who.may(_KINDS[kind]) else "/"


@dataclass(frozen=True, slots=True)
class Reached:
    """Notification preferences as shown in the form."""

    choices: Sequence[str]
    """The chosen channels in order of preference, then empty fields."""
    known: Sequence[str]
    fields: Mapping[str, str]


def reached(mine: Mine, typed: Mapping[str, str]) -> Reached:
    """Return the submitted values if the form is shown again, and otherwise the stored values."""
    kept: Mapping[str, Any] = written(mine.preferences)
    quiet: Mapping[str, Any] = kept["quiet"] or {}
    away: Mapping[str, Any] = kept["away"] or {}
    fields: dict[str, str] = {
        "quiet-from": quiet.get("from", ""),
        "quiet-to": quiet.get("to", ""),
        "zone": quiet.get("timezone", mine.person.time_zone or ""),
        "deputy": away.get("deputy", ""),
        "away-from": (away.get("from") or "")[:16],
        "away-until": (away.get("until") or "")[:16],
    }
    # The submitted form may be another form on the page, which does not have this field.
    came_back = "zone" in typed
    chosen = _chosen(typed) if came_back else list(mine.preferences.channels)
    # Stored channels can still be selected, even if they no longer exist.
    known = list(dict.fromkeys([*mine.channels, *mine.preferences.channels]))
    # Offer at least one empty field, unless all channels are chosen.
    room = min(max(CHOICES, len(chosen) + 1), len(known), MOST_CHOICES)
    choices = [*chosen, *[""] * (room - len(chosen))]
    return Reached(choices, known, {name: typed.get(name, "") for name in fields} if came_back else fields)


def _chosen(typed: Mapping[str, str]) -> list[str]:
    found = [typed.get(f"channel-{n}", "") for n in range(MOST_CHOICES)]
    return list(dict.fromkeys(each for each in found if each))


async def put_preferences(visit: Visit) -> Response:
    form = visit.form
    quiet = {"from": text(form, "quiet-from"), "to": text(form, "quiet-to"), "timezone": text(form, "zone")}
    away = {"deputy": text(form, "deputy"), "from": _moment(form, "away-from"), "until": _moment(form, "away-until")}
    try:
        if quiet["timezone"] is None and (quiet["from"] or quiet["to"]):
            raise InvalidRequest.at("/zone", "is required for quiet hours. Enter a time zone, such as Europe/Berlin.")
        if away["deputy"] is None and (away["from"] or away["until"]):
            raise InvalidRequest.at(
                "/deputy",
                "is required if you enter dates. Enter the person who answers on your behalf while you are away.",
            )
        body: dict[str, Any] = {"channels": _chosen(form)}
        if quiet["from"] or quiet["to"]:
            body["quiet"] = {name: value for name, value in quiet.items() if value}
        if away["deputy"]:
            body["away"] = {name: value for name, value in away.items() if value}
        use_case = partial(visit.site[PreferenceService].put, name=visit.who.name, body=body, by=visit.who)
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _account_page(visit, error)
    return redirect("/account?done=reached#reached")


def _moment(form: Mapping[str, str], name: str) -> str | None:
    """Read a datetime-local input, which has no seconds or time zone, as UTC."""
    typed = text(form, name)
    return f"{typed}:00Z" if typed and len(typed) == len("2027-01-31T18:00") else typed


async def unlink(visit: Visit) -> Response:
    channel_id, identity = visit.form.get("channel", ""), visit.form.get("identity", "")
    try:
        use_case = partial(visit.site[LinkService].unlink_own, channel_id=channel_id, identity=identity, by=visit.who)
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _account_page(visit, error)
    return redirect("/account?done=unlinked#links")
