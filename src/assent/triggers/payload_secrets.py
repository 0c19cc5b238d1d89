"""Redaction of secrets in event payloads, before anything is stored, matched or displayed."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from assent.core.canonical import Json, is_array, is_object
from assent.core.secrets import PREFIXES

HIDDEN = "[redacted]"
_STRONG = r"(?:password|passwd|passphrase|secret|private[-_ ]?key|credential)"
_WEAK = r"(?:token|api[-_ ]?key|access[-_ ]?key|account[-_ ]?key|authorization|cookie)"
_NAMED = rf"(?:{_STRONG[3:-1]}|{_WEAK[3:-1]})"
_SHORT = r"(?:pwd|pass)"
"""These indicate a secret only as separate words: in `dbPass`, but not in `bypass`."""
_KEY = re.compile(rf"{_NAMED}s?$|(?:^|[^a-z]){_SHORT}$", re.IGNORECASE)
_STRONG_KEY = re.compile(rf"{_STRONG}s?$|(?:^|[^a-z]){_SHORT}$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNED = rf"\b\w{{0,40}}{_NAMED}[\"']?\s{{0,2}}[=:]\s{{0,2}}"
_TEXTS: Sequence[tuple[str, str]] = (
    # Tokens with a known prefix: Assent, Standard Webhooks, Slack, GitHub, GitLab, npm, PyPI, Hugging Face, Stripe,
    # OpenAI, Anthropic, Google, Atlassian, AWS, SendGrid.
    (r"\b(ast[a-z]_)[0-9A-Za-z]{20,}", r"\1"),
    (r"\b(whsec_|xox[a-z]-|xapp-|gh[pousr]_|github_pat_|glpat-|npm_|pypi-|hf_)[0-9A-Za-z+/=_-]{8,}", r"\1"),
    (r"\b(sk_live_|sk_test_|rk_live_|sk-|ATATT3|AIza)[0-9A-Za-z_=-]{16,}", r"\1"),
    (r"\b(AKIA|ASIA)[0-9A-Z]{16}\b", r"\1"),
    (r"\b(SG\.)[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}", r"\1"),
    # JSON Web Tokens, and the value of an Authorization header.
    (r"(?<![0-9A-Za-z_-])eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?", ""),
    (r"\b((?:[Bb]earer|[Bb]asic)\s{1,4})[0-9A-Za-z._~+/=-]{16,}", r"\1"),
    (r"(?i:\b(authorization[\"']?\s{0,2}[=:]\s{0,2}[\"']?(?:token|api-?key)\s{1,4}))[^\s&'\",;}]{4,}", r"\1"),
    (r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[0-9A-Za-z/_-]+", r"\1"),
    # A password in a URL, a signature in a URL, and a password on a command line.
    (r"(://[^\s/:@\"]{0,200}:)[^\s/@\"]{1,200}(?=@)", r"\1"),
    (r"(?i:([?&](?:sig|signature|x-amz-signature)=))[^\s&\"']{8,}", r"\1"),
    (rf"(?i:(--?\w{{0,40}}-?{_NAMED}\s{{1,4}}))(?!-)[^\s'\"]{{4,}}", r"\1"),
    (r"((?:\s-u|\s--user)[\s=]{1,4}[^\s:/]{1,200}:)[^\s'\"]{1,200}", r"\1"),
    # A private key, even if its end is missing.
    (
        (
            r"(?s:(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----).*?"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z))"
        ),
        r"\1",
    ),
    # Assignments in text, such as password="…", password=… and "token": "…".
    (rf"(?i:({_ASSIGNED}[\"'])(?!bearer\s|basic\s))[^'\"\n]{{4,}}(?=['\"])", r"\1"),
    (rf"(?i:({_ASSIGNED}[\"']?)(?!bearer\s|basic\s|token\s|api-?key\s|\[))[^\s&'\",;}}]{{4,}}", r"\1"),
)

_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s/:@\"]{0,200}:[^\s/@\"]{1,200}@")
_WORDS = (
    "password", "passwd", "passphrase", 'pwd"', 'pass"', "secret", "token", "apikey", "api_key", "api-key", "api key",
    "accesskey", "access_key", "access-key", "access key", "accountkey", "account_key", "account-key", "account key",
    "privatekey", "private_key", "private-key", "private key", "credential", "authorization", "cookie", "bearer",
    "basic", "whsec_", "xox", "xapp-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-",
    "hf_", "sk_live_", "sk_test_", "rk_live_", "sk-", "atatt3", "aiza", "akia", "asia", "sg.", "eyj", "hooks.slack.com",
    "sig=", "signature=", " -u", " --user", *PREFIXES.values(),
)  # fmt: skip
"""Every text that a pattern matches contains one of these, and so does JSON with a key that indicates a secret."""
_PAIRS = (("name", "value"), ("key", "value"))
"""Object members that contain a key and its value, as in lists of variables or headers."""


class Redactor:
    """Redacts secrets in JSON: the values of keys that indicate a secret, and text that matches a pattern.

    A pattern's first group, if any, is kept so that readers can tell what was redacted.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        own = [(each, r"\1" if re.compile(each).groups else "") for each in patterns]
        self._patterns = [(re.compile(found), f"{kept}{HIDDEN}") for found, kept in (*_TEXTS, *own)]
        self._own = [re.compile(each) for each in patterns]

    def __call__(self, value: Json) -> Json:
        """Return the value without secrets, or the same object if it does not contain any."""
        return self._walked(value) if self._own or self.suspects(json.dumps(value, ensure_ascii=False)) else value

    def suspects(self, text: str) -> bool:
        """Return whether text or JSON might contain a secret, according to the built-in patterns.

        Most text contains none, and searching for plain words is many times faster than matching the patterns.
        """
        if "@" in text and _PASSWORD_IN_ADDRESS.search(text) is not None:
            return True
        lowered = text.lower()
        for word in _WORDS:  # noqa: SIM110  # any() with a generator is slower than the search itself
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
            return self._array(value)
        if is_object(value):
            return self._object(value)
        return value

    def _array(self, value: Sequence[Json]) -> list[Json]:
        if len(value) == 2 and isinstance(value[0], str) and is_secret(value[0], value[1]):  # noqa: PLR2004  # a pair
            return [value[0], HIDDEN]
        return [self._walked(each) for each in value]

    def _object(self, value: Mapping[str, Json]) -> dict[str, Json]:
        found = {
            self.text(name): HIDDEN if is_secret(name, each) else self._walked(each) for name, each in value.items()
        }
        for naming, holding in _PAIRS:
            name: Json = value.get(naming)
            if isinstance(name, str) and holding in value and is_secret(name, value[holding]):
                found[holding] = HIDDEN
        return found


@lru_cache(maxsize=4096)
def names_secret(key: str) -> bool:
    """Return whether a key indicates that its value is a secret: password, apiKey, client_secret, X-Auth-Token."""
    return _KEY.search(_CAMEL.sub("_", key)) is not None


@lru_cache(maxsize=4096)
def _names_nothing_else(key: str) -> bool:
    """Return whether a key's value is a secret regardless of its type. `token`, by contrast, may hold a count."""
    return _STRONG_KEY.search(_CAMEL.sub("_", key)) is not None


def is_secret(key: str, value: Json) -> bool:
    if isinstance(value, str):
        # Redacting twice must not change anything.
        return value not in {"", HIDDEN} and names_secret(key)
    return value is not None and not isinstance(value, bool) and bool(value) and _names_nothing_else(key)


BUILT_IN = Redactor()
