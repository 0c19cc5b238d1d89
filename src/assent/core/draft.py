"""Drafts: the content of a breakpoint as requested by an agent, with digests instead of files."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import Json, content_digest, sha256
from assent.core.errors import InvalidRequest, TooLarge
from assent.core.fields import misspelled
from assent.core.gates import slug
from assent.core.strategies import NEEDS_EXPERTS
from assent.core.terms import check_form

MAX_BODY = 1024 * 1024
"""Maximum size of a breakpoint without its files, in bytes, over HTTP and in runs."""
MAX_FILE = 10 * 1024 * 1024
MAX_FILES = 50 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A context file, given by its content, by the digest of an earlier upload, or only by its path."""

    path: str
    format: str
    language: str | None
    sha256: str | None
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    agent_id: str
    run_id: str | None
    title: str | None
    gate: str
    payload: Mapping[str, Json]
    tags: tuple[str, ...]
    experts: tuple[str, ...]
    strategy: str
    risk: str | None
    priority: str
    on_timeout: str | None
    ttl_seconds: int | None
    callback_url: str | None
    files: tuple[FileDraft, ...]
    warnings: tuple[str, ...] = ()
    """Warnings about payload keys that look like misspelled fields."""

    def digest(self, project: str) -> str:
        return content_digest(
            {
                "project": project,
                "agentId": self.agent_id,
                "runId": self.run_id,
                "title": self.title,
                "gate": self.gate,
                "tags": list(self.tags),
                "payload": self.payload,
            }
        )


def draft(body: Mapping[str, Any]) -> Draft:
    """Convert a validated request body; raise InvalidRequest if it contradicts itself."""
    payload: dict[str, Any] = dict(body["payload"])
    warnings = misspelled(payload)
    context: dict[str, Any] = dict(payload.get("context") or {})  # copied, because the body belongs to the caller
    title = _one_of("title", body.get("title"), payload.get("title"), "/payload/title")
    run_id = _one_of("runId", body.get("runId"), context.get("runId"), "/payload/context/runId")
    tags = tuple(dict.fromkeys([*(body.get("tags") or ()), *(payload.get("tags") or ())]))
    experts = _experts(payload.get("expert"))
    strategy = payload.get("strategy") or "single"
    if strategy in NEEDS_EXPERTS and not experts:
        raise InvalidRequest.at("/payload/expert", f"is required when strategy is {strategy}")
    options: Sequence[str] = payload.get("options") or ()
    if len(set(options)) != len(options):
        raise InvalidRequest.at("/payload/options", "must not contain duplicates")
    if payload.get("form") is not None:
        check_form(payload["form"])
    files = tuple(_file(n, entry) for n, entry in enumerate(context.get("files") or ()))
    # The payload contains only digests, so that the content hash does not depend on how a file was sent.
    if files:
        context["files"] = [_without_bytes(each) for each in files]
        payload["context"] = context
    return Draft(
        agent_id=body["agentId"],
        run_id=run_id,
        title=title,
        gate=payload.get("breakpointId") or slug(title or payload.get("question") or body["agentId"]),
        payload=payload,
        tags=tags,
        experts=experts,
        strategy=strategy,
        risk=payload.get("risk"),
        priority=body.get("priority") or "normal",
        on_timeout=body.get("onTimeout"),
        ttl_seconds=body.get("ttlSeconds"),
        callback_url=body.get("callbackUrl"),
        files=files,
        warnings=warnings,
    )


def _one_of(name: str, top: str | None, inner: str | None, pointer: str) -> str | None:
    """Return a field that can be sent in two places; reject different values, so that rules see what reviewers see."""
    if top is not None and inner is not None and top != inner:
        raise InvalidRequest.at(pointer, f"differs from the top-level {name}")
    return top if top is not None else inner


def _experts(expert: str | Sequence[str] | None) -> tuple[str, ...]:
    if expert is None:
        return ()
    return (expert,) if isinstance(expert, str) else tuple(dict.fromkeys(expert))


def _file(n: int, entry: Mapping[str, Any]) -> FileDraft:
    pointer = f"/payload/context/files/{n}"
    given = [name for name in ("content", "contentBase64", "sha256") if entry.get(name) is not None]
    if len(given) > 1:
        raise InvalidRequest.at(pointer, f"has {' and '.join(given)}; send only one of them")
    content = _content(pointer, entry)
    if content is not None and len(content) > MAX_FILE:
        raise TooLarge(f"{pointer} is larger than {MAX_FILE} bytes.")
    digest = sha256(content) if content is not None else entry.get("sha256")
    return FileDraft(entry["path"], entry["format"], entry.get("language"), digest, content)


def _content(pointer: str, entry: Mapping[str, Any]) -> bytes | None:
    text: str | None = entry.get("content")
    if text is not None:
        return text.encode()
    encoded: str | None = entry.get("contentBase64")
    if encoded is None:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise InvalidRequest.at(f"{pointer}/contentBase64", "is not valid base64") from error


def _without_bytes(file: FileDraft) -> dict[str, Json]:
    entry = {"path": file.path, "format": file.format, "language": file.language, "sha256": file.sha256}
    return {name: value for name, value in entry.items() if value is not None}
