"""The form for each kind of source."""

from assent.delivery.pages.channel_forms import REFERENCE, SECRETS_HINT, Field, Form

_SECRETS = Field(
    "secrets",
    "Secrets",
    SECRETS_HINT,
    "lines",
    required=True,
)
_TRUST = Field(
    "trust",
    "Trust level",
    shape="choice",
    choices=(
        ("", "Default for this kind"),
        ("untrusted", "Untrusted: outsiders can write parts of the events"),
        ("trusted", "Trusted: only your team writes the events"),
    ),
)
_EVERY = Field("expect_every", "Alert if no events for", "e.g. 1d. Leave blank for no alert.")
_COMMON = (_TRUST, _EVERY)
_HOST = Field(
    "host", "Host", "Name of the host that watches the path. If left blank, any server that has the path can watch it."
)
_DEDUP = Field("dedup", "Deduplicate by", "e.g. {{ event.data.id }}. Defaults to the ID that the sender provides.")


def _hooked(title: str, about: str, *fields: Field, calls: str) -> Form:
    return Form(title=title, about=about, fields=(*(fields or (_SECRETS,)), *_COMMON), calls=calls)


FORMS: dict[str, Form] = {
    "github": _hooked(
        "GitHub",
        "Pushes, pull requests and workflow runs in a repository or an organization.",
        calls="In GitHub, go to Settings > Webhooks > Add webhook. Use this payload URL, the content type "
        "application/json and the same secret.",
    ),
    "gitlab": _hooked(
        "GitLab",
        "Pushes, merge requests and pipelines.",
        Field("signing_tokens", "Signing tokens", f"One per line. Each starts with whsec_. {REFERENCE}", "lines"),
        Field("secrets", "Secret tokens", f"Used by older GitLab versions instead. {REFERENCE}", "lines"),
        calls="In GitLab, go to Settings > Webhooks > Add new webhook. Use this URL.",
    ),
    "bitbucket": _hooked(
        "Bitbucket",
        "Pushes and pull requests.",
        calls="In Bitbucket, go to Repository settings > Webhooks > Add webhook. Use this URL and the same secret.",
    ),
    "gitea": _hooked(
        "Gitea",
        "Pushes, pull requests and issues.",
        calls="In Gitea, go to Settings > Webhooks > Add webhook. Use this URL and the same secret.",
    ),
    "forgejo": _hooked(
        "Forgejo",
        "Pushes, pull requests and issues.",
        calls="In Forgejo, go to Settings > Webhooks > Add webhook. Use this URL and the same secret.",
    ),
    "circleci": _hooked(
        "CircleCI",
        "Completed workflows and jobs.",
        calls="In CircleCI, go to Project settings > Webhooks > Add webhook. Use this URL and the same secret.",
    ),
    "jenkins": _hooked(
        "Jenkins",
        "Started and completed builds.",
        Field(
            "verify",
            "Location of the secret",
            shape="choice",
            choices=(("", "Last part of the URL"), ("bearer", "Bearer token")),
        ),
        _SECRETS,
        calls="In the job’s notification plugin, enter this URL followed by a slash and the secret.",
    ),
    "jira": _hooked(
        "Jira",
        "Created or updated issues and comments.",
        calls="In Jira, go to System > WebHooks > Create a WebHook. Use this URL and the same secret.",
    ),
    "webhook": _hooked(
        "Webhook",
        "Any program that posts JSON: Standard Webhooks, custom signatures, bearer tokens or CloudEvents.",
        Field(
            "verify",
            "Verification",
            shape="choice",
            choices=(
                ("", "Standard Webhooks"),
                ("hmac", "HMAC signature of the request body"),
                ("bearer", "Bearer token"),
                ("path", "Secret as the last part of the URL"),
                ("none", "None: use only behind your own authentication"),
            ),
        ),
        Field("secrets", "Secrets", f"One per line. {REFERENCE}", "lines"),
        Field("header", "Signature header", "Only for HMAC, e.g. X-Signature"),
        Field("prefix", "Signature prefix", "Only for HMAC, e.g. sha256="),
        Field("cloudevents", "Accept CloudEvents headers (binary mode)", shape="flag"),
        _DEDUP,
        calls="Configure the program to post events to this URL.",
    ),
    "files": Form(
        title="Files",
        about="Files added, changed or removed in a folder on this machine.",
        fields=(
            Field("path", "Folder", required=True),
            Field("include", "Include", "Patterns such as **/*.md, one per line. Leave blank for all files.", "lines"),
            Field("exclude", "Exclude", "Patterns, one per line.", "lines"),
            Field("quiet", "Quiet period", "e.g. 2s"),
            Field("poll", "Poll for changes (for network drives)", shape="flag"),
            _HOST,
            *_COMMON,
        ),
    ),
    "git": Form(
        title="Git",
        about="Merges and pushes in a repository on this machine. Run assent hooks install in the repository first.",
        fields=(
            Field("path", "Repository", required=True),
            Field("events", "Events", "merged, pushed or received, space-separated. Leave blank for all.", "words"),
            _HOST,
            *_COMMON,
        ),
    ),
    "schedule": Form(
        title="Schedule",
        about="Events on a cron schedule.",
        fields=(
            Field(
                "cron", "Cron expression", "Minute, hour, day, month and day of week, e.g. 30 2 * * 1-5", required=True
            ),
            Field("timezone", "Time zone", "e.g. Europe/Paris. Defaults to UTC."),
            Field(
                "missed",
                "Missed ticks",
                shape="choice",
                choices=(("", "Fire the last tick"), ("skip", "Skip"), ("all", "Fire all")),
            ),
            Field("jitter", "Jitter", "Maximum random delay, e.g. 2m"),
            Field("max_age", "Maximum age of missed ticks", "e.g. 7d"),
            *_COMMON,
        ),
    ),
}


def form_of(kind: str) -> Form:
    """Return the form for a kind of source; unknown kinds have only the JSON field."""
    return FORMS.get(kind) or Form(title=kind, about="")
