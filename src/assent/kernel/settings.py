"""Settings from ASSENT_* variables and assent.yaml, validated at startup."""

import os
import re
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

ENV, FILE = "env:", "file:"
LARGEST_SECRET = 64 * 1024
KEYLESS_TEXT = (
    "ASSENT_SECRET_KEYS is not set, so this node cannot sign receipts, checkpoints or callbacks. Set it to the same"
    " env:NAME or file:PATH reference on every node."
)
OTEL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
OTEL_PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


class Secret(str):
    """A secret value, whose repr is the reference it came from."""

    __slots__ = ("reference",)
    reference: str | None

    def __new__(cls, value: str, reference: str | None = None) -> Self:
        made = super().__new__(cls, value)
        made.reference = reference
        return made

    def __repr__(self) -> str:
        return f"Secret({self.reference or '***'!r})"


def is_reference(text: str) -> bool:
    return text.startswith((ENV, FILE))


def resolve(text: str) -> Secret:
    """Return the value that `env:NAME` or `file:PATH` refers to; any other text is returned unchanged."""
    if not is_reference(text):
        return Secret(text)
    value = _variable(text) if text.startswith(ENV) else _content(text)
    if not value.strip():
        msg = f"{text} is empty"
        raise ValueError(msg)
    return Secret(value, text)


def _variable(reference: str) -> str:
    name = reference.removeprefix(ENV)
    value = os.environ.get(name)
    if value is None:
        msg = f"{reference} cannot be resolved: the environment variable {name} is not set"
        raise ValueError(msg)
    return value


def _content(reference: str) -> str:
    try:
        with Path(reference.removeprefix(FILE)).open("rb") as file:
            # Reads at most one byte too many, because the path could be an endless device such as /dev/zero.
            found = file.read(LARGEST_SECRET + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "not a valid path"
        msg = f"{reference} cannot be read: {said}"
        raise ValueError(msg) from error
    try:
        value = found.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"{reference} is not valid UTF-8 text"
        raise ValueError(msg) from error
    if len(found) > LARGEST_SECRET:
        msg = f"{reference} is larger than {LARGEST_SECRET // 1024} KiB"
        raise ValueError(msg)
    return value.rstrip("\r\n")


def open_to_others(path: Path) -> bool:
    """Return whether accounts other than its owner can access a file or directory."""
    try:
        return path.stat().st_mode & 0o077 != 0
    except OSError:
        return False


def _postgres(url: str | None) -> str | None:
    if url is None:
        return None
    found = resolve(url)
    if not found.startswith(("postgresql://", "postgres://")):
        msg = "must start with postgresql:// (leave it unset to use SQLite in the data directory)"
        raise ValueError(msg)
    # The drivers' errors about an invalid URL quote parts of it, which may include the password.
    try:
        readable = urlsplit(found).port != 0 and not re.search("%(?![0-9A-Fa-f]{2})", found)
    except ValueError:
        readable = False
    if not readable:
        msg = "is not a valid URL. Percent-encode special characters in the password (%40, %2F and so on)"
        raise ValueError(msg)
    return found


def _listed(value: object) -> object:
    """Split the value of an environment variable at its commas."""
    if isinstance(value, str):
        return tuple(part for part in map(str.strip, value.split(",")) if part) or None
    return value


def _lines(value: object) -> object:
    """Split a variable into regular expressions by line, because they may contain commas."""
    if isinstance(value, str):
        return tuple(part for part in map(str.strip, value.splitlines()) if part) or None
    return value


def _expressions(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for pattern in patterns or ():
        try:
            matches_nothing = re.compile(pattern).search("") is not None
        except re.error as error:
            msg = f"{pattern!r} is not a valid regular expression: {error}"
            raise ValueError(msg) from error
        if matches_nothing:
            msg = f"{pattern!r} matches the empty string, so it would match any text"
            raise ValueError(msg)
    return patterns


def _key_references(references: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Keep the references instead of their values, so that a rotated key is read again without a restart."""
    for reference in references or ():
        if not is_reference(reference):
            msg = "must be env:NAME or file:PATH, not the key itself"
            raise ValueError(msg)
        resolve(reference)
    return references


def _reference_patterns(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for pattern in patterns or ():
        if not is_reference(pattern):
            msg = "must start with env: or file:, for example env:SLACK_*"
            raise ValueError(msg)
    return patterns


def _networks(listed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for each in listed or ():
        ip_network(each)  # raises a ValueError that says what is wrong
    return listed


def _collector(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        msg = "must start with http:// or https://"
        raise ValueError(msg)
    wanted = url or next(filter(None, map(os.environ.get, OTEL_VARIABLES)), None)
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if wanted and not disabled and not all(map(_installed, OTEL_PACKAGES)):
        msg = "tracing is enabled, but its packages are not installed. Run: pip install 'assent[otel]'"
        raise ValueError(msg)
    return url


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _issuer(url: str | None) -> str | None:
    """Return the issuer exactly as written, because OIDC compares it with the provider's character by character."""
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.netloc or parts.query or parts.fragment:
        msg = "must be the provider's URL, https://… without a query or fragment"
        raise ValueError(msg)
    return url


def _secret(text: str | None) -> Secret | None:
    return None if text is None else resolve(text)


def _mapping(value: object) -> object:
    """Parse the group=role pairs of an environment variable."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in map(str.strip, value.split(",")) if part]
        return {group.strip(): role.strip() for group, _, role in pairs}
    return value


class AssentYaml(YamlConfigSettingsSource):
    """Reads the file with our own parser, in which `on:` is a key and not the value true."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:  # noqa: ANN401  # any kind of path
        from assent.kernel.yaml_file import LARGEST, Unreadable, read  # noqa: PLC0415  # only needed if there is a file

        with file_path.open("rb") as file:
            found: Any = read(file.read(LARGEST + 1)).value
        if not isinstance(found, dict):
            msg = "must be a mapping of settings"
            raise Unreadable(msg)
        return cast("dict[str, Any]", found)


LOCATING = ("data_dir", "database_url", "secret_keys")
NEEDED_BY_DATA = frozenset(
    {
        *LOCATING,
        "host",
        "port",
        "public_url",
        "processes_dir",
        "receipt_seconds",
        "checkpoint_seconds",
        "checkpoint_file",
        "checkpoint_webhook",
    }
)
"""Settings in assent.yaml that commands need to access the data; all others affect only a running server."""


class DataYaml(AssentYaml):
    """Reads only the settings that are needed to access the data, so that other mistakes do not block commands."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:  # noqa: ANN401  # any kind of path
        found = super()._read_file(file_path)
        return {name: value for name, value in found.items() if name in NEEDED_BY_DATA}


Role = Literal["viewer", "reviewer", "rule-admin", "auditor", "admin"]


class Settings(BaseSettings):
    """All settings; each field is ASSENT_<NAME> in the environment or <name> in assent.yaml."""

    file_source: ClassVar[type[AssentYaml] | None] = AssentYaml
    """How assent.yaml is read; None ignores the file."""
    model_config = SettingsConfigDict(
        env_prefix="ASSENT_", yaml_file="assent.yaml", extra="ignore", hide_input_in_errors=True
    )

    data_dir: Annotated[Path, Field(description="Directory for the SQLite database and its lock file.")] = Path("data")
    database_url: Annotated[
        str | None,
        AfterValidator(_postgres),
        Field(description="PostgreSQL URL (postgresql://…). If set, PostgreSQL is used instead of SQLite."),
    ] = None
    secret_keys: Annotated[
        tuple[str, ...] | None,
        NoDecode,
        BeforeValidator(_listed),
        AfterValidator(_key_references),
        Field(description="Encryption keys for stored secrets, newest first, as env:NAME or file:PATH references."),
    ] = None
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")] = 7373
    public_url: Annotated[str | None, Field(description="Public URL of this server, used in links.")] = None
    trusted_proxies: Annotated[
        str, Field(description="Comma-separated addresses of proxies whose X-Forwarded-* headers are trusted.")
    ] = "127.0.0.1"
    creates_per_minute: Annotated[
        int, Field(ge=0, description="Maximum number of breakpoints per token and minute; 0 means no limit.")
    ] = 30_000
    waits_per_token: Annotated[
        int,
        Field(ge=0, description="Maximum number of open waits and streams per token on each node; 0 means no limit."),
    ] = 20_000
    receipt_seconds: Annotated[
        int, Field(ge=1, le=31_622_400, description="Number of seconds after a decision until its receipt expires.")
    ] = 3600
    checkpoint_seconds: Annotated[
        float,
        Field(
            ge=0, le=86_400, description="Number of seconds between checkpoints of new events; 0 disables checkpoints."
        ),
    ] = 10.0
    checkpoint_file: Annotated[
        Path | None,
        Field(description="File to which every checkpoint is appended; store it separately from the database."),
    ] = None
    checkpoint_webhook: Annotated[str | None, Field(description="URL that receives every checkpoint.")] = None
    undo_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=60,
            description="Number of seconds during which a decision made in the browser can be undone; 0 disables undo.",
        ),
    ] = 6
    processes_dir: Annotated[
        Path | None,
        Field(description="Directory that contains processes. By default, this is `processes` in the data directory."),
    ] = None
    outbound_allow: Annotated[
        tuple[str, ...] | None,
        NoDecode,
        BeforeValidator(_listed),
        AfterValidator(_networks),
        Field(description="Comma-separated private networks to which the server may send requests."),
    ] = None
    channels: Annotated[
        tuple[dict[str, Any], ...] | None,
        Field(description="Notification channels."),
    ] = None
    routes: Annotated[
        tuple[dict[str, Any], ...] | None,
        Field(description="Routes, which determine who is notified and where."),
    ] = None
    sources: Annotated[dict[str, Any] | None, Field(description="Sources of trigger events, by name.")] = None
    triggers: Annotated[
        tuple[dict[str, Any], ...] | None,
        Field(description="Triggers, which start runs when matching events arrive."),
    ] = None
    redact_patterns: Annotated[
        tuple[str, ...] | None,
        NoDecode,
        BeforeValidator(_lines),
        AfterValidator(_expressions),
        Field(description="Regular expressions for secrets that are redacted from events."),
    ] = None
    channel_secrets: Annotated[
        tuple[str, ...] | None,
        NoDecode,
        BeforeValidator(_listed),
        AfterValidator(_reference_patterns),
        Field(description="Comma-separated references to the secrets that project admins may use in channels."),
    ] = None
    drain_seconds: Annotated[
        float, Field(ge=0, description="Number of seconds to wait for requests to finish when the server stops.")
    ] = 10.0
    header_timeout_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=3600,
            description="Number of seconds that a client may take to send the request headers; 0 means no limit.",
        ),
    ] = 10.0
    body_timeout_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=3600,
            description="Number of seconds that a client may pause while sending a request body; 0 means no limit.",
        ),
    ] = 30.0
    write_timeout_seconds: Annotated[
        float,
        Field(
            ge=0, le=3600, description="Number of seconds that a client may leave a response unread; 0 means no limit."
        ),
    ] = 60.0
    log_format: Annotated[
        Literal["text", "json"], Field(description="Log format: `text` for people, `json` for machines.")
    ] = "text"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Minimum severity to log.")
    ] = "info"
    access_log: Annotated[bool, Field(description="Whether to log every request.")] = False
    min_free_mb: Annotated[
        int,
        Field(
            ge=0,
            description="Minimum free disk space in megabytes. Below this, a SQLite node reports that it is not ready.",
        ),
    ] = 64
    otel_endpoint: Annotated[
        str | None,
        AfterValidator(_collector),
        Field(description="URL to which OpenTelemetry spans are sent over OTLP/HTTP.", validate_default=True),
    ] = None

    oidc_issuer: Annotated[
        str | None, AfterValidator(_issuer), Field(description="URL of the identity provider for single sign-on.")
    ] = None
    oidc_client_id: Annotated[str | None, Field(description="Client ID of this server at the identity provider.")] = (
        None
    )
    oidc_client_secret: Annotated[
        str | None, AfterValidator(_secret), Field(description="Client secret, as an env:NAME or file:PATH reference.")
    ] = None
    oidc_name: Annotated[
        str, Field(min_length=1, max_length=60, description="Name of the identity provider on the sign-in page.")
    ] = "single sign-on"
    oidc_person_claim: Annotated[
        str, Field(min_length=1, description="Claim that contains the username for a new account.")
    ] = "preferred_username"
    oidc_groups_claim: Annotated[str, Field(min_length=1, description="Claim that lists a person's groups.")] = "groups"
    oidc_roles: Annotated[
        dict[str, Role] | None,
        NoDecode,
        BeforeValidator(_mapping),
        Field(description="Roles to assign to members of the provider's groups, as comma-separated group=role pairs."),
    ] = None
    oidc_create_people: Annotated[
        bool, Field(description="Whether to create an account when a person signs in for the first time.")
    ] = False
    oidc_link_by_email: Annotated[
        bool, Field(description="Whether to link a new identity to the person with the same verified email address.")
    ] = False

    @model_validator(mode="after")
    def _whole_oidc(self) -> Self:
        if self.oidc_issuer is not None and not (self.oidc_client_id and self.oidc_client_secret):
            msg = "oidc_issuer requires oidc_client_id and oidc_client_secret"
            raise ValueError(msg)
        return self

    @property
    def keys_missing(self) -> bool:
        """Whether required keys are not set. PostgreSQL nodes require them; SQLite nodes create a key file instead."""
        return self.database_url is not None and not self.secret_keys

    @property
    def exposed(self) -> list[Path]:
        """The data directory and its database files, as far as other accounts on this machine can access them."""
        if self.database_url or not open_to_others(self.data_dir):
            return []
        files = [self.sqlite_path, *(Path(f"{self.sqlite_path}{end}") for end in ("-wal", "-shm"))]
        return [self.data_dir, *filter(open_to_others, files)]

    @property
    def oidc_role_mapping(self) -> dict[str, str]:
        return dict(self.oidc_roles or {})

    @property
    def sqlite_path(self) -> Path:
        return self.data_dir / "assent.db"

    @property
    def write_lock_path(self) -> Path:
        """A path next to the resolved file, so that all spellings and symbolic links lead to the same lock."""
        return self.sqlite_path.resolve().with_suffix(".lock")

    @property
    def server_lock_path(self) -> Path:
        return self.sqlite_path.resolve().with_suffix(".server.lock")

    @property
    def key_path(self) -> Path:
        """The key file, which SQLite uses if secret_keys is not set."""
        return self.data_dir / "assent.keys"

    @property
    def process_folder(self) -> Path:
        return self.processes_dir or self.data_dir / "processes"

    @property
    def outbound_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return tuple(ip_network(each) for each in self.outbound_allow or ())

    @property
    def base_url(self) -> str:
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104  # compared, not bound
        shown = f"[{host}]" if ":" in host else host
        return (self.public_url or f"http://{shown}:{self.port}").rstrip("/")

    @classmethod
    def settings_customise_sources(  # signature required by pydantic-settings
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        file = () if cls.file_source is None else (cls.file_source(settings_cls),)
        # The first source that has a value is used, so the environment overrides the file.
        return init_settings, env_settings, *file


class DataSettings(Settings):
    """The settings of a command that works on the data, with or without a running server."""

    file_source: ClassVar[type[AssentYaml] | None] = DataYaml


class EnvironmentSettings(Settings):
    """The settings without assent.yaml, used if that file cannot be read and is not needed."""

    model_config = SettingsConfigDict(yaml_file=None)
    file_source: ClassVar[type[AssentYaml] | None] = None
