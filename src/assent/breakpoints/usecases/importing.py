"""Imports data from the original service: reads and validates it, and recreates it as ended breakpoints."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from assent.breakpoints.store.files import FileEntry, Files
from assent.breakpoints.store.imports import Imports
from assent.breakpoints.store.original import Feedback, Found
from assent.breakpoints.usecases.create import checked
from assent.contracts import breakpoints as wire
from assent.contracts.models import read
from assent.contracts.rules_file import RulesFile
from assent.contracts.words import MAX_TTL
from assent.core import rules_file
from assent.core.access import Permission, Principal
from assent.core.breakpoint import Status
from assent.core.canonical import Json, is_array, is_object, strict_loads
from assent.core.draft import Draft, draft
from assent.core.errors import AssentError, InvalidRequest
from assent.core.importing import Past, Retold, Said, retell
from assent.core.rulebook import RuleAction, RuleMode
from assent.core.rules_file import Entry, plan
from assent.core.timestamps import from_iso
from assent.db.transaction import Transaction
from assent.people.store.people import People, Person
from assent.platform.admin_log import AdminLog
from assent.policy.store.rules import Rules
from assent.policy.usecases import rules_file as rules_service
from assent.policy.usecases.rules_file import Import, Imported

UNKNOWN = "unknown"
WHY = "assent import"


@dataclass(frozen=True, slots=True)
class Left:
    """Something that is not imported, and why."""

    kind: str
    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A breakpoint, if it can be imported, and the parts that are not imported."""

    past: Past | None
    left: tuple[Left, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """A breakpoint from the original service that was imported now or earlier."""

    origin: str
    id: str
    status: str
    comments: int
    is_new: bool


def read_past(found: Found) -> Reading:
    """Read a breakpoint from the original service; nothing is trusted before it is validated."""
    origin = str(found.row["id"])
    try:
        return _read(found, origin)
    except _Unfit as error:
        return Reading(None, (Left("breakpoint", origin, str(error)),))


class _Unfit(Exception):
    """Why a breakpoint cannot be imported."""


def _read(found: Found, origin: str) -> Reading:
    row, status = found.row, _status(found.row["status"])
    created_at, ended_at = _moment(row["created_at"]), _moment(row[f"{status}_at"] or row["updated_at"])
    asked, left = _draft(row, origin)
    ttl = row["ttl_seconds"]
    if ttl is not None and not _is_ttl(ttl):
        left = (*left, Left("ttlSeconds", origin, f"{ttl!r} is not a valid deadline in seconds."))
        ttl = None
    said, late = _said(found.feedback, origin, ended_at=ended_at)
    ended_by = next((str(each.actor) for each in reversed(found.endings) if each.type == status), UNKNOWN)
    past = Past(
        origin=origin,
        draft=asked,
        status=status,
        created_at=created_at,
        ended_at=ended_at,
        ended_by=ended_by,
        ttl_seconds=ttl,
        said=said,
    )
    return Reading(_with_release(past) if status is Status.RELEASED else past, (*left, *late))


def _status(text: object) -> Status:
    if text not in set(Status):
        msg = f"Unknown status {text!r}."
        raise _Unfit(msg)
    if text == Status.WAITING:
        msg = (
            "This breakpoint is still pending, and its agent is waiting on the original service. Respond there, or "
            "have the agent ask again here."
        )
        raise _Unfit(msg)
    return Status(str(text))


def _moment(text: object) -> int:
    try:
        return from_iso(str(text))
    except (ValueError, OverflowError) as error:
        msg = f"Invalid time: {text!r}."
        raise _Unfit(msg) from error


def _is_ttl(value: object) -> bool:
    return isinstance(value, int) and 1 <= value <= MAX_TTL


def _with_release(past: Past) -> Past:
    """Use the last comment that was added at the time of release as the response that released the breakpoint."""
    last = next((each for each in reversed(past.said) if each.at == past.ended_at), None)
    if last is None:
        return replace(past, release=Said(past.ended_by, None, past.ended_at))
    return replace(past, release=last, said=[each for each in past.said if each is not last])


def _said(feedback: Iterable[Feedback], origin: str, *, ended_at: int) -> tuple[list[Said], list[Left]]:
    said: list[Said] = []
    left: list[Left] = []
    for each in feedback:
        try:
            at = _moment(each.created_at)
            comment: str = _checked_comment(each.comment)
        except _Unfit as error:
            left.append(Left("comment", origin, str(error)))
            continue
        if at > ended_at:
            left.append(
                Left(
                    "comment",
                    origin,
                    "This was written after the breakpoint ended. Assent does not record later comments.",
                )
            )
        else:
            said.append(Said(str(each.author), comment, at))
    return said, left


def _checked_comment(comment: object) -> str:
    try:
        body = strict_loads(json.dumps({"comment": comment}, ensure_ascii=False).encode())
        read(wire.GiveFeedback, body)
    except (TypeError, ValueError, AssentError) as error:
        msg = "This comment is too long or is not text."
        raise _Unfit(msg) from error
    return str(comment)


def _draft(row: Mapping[str, Any], origin: str) -> tuple[Draft, tuple[Left, ...]]:
    """Read the draft; if known payload fields are invalid, keep the entire payload under `original`."""
    payload = _json(row["payload"], "The payload is not valid JSON.")
    tags: Json = _json(row["tags"], "The tags are not valid JSON.") if row["tags"] else None
    body: dict[str, Json] = {"agentId": row["agent_id"], "payload": payload, "tags": tags if is_array(tags) else []}
    body |= {name: row[column] for name, column in (("runId", "run_id"), ("title", "title")) if row[column]}
    if is_object(payload):
        try:
            return _drafted(body | {"payload": _with_our_files(payload)}), _files_left(payload, origin)
        except AssentError:
            pass
    try:
        kept = _drafted(body | {"payload": {"original": payload}})
    except AssentError as error:
        raise _Unfit(error.message) from error
    return kept, (
        Left("payload", origin, "The payload does not match the schema. It is kept unchanged under `original`."),
    )


def _json(text: object, otherwise: str) -> Json:
    try:
        return strict_loads(str(text).encode())
    except (ValueError, AssentError) as error:
        raise _Unfit(otherwise) from error


def _drafted(body: Mapping[str, Json]) -> Draft:
    return draft(checked(body))


def _with_our_files(payload: Mapping[str, Json]) -> dict[str, Json]:
    """Guess each file's format as the original service did, and keep only known fields."""
    context = payload.get("context")
    if not is_object(context) or not is_array(context.get("files")):
        return dict(payload)
    files = [_file(each) for each in context["files"] if is_object(each) and isinstance(each.get("path"), str)]
    return {**payload, "context": {**context, "files": files}}


def _file(entry: Mapping[str, Json]) -> dict[str, Json]:
    path: str = entry["path"]
    guessed = "markdown" if PurePosixPath(path).suffix.lower() == ".md" else "code"
    file: dict[str, Json] = {"path": path, "format": entry.get("format") or guessed}
    return file | ({"language": entry["language"]} if entry.get("language") else {})


def _files_left(payload: Mapping[str, Json], origin: str) -> tuple[Left, ...]:
    context = payload.get("context")
    files: Sequence[Json] = context.get("files") or context.get("paths") or () if is_object(context) else ()
    why = "The original service stores file names, not file contents."
    return (Left("files", origin, why),) if files else ()


def foresee(tx: Transaction, pasts: Sequence[Past], *, by: Principal) -> list[Carried]:
    """Return what `carry` would do, without changing anything."""
    by.require(Permission.MANAGE)
    tx.acting(by)
    told = [retell(past, project=by.project) for past in pasts]
    there = tx[Imports].known([each.ended.id for each in told])
    return [
        Carried(past.origin, each.ended.id, past.status.value, len(each.comments), each.ended.id not in there)
        for past, each in zip(pasts, told, strict=True)
    ]


def carry(tx: Transaction, pasts: Sequence[Past], *, by: Principal) -> list[Carried]:
    """Import breakpoints that do not exist yet. Do not send notifications, because the breakpoints have ended."""
    foreseen = foresee(tx, pasts, by=by)
    new = [each.id for each in foreseen if each.is_new]
    if new:
        tx[AdminLog].record(
            "breakpoints-imported", f"import:{len(new)}", project=by.project, after={"breakpoints": list(new)}
        )
    for past, each in zip(pasts, foreseen, strict=True):
        if each.is_new:
            _add(tx, past, retell(past, project=by.project))
    return foreseen


def _add(tx: Transaction, past: Past, told: Retold) -> None:
    people = {told.response.person: _author(tx, told)} if told.response is not None else {}
    tx[Imports].add(told, people=people)
    files = [FileEntry(n, file.path, file.format, file.language, None, None) for n, file in enumerate(past.draft.files)]
    if files:
        tx[Files].attach(told.ended.id, files)


def _author(tx: Transaction, told: Retold) -> str:
    """Return the account of the person who released the breakpoint. New accounts are inactive and have no roles."""
    assert told.response is not None, "checked by the caller"
    name, at = told.response.person, told.response.at
    known = tx[People].find_by_name(name)
    if known is not None:
        tx[Imports].since(known.id, at)
        return known.id
    home = told.ended.project
    person = Person(tx.new_id("per"), name, name, None, None, active=False, created_at=at, home=home)
    tx[People].add(person)
    return person.id


def read_rules(document: Mapping[str, Json]) -> list[Entry]:
    """Read a rules.json file; raise if any part of it is invalid."""
    try:
        read(RulesFile, document)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequest.at("/" + "/".join(map(str, first["loc"])), str(first["msg"])) from error
    return rules_file.read(document)


def carry_rules(
    tx: Transaction, entries: Sequence[Entry], *, by: Principal, live: bool, dry_run: bool = False
) -> Imported:
    """Import rules. Unless `live`, new auto-approve rules start in shadow mode, so that an admin has to enable them."""
    wanted = Import(entries=tuple(entries if live else _watching(tx, entries, by.project)), why=WHY)
    return (rules_service.forecast if dry_run else rules_service.import_rules)(tx, wanted, by=by)


def _watching(tx: Transaction, entries: Sequence[Entry], project: str) -> list[Entry]:
    quiet = [_quiet(each) for each in entries]
    new = {each.index for each in plan(quiet, tx[Rules].standing(project), replacing=False).added}
    return [
        replace(each, says={**each.says, "mode": RuleMode.SHADOW.value})
        if each.index in new and each.says["action"] == RuleAction.AUTO
        else each
        for each in quiet
    ]


def _quiet(entry: Entry) -> Entry:
    """Remove fields that could put a rule back into effect after a person disabled it in this project."""
    forceful = {"mode", "enabled"} if entry.says.get("enabled") else {"mode"}
    return replace(entry, says={name: value for name, value in entry.says.items() if name not in forceful})
