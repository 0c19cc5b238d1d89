"""What the form of each type of channel asks for, and its settings read from what was typed."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from assent.domain.canonical import Json, is_array, is_object, strict_loads
from assent.domain.errors import InvalidRequest, MalformedJson
from assent.web import render
from assent.web.admin.frame import text

PREFIX = "set-"
OTHERS = "others"
"""Settings that the form has no field for, as JSON: nothing that was set elsewhere is lost here."""
_LOST = 120
_REFERENCE = "env:NAME or file:PATH."


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    hint: str = ""
    shape: str = "text"
    """text, number, flag, choice, words (between spaces or commas), or lines."""
    choices: tuple[tuple[str, str], ...] = ()
    required: bool = False

    @property
    def id(self) -> str:
        return PREFIX + self.name

    def shown(self, value: Json) -> str:
        if value is None or value is False:
            return ""
        if is_array(value):
            return ("\n" if self.shape == "lines" else " ").join(map(str, value))
        return "yes" if value is True else str(value)

    def read(self, typed: Mapping[str, str]) -> Json:
        """Return the value that was typed, None for nothing."""
        given = text(typed, self.id)
        if given is None or self.shape == "flag":
            return True if given else None
        if self.shape == "number":
            return _number(f"/settings/{self.name}", given)
        if self.shape == "words":
            return given.replace(",", " ").split()
        if self.shape == "lines":
            return [each.strip() for each in given.splitlines() if each.strip()]
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    title: str
    about: str
    fields: tuple[Field, ...] = ()
    calls: str = ""
    """What to do with the channel's address, where the other side calls it."""
    identity: str = ""
    """How people are known there, where they answer as themselves."""
    silence: Callable[[Mapping[str, Any]], int | None] = lambda _: None
    """Where it keeps a connection of its own or asks again and again: after how many silent seconds that is lost."""


def _secret(name: str, label: str, hint: str = "", *, required: bool = False) -> Field:
    return Field(name, label, f"{hint} {_REFERENCE}".strip(), required=required)


def _jira_silence(settings: Mapping[str, Any]) -> int | None:
    pause = settings.get("pollSeconds", 30)
    answers = any(settings.get(name) for name in ("approve", "reject", "commentWords"))
    return _LOST + 4 * int(pause) if pause and answers else None


_PACING = (
    Field("paceMessages", "Messages in a window", "To one recipient. Empty: the usual number for this type.", "number"),
    Field("paceSeconds", "Length of the window in seconds", "Empty: 60.", "number"),
    Field(
        "digest",
        "Messages past the limit",
        shape="choice",
        choices=(("", "are combined into one"), ("never", "are sent one by one, later")),
    ),
)
FORMS: dict[str, Form] = {
    "slack": Form(
        title="Slack",
        about="Messages with buttons, in a room or to each person; people answer there once they are linked.",
        fields=(
            _secret("token", "Bot token", "Begins with xoxb-.", required=True),
            _secret("appToken", "App-level token", "Begins with xapp-. With it, Slack needs no address of yours."),
            _secret("signingSecret", "Signing secret", "Only without an app-level token."),
            Field("room", "Room", "A channel’s id as C0123456789, or #name. Empty: each person gets their own."),
            Field("apiUrl", "Address of Slack’s API", "Only for a gateway or a test. Empty: Slack itself."),
            *_PACING,
        ),
        calls="The request URL of Interactivity in the Slack app. With an app-level token it is not needed.",
        identity="Team and user, as T0123ABCD:U0123ABCD",
        silence=lambda settings: _LOST if "appToken" in settings else None,
    ),
    "email": Form(
        title="E-mail",
        about="A letter to each person with one Review link, or to a list of addresses.",
        fields=(
            Field("host", "Mail server", "Its name, as smtp.example.org.", required=True),
            Field("port", "Port", "Empty: what is usual, 587, 465 or 25.", "number"),
            Field(
                "tls",
                "Encryption",
                shape="choice",
                choices=(("", "STARTTLS"), ("tls", "TLS from the start"), ("none", "none: only on your own machine")),
            ),
            Field("from", "Sender", "As Assent <assent@example.org>.", required=True),
            Field("user", "User name"),
            _secret("password", "Password"),
            Field(
                "addresses", "A list instead", "Addresses between spaces; nobody gets a letter of their own.", "words"
            ),
            Field("replyDomain", "Answers by mail: domain", "Leave these four empty unless replies shall count."),
            Field("authserv", "Answers by mail: who checked the sender", "The name your mail server signs with."),
            _secret("replySecret", "Answers by mail: secret of the addresses"),
            _secret("inboundSecret", "Answers by mail: password of your mail server"),
            *_PACING,
        ),
        calls="Have your mail server post what arrives at the reply domain to it. Only where replies count.",
        identity="E-mail address",
    ),
    "webhook": Form(
        title="Webhook",
        about="Signed messages to a program of yours, which may answer as somebody.",
        fields=(
            Field("url", "Address", "Where messages are posted to.", required=True),
            Field(
                "secrets",
                "Signing secrets",
                f"One, or two while one is being replaced, each on a line. {_REFERENCE}",
                "lines",
                required=True,
            ),
            Field("answersAs", "Answers as", "The name of a person or service account. Empty: it may not answer."),
            Field("answersInline", "Take the answer to our own request as its answer", shape="flag"),
            Field("events", "Events", "Between spaces. Empty: all of them.", "words"),
        ),
        calls="The program posts its signed answers to it. Only where it may answer.",
    ),
    "jira": Form(
        title="Jira",
        about="An issue for each breakpoint; moving it to a status you name answers.",
        fields=(
            Field("url", "Address", "As https://example.atlassian.net.", required=True),
            Field("project", "Project", "Its key, as OPS.", required=True),
            Field("issueType", "Issue type", "Empty: Task."),
            Field("user", "User", "The e-mail address of an account, for Jira’s cloud."),
            _secret("token", "API token", "For Jira’s cloud, with the user."),
            _secret("bearer", "Access token", "For a data center, instead of user and API token."),
            Field("labels", "Labels", "Between spaces.", "words"),
            Field("approve", "Statuses that approve", "Each on a line. Empty: none does.", "lines"),
            Field("reject", "Statuses that reject", "Each on a line. Empty: none does.", "lines"),
            Field("commentWords", "A comment that begins with “approve” or “reject” answers too", shape="flag"),
            Field("closeTransition", "Transition that closes it", "Taken once it is decided. Empty: a comment."),
            _secret("webhookSecret", "Secret of the webhook"),
            Field("pollSeconds", "Look every so many seconds", "Empty: 30. 0: never, the webhook is enough.", "number"),
            Field("timezone", "Time zone", "For times in issues and comments, such as Europe/Berlin. Empty: UTC."),
        ),
        calls="Make a webhook in Jira that posts to it when issues and comments change, with the same secret.",
        identity="Account id in Jira",
        silence=_jira_silence,
    ),
    "apprise": Form(
        title="Apprise",
        about="A short message with a link, on any service that Apprise knows: Teams, Discord, Telegram and more.",
        fields=(
            Field(
                "urls",
                "Addresses of the services",
                f"Each on a line, as Apprise writes them. They hold secrets. {_REFERENCE}",
                "lines",
                required=True,
            ),
            *_PACING,
        ),
    ),
}


def form_of(kind: str) -> Form:
    """Return the form of a type; one that we know nothing of is written as JSON."""
    return FORMS.get(kind) or Form(title=kind, about="")


def values(form: Form, settings: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, str]:
    """What stands in the fields: what was typed, if the form comes back, else what is set."""
    if typed:
        return {name: typed.get(name, "") for name in (*(each.id for each in form.fields), OTHERS)}
    others = {name: value for name, value in settings.items() if name not in {each.name for each in form.fields}}
    found = {each.id: each.shown(settings.get(each.name)) for each in form.fields}
    return found | {OTHERS: render.pretty(others) if others else ""}


def asked(form: Form, typed: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Json]:
    """Read all settings; None for what was set before and is not any more."""
    found = {each.name: each.read(typed) for each in form.fields}
    gone = dict.fromkeys(before.keys() - found.keys())
    return gone | found | _others(typed, found.keys())


def _others(typed: Mapping[str, str], known: Collection[str]) -> dict[str, Json]:
    given = text(typed, OTHERS)
    if given is None:
        return {}
    try:
        read = strict_loads(given.encode())
    except MalformedJson as error:
        raise InvalidRequest.at(f"/{OTHERS}", error.message) from error
    if not is_object(read):
        raise InvalidRequest.at(f"/{OTHERS}", 'must be an object, as {"name": "value"}')
    twice = next((name for name in read if name in known), None)
    if twice is not None:
        raise InvalidRequest.at(f"/{OTHERS}", f"{twice} has a field of its own above")
    return dict(read)


def _number(pointer: str, typed: str) -> int:
    if not (typed.isascii() and typed.isdigit() and len(typed) < 10):  # noqa: PLR2004  # more than any limit of ours
        raise InvalidRequest.at(pointer, "must be a whole number")
    return int(typed)
