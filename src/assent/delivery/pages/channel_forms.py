"""The form for each channel type, and conversion between its fields and the channel's settings."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import Json, is_array, is_object, strict_loads
from assent.core.errors import InvalidRequest, MalformedJson
from assent.web import filters as render
from assent.web.admin import text

PREFIX = "set-"
OTHERS = "others"
"""The JSON field for settings that do not have a separate field, so that saving does not lose them."""
_LOST = 120
"""Seconds without contact after which a connection counts as lost."""
REFERENCE = "Enter env:NAME or file:PATH."
SECRETS_HINT = f"One per line; use two while rotating secrets. {REFERENCE}"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    hint: str = ""
    shape: str = "text"
    """text, number, flag, choice, words (separated by spaces or commas), or lines."""
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
        """Return the submitted value, or None if the field is empty."""
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
    """What to do with the callback URL, if the external service calls it."""
    identity: str = ""
    """The format of a person's account ID, if people answer with linked accounts."""
    silence: Callable[[Mapping[str, Any]], int | None] = lambda _: None
    """Seconds without contact after which a channel that listens or polls counts as lost; None for others."""


def _secret(name: str, label: str, hint: str = "", *, required: bool = False) -> Field:
    return Field(name, label, f"{hint} {REFERENCE}".strip(), required=required)


def _jira_silence(settings: Mapping[str, Any]) -> int | None:
    pause = settings.get("pollSeconds", 30)
    answers = any(settings.get(name) for name in ("approve", "reject", "commentWords"))
    return _LOST + 4 * int(pause) if pause and answers else None


_PACING = (
    Field(
        "paceMessages",
        "Rate limit: messages",
        "For each recipient. Leave blank to use the default for this channel type.",
        "number",
    ),
    Field("paceSeconds", "Rate limit: window in seconds", "Defaults to 60.", "number"),
    Field(
        "digest",
        "Messages over the limit",
        shape="choice",
        choices=(("", "Combine into a digest"), ("never", "Send individually later")),
    ),
)
FORMS: dict[str, Form] = {
    "slack": Form(
        title="Slack",
        about="Messages with buttons, sent to a Slack channel or to each person. People answer with linked accounts.",
        fields=(
            _secret("token", "Bot token", "Starts with xoxb-.", required=True),
            _secret(
                "appToken",
                "App-level token",
                "Starts with xapp-. With this token, your server does not need a public URL.",
            ),
            _secret("signingSecret", "Signing secret", "Needed only if there is no app-level token."),
            Field(
                "room", "Slack channel", "Channel ID such as C0123456789, or #name. Leave blank to message each person."
            ),
            Field("apiUrl", "Slack API URL", "Only for a gateway or a test server. Defaults to the Slack API."),
            *_PACING,
        ),
        calls=(
            "In the Slack app, enter this URL as the request URL under Interactivity. Not needed with an app-level "
            "token."
        ),
        identity="Team and user, e.g. T0123ABCD:U0123ABCD",
        silence=lambda settings: _LOST if "appToken" in settings else None,
    ),
    "email": Form(
        title="Email",
        about="Emails with a Review link, sent to each person or to a list of addresses.",
        fields=(
            Field("host", "Mail server", "Host name, e.g. smtp.example.org", required=True),
            Field("port", "Port", "Defaults to 587, 465 or 25, depending on the encryption.", "number"),
            Field(
                "tls",
                "Encryption",
                shape="choice",
                choices=(("", "STARTTLS"), ("tls", "Implicit TLS"), ("none", "None (only for a local server)")),
            ),
            Field("from", "Sender", "e.g. Assent <assent@example.org>", required=True),
            Field("user", "Username"),
            _secret("password", "Password"),
            Field(
                "addresses",
                "Address list",
                "Space-separated. If set, all emails go to this list instead of to each person.",
                "words",
            ),
            Field(
                "replyDomain",
                "Reply domain",
                "Leave these four fields blank unless email replies should count as answers.",
            ),
            Field("authserv", "Reply authserv-id", "Your mail server's name in Authentication-Results headers."),
            _secret("replySecret", "Reply address secret", "Used to sign reply addresses."),
            _secret("inboundSecret", "Inbound mail password", "Sent by your mail server with each reply."),
            *_PACING,
        ),
        calls=(
            "Configure your mail server to post mail for the reply domain to this URL. Only needed if replies count "
            "as answers."
        ),
        identity="Email address",
    ),
    "webhook": Form(
        title="Webhook",
        about="Signed messages to your own program, which can answer on behalf of a person.",
        fields=(
            Field("url", "URL", "Messages are posted here.", required=True),
            Field(
                "secrets",
                "Signing secrets",
                SECRETS_HINT,
                "lines",
                required=True,
            ),
            Field("answersAs", "Answers as", "Name of a person or service account. Leave blank to disable answers."),
            Field("answersInline", "Accept answers in the HTTP response", shape="flag"),
            Field("events", "Events", "Space-separated. Leave blank for all.", "words"),
        ),
        calls="The program posts its signed answers to this URL. Only needed if the program can answer.",
    ),
    "jira": Form(
        title="Jira",
        about=(
            "Creates an issue for each breakpoint. Moving the issue to a configured status approves or rejects the "
            "breakpoint."
        ),
        fields=(
            Field("url", "URL", "e.g. https://example.atlassian.net", required=True),
            Field("project", "Project key", "e.g. OPS", required=True),
            Field("issueType", "Issue type", "Defaults to Task."),
            Field("user", "User", "The account's email address, for Jira Cloud."),
            _secret("token", "API token", "For Jira Cloud, in addition to the user."),
            _secret("bearer", "Access token", "For Jira Data Center, instead of a user and API token."),
            Field("labels", "Labels", "Space-separated.", "words"),
            Field("approve", "Statuses that approve", "One per line. Leave blank for none.", "lines"),
            Field("reject", "Statuses that reject", "One per line. Leave blank for none.", "lines"),
            Field("commentWords", "Comments that start with “approve” or “reject” count as answers", shape="flag"),
            Field(
                "closeTransition",
                "Closing transition",
                "Applied after the decision, in addition to a comment. Leave blank to add only the comment.",
            ),
            _secret("webhookSecret", "Webhook secret"),
            Field(
                "pollSeconds",
                "Poll interval in seconds",
                "Defaults to 30. Use 0 to rely on the webhook only.",
                "number",
            ),
            Field("timezone", "Time zone", "For times in issues and comments, e.g. Europe/Berlin. Defaults to UTC."),
        ),
        calls="In Jira, create a webhook for issue and comment changes with this URL and the same secret.",
        identity="Jira account ID",
        silence=_jira_silence,
    ),
    "apprise": Form(
        title="Apprise",
        about=(
            "Short messages with a link, through any service that Apprise supports: Teams, Discord, Telegram and more."
        ),
        fields=(
            Field(
                "urls",
                "Service URLs",
                f"One per line. Apprise URLs contain secrets. {REFERENCE}",
                "lines",
                required=True,
            ),
            *_PACING,
        ),
    ),
}


def form_of(kind: str) -> Form:
    """Return the form of a channel type; unknown types have only the JSON field."""
    return FORMS.get(kind) or Form(title=kind, about="")


def values(form: Form, settings: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the fields: the submitted ones if the form is shown again, otherwise the settings."""
    if typed:
        return {name: typed.get(name, "") for name in (*(each.id for each in form.fields), OTHERS)}
    others = {name: value for name, value in settings.items() if name not in {each.name for each in form.fields}}
    found = {each.id: each.shown(settings.get(each.name)) for each in form.fields}
    return found | {OTHERS: render.pretty(others) if others else ""}


def asked(form: Form, typed: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Json]:
    """Return all submitted settings, with None for those that were removed."""
    found = {each.name: each.read(typed) for each in form.fields}
    # The service keeps settings that are not mentioned, so removed ones must be None.
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
        raise InvalidRequest.at(f"/{OTHERS}", 'must be a JSON object, such as {"name": "value"}')
    twice = next((name for name in read if name in known), None)
    if twice is not None:
        raise InvalidRequest.at(f"/{OTHERS}", f"{twice} has its own field above; set it there")
    return dict(read)


def _number(pointer: str, typed: str) -> int:
    if not (typed.isascii() and typed.isdigit() and len(typed) < 10):  # noqa: PLR2004  # exceeds every limit of the settings
        raise InvalidRequest.at(pointer, "must be a whole number")
    return int(typed)
