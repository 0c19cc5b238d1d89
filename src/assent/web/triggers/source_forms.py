"""What the form of each kind of source asks for."""

from assent.web.admin.channel_forms import Field, Form

REFERENCE = "env:NAME or file:PATH."
_SECRETS = Field(
    "secrets",
    "Secrets",
    f"One, or two while one is being replaced, each on a line. {REFERENCE}",
    "lines",
    required=True,
)
_TRUST = Field(
    "trust",
    "How far its events are trusted",
    shape="choice",
    choices=(
        ("", "as is usual for its kind"),
        ("untrusted", "untrusted: strangers write parts of it"),
        ("trusted", "trusted: only we write it"),
    ),
)
_EVERY = Field("expect_every", "Tell when silent for", "As 1d. Empty: silence is no news.")
_COMMON = (_TRUST, _EVERY)
_HOST = Field("host", "Machine that watches", "Its host name. Empty: any server of yours that has the path.")
_DEDUP = Field("dedup", "The same event has the same", "As {{ event.data.id }}. Empty: what the sender gives.")


def _hooked(title: str, about: str, *fields: Field, calls: str) -> Form:
    return Form(title=title, about=about, fields=(*(fields or (_SECRETS,)), *_COMMON), calls=calls)


FORMS: dict[str, Form] = {
    "github": _hooked(
        "GitHub",
        "Pushes, pull requests, workflow runs, of a repository or an organisation.",
        calls="In GitHub: Settings, Webhooks, Add webhook. Payload URL is this, content type application/json, "
        "and the same secret.",
    ),
    "gitlab": _hooked(
        "GitLab",
        "Pushes, merge requests, pipelines.",
        Field("signing_tokens", "Signing tokens", f"Begin with whsec_, each on a line. {REFERENCE}", "lines"),
        Field("secrets", "Secret tokens", f"What older ones send along instead. {REFERENCE}", "lines"),
        calls="In GitLab: Settings, Webhooks, Add new webhook. The URL is this.",
    ),
    "bitbucket": _hooked(
        "Bitbucket",
        "Pushes and pull requests.",
        calls="In Bitbucket: Repository settings, Webhooks, Add webhook, with the same secret.",
    ),
    "gitea": _hooked(
        "Gitea",
        "Pushes, pull requests, issues.",
        calls="In Gitea: Settings, Webhooks, Add webhook, with the same secret.",
    ),
    "forgejo": _hooked(
        "Forgejo",
        "Pushes, pull requests, issues.",
        calls="In Forgejo: Settings, Webhooks, Add webhook, with the same secret.",
    ),
    "circleci": _hooked(
        "CircleCI",
        "Workflows and jobs that ended.",
        calls="In CircleCI: Project settings, Webhooks, Add webhook, with the same secret.",
    ),
    "jenkins": _hooked(
        "Jenkins",
        "Builds that started and ended.",
        Field(
            "verify",
            "Where it sends the secret",
            shape="choice",
            choices=(("", "as the last part of the address"), ("bearer", "as a bearer token")),
        ),
        _SECRETS,
        calls="In the notification plugin of a job: this address, then a slash and the secret.",
    ),
    "jira": _hooked(
        "Jira",
        "Issues and comments that were made or changed.",
        calls="In Jira: System, WebHooks, Create a WebHook, with the same secret.",
    ),
    "webhook": _hooked(
        "Webhook",
        "Any program that posts JSON: Standard Webhooks, a signature of its own, a bearer token, CloudEvents.",
        Field(
            "verify",
            "How it proves who it is",
            shape="choice",
            choices=(
                ("", "Standard Webhooks"),
                ("hmac", "a signature over the body (HMAC)"),
                ("bearer", "a bearer token"),
                ("path", "a secret as the last part of the address"),
                ("none", "not at all: only behind a door of your own"),
            ),
        ),
        Field("secrets", "Secrets", f"Each on a line. {REFERENCE}", "lines"),
        Field("header", "Header of the signature", "Only for HMAC, as X-Signature."),
        Field("prefix", "What stands before the signature", "Only for HMAC, as sha256=."),
        Field("cloudevents", "Headers may say what an event is (CloudEvents in binary mode)", shape="flag"),
        _DEDUP,
        calls="Have the program post to it.",
    ),
    "files": Form(
        title="Files",
        about="Files of a folder on this machine that were added, changed or removed.",
        fields=(
            Field("path", "Folder", required=True),
            Field("include", "Only these", "Patterns as **/*.md, each on a line. Empty: all.", "lines"),
            Field("exclude", "But not these", "Patterns, each on a line.", "lines"),
            Field("quiet", "Wait until quiet for", "As 2s."),
            Field("poll", "Look again and again (for network drives)", shape="flag"),
            _HOST,
            *_COMMON,
        ),
    ),
    "git": Form(
        title="Git",
        about="A repository on this machine: merged, pushed, received. Needs assent hooks install there.",
        fields=(
            Field("path", "Repository", required=True),
            Field("events", "Events", "Of merged, pushed, received, between spaces. Empty: all.", "words"),
            _HOST,
            *_COMMON,
        ),
    ),
    "schedule": Form(
        title="Schedule",
        about="Time itself, by a line of cron in a time zone.",
        fields=(
            Field("cron", "Cron", "Minute, hour, day, month, day of the week, as 30 2 * * 1-5.", required=True),
            Field("timezone", "Time zone", "As Europe/Paris. Empty: UTC."),
            Field(
                "missed",
                "What was missed while nobody was there",
                shape="choice",
                choices=(("", "make up for the last"), ("skip", "leave it out"), ("all", "make up for all")),
            ),
            Field("jitter", "At most so much later", "As 2m, so that not everything starts at once."),
            Field("max_age", "Make up for at most", "As 7d."),
            *_COMMON,
        ),
    ),
}


def form_of(kind: str) -> Form:
    """Return the form of a kind; one that we know nothing of is written as JSON."""
    return FORMS.get(kind) or Form(title=kind, about="")
