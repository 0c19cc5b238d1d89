"""Settings from ASSENT_* variables and assent.yaml, typed and checked at the start."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource


def _postgres(url: str | None) -> str | None:
    if url is not None and not url.startswith(("postgresql://", "postgres://")):
        msg = "must start with postgresql:// (leave it out for SQLite in the data directory)"
        raise ValueError(msg)
    return url


class Settings(BaseSettings):
    """Everything an operator can set; each field is ASSENT_<NAME> in the environment or <name> in assent.yaml."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_", yaml_file="assent.yaml", extra="ignore")

    data_dir: Annotated[Path, Field(description="Where the SQLite file and its lock live.")] = Path("data")
    database_url: Annotated[
        str | None, AfterValidator(_postgres), Field(description="postgresql://… to use PostgreSQL instead of SQLite.")
    ] = None
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")] = 7373
    public_url: Annotated[str | None, Field(description="What people type to reach this server, for links.")] = None
    trusted_proxies: Annotated[
        str, Field(description="Addresses whose X-Forwarded-* headers are believed, comma-separated.")
    ] = "127.0.0.1"
    creates_per_minute: Annotated[
        int, Field(ge=0, description="Breakpoints one token may create in a minute; 0 is no limit.")
    ] = 30_000
    waits_per_token: Annotated[
        int, Field(ge=0, description="Waits and streams one token may hold open on a node; 0 is no limit.")
    ] = 20_000
    drain_seconds: Annotated[float, Field(ge=0, description="How long a stopping server lets requests finish.")] = 10.0
    log_format: Annotated[Literal["text", "json"], Field(description="Lines for people or for machines.")] = "text"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="How much is logged.")] = (
        "info"
    )
    access_log: Annotated[bool, Field(description="Log every request.")] = False

    @property
    def sqlite_path(self) -> Path:
        return self.data_dir / "assent.db"

    @property
    def base_url(self) -> str:
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104  # compared, not bound
        shown = f"[{host}]" if ":" in host else host
        return (self.public_url or f"http://{shown}:{self.port}").rstrip("/")

    @classmethod
    def settings_customise_sources(  # the shape pydantic-settings calls
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)
