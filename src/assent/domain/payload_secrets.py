"""Secrets in the payloads of events: what looks like one is replaced before anything is stored, matched or shown."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from assent.domain.canonical import Json, is_array, is_object
from assent.domain.secrets import PREFIXES

HIDDEN = "[redacted]"
_NAMED = r"(?:password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|credentials?|authorization)"
_KEY = re.compile(rf"(?:^|[^a-z]){_NAMED}s?$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TEXTS: Sequence[tuple[str, str]] = (
    # Tokens with a prefix of their own: Assent, Standard Webhooks, Slack, GitHub, GitLab, npm, PyPI, Stripe, OpenAI,
    # Anthropic, Google, Atlassian, AWS.
    (r"\b(ast[a-z]_)[0-9A-Za-z]{20,}", r"\1"),
    (r"\b(whsec_|xox[a-z]-|xapp-|gh[pousr]_|github_pat_|glpat-|npm_|pypi-)[0-9A-Za-z+/=_-]{8,}", r"\1"),
    (r"\b(sk_live_|sk_test_|rk_live_|sk-ant-|sk-proj-|ATATT3|AIza)[0-9A-Za-z_=-]{16,}", r"\1"),
    (r"\b(AKIA|ASIA)[0-9A-Z]{16}\b", r"\1"),
    # JSON Web Tokens, and the value of an Authorization header.
    (r"(?<![0-9A-Za-z_-])eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?", ""),
    (r"\b((?:[Bb]earer|[Bb]asic)\s{1,4})[0-9A-Za-z._~+/=-]{16,}", r"\1"),
    (r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[0-9A-Za-z/_-]+", r"\1"),
    # A password in an address.
    (r"(://[^\s/:@\"]{1,200}:)[^\s/@\"]{1,200}(?=@)", r"\1"),
    # A private key, with or without its end.
    (r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]{1,20000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?", r"\1"),
    # password=…, "token": "…" and the like inside a text.
    (rf"(?i:\b(\w{{0,40}}{_NAMED}[\"']?\s{{0,2}}[=:]\s{{0,2}}[\"']?)(?!bearer\s|basic\s))[^\s&'\",;}}]{{4,}}", r"\1"),
)

_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s/:@\"]{1,200}:[^\s/@\"]{1,200}@")
_WORDS = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "accesskey", "access_key", "privatekey",
    "private_key", "private key", "credential", "authorization", "bearer", "basic", "whsec_", "xox", "xapp-", "ghp_",
    "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "sk_live_", "sk_test_", "rk_live_",
    "sk-ant-", "sk-proj-", "atatt3", "aiza", "akia", "asia", "eyj", "hooks.slack.com", *PREFIXES.values(),
)  # fmt: skip
"""One of these is in every text that a pattern matches."""


class Redactor:
    """Replaces secrets in JSON: the values of keys that name one, and what a pattern finds in any text.

    A pattern with a group keeps what the first group matched, so that a reader sees what was replaced.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        own = [(each, r"\1" if re.compile(each).groups else "") for each in patterns]
        self._patterns = [(re.compile(found), f"{kept}{HIDDEN}") for found, kept in (*_TEXTS, *own)]
        self._own = [re.compile(each) for each in patterns]

    def __call__(self, value: Json) -> Json:
        """Return the value without secrets; the same object where it has none."""
        return self._walked(value) if self._own or self.suspects(json.dumps(value, ensure_ascii=False)) else value

    def suspects(self, text: str) -> bool:
        """Whether a text, or JSON, may hold a secret, as far as the patterns that are built in can tell.

        Most hold none, and a look for plain words is many times as fast as the patterns are.
        """
        if "@" in text and _PASSWORD_IN_ADDRESS.search(text) is not None:
            return True
        lowered = text.lower()
        for word in _WORDS:  # noqa: SIM110  # a generator for any() takes longer than the look
            if word in lowered:
                return True
        return False

    def text(self, text: str) -> str:
        if not self._own and not self.suspects(text):
            return text
        for pattern, instead in self._patterns:
            text = pattern.sub(instead, text)
        return text

    def _walked(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if is_array(value):
            return [self._walked(each) for each in value]
        if is_object(value):
            return self._object(value)
        return value

    def _object(self, value: Mapping[str, Json]) -> dict[str, Json]:
        return {
            name: HIDDEN if names_secret(name) and _is_secret(each) else self._walked(each)
            for name, each in value.items()
        }


@lru_cache(maxsize=4096)
def names_secret(key: str) -> bool:
    """Whether a key says that its value is a secret: password, apiKey, client_secret, X-Auth-Token."""
    return _KEY.search(_CAMEL.sub("_", key)) is not None


def _is_secret(value: Json) -> bool:
    """An empty text, a number or a list of scopes under such a key reveals nothing worth hiding."""
    return isinstance(value, str) and value not in {"", HIDDEN}


BUILT_IN = Redactor()
