"""Builds a new breakpoint: its experts, files, rule recommendation and first events."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from assent.breakpoints.store.breakpoints import NewRows
from assent.breakpoints.store.files import FileEntry, Files
from assent.contracts.create import CreateBreakpoint
from assent.core.access import Principal
from assent.core.breakpoint import NEVER, Breakpoint, Event, approve_by_rule, record, terms_of
from assent.core.canonical import Json, strict_loads
from assent.core.draft import MAX_BODY, MAX_FILES, Draft
from assent.core.errors import ExpertsNotDistinct, InvalidRequest, TooLarge
from assent.core.rules import Recommendation, ShadowMatch
from assent.core.seats import Seat, answerable, eligible, seats_for
from assent.core.strategies import NEEDS_EXPERTS
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.routes import Timeout
from assent.people.store.people import People
from assent.policy.usecases.rules import Guess


@dataclass(frozen=True, slots=True)
class Experts:
    """The seats of a breakpoint's experts, and warnings about unknown names."""

    seats: tuple[Seat, ...] = ()
    warnings: tuple[str, ...] = ()


NO_EXPERTS = Experts()


@dataclass(frozen=True, slots=True)
class Raised:
    """The inputs from which a new breakpoint is built."""

    draft: Draft
    by: Principal
    digest: str
    id: str
    at: int
    route_timeout: Timeout | None = None
    """The matching route's timeout; used only if the agent did not set a deadline."""

    @property
    def fallback(self) -> Timeout | None:
        return self.route_timeout if self.draft.ttl_seconds is None else None


@dataclass(frozen=True, slots=True)
class Ready:
    """A breakpoint that is ready to be stored."""

    new: Breakpoint
    events: Sequence[Event]
    rows: NewRows
    shadows: Sequence[ShadowMatch]
    guess: Guess | None = None

    @classmethod
    def of(
        cls, raised: Raised, recommendation: Recommendation, experts: Experts = NO_EXPERTS, guess: Guess | None = None
    ) -> "Ready":
        new, events = _created(raised, recommendation, experts)
        rows = NewRows.of(new, events, counts_as=recommendation.counts_as)
        return cls(new, events, rows, recommendation.shadow_matches, guess)

    def holds(self, tx: Transaction) -> bool:
        """Return whether the rules that the breakpoint was prepared with are still current."""
        return self.guess is not None and self.guess.holds(tx, self.new.project)


def checked(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """Validate a body as the API does, and return it as the server would receive it."""
    try:
        # The round trip rejects values that JSON cannot express, such as NaN and lone surrogates.
        sent: Mapping[str, Json] = strict_loads(json.dumps(body, ensure_ascii=False, allow_nan=False).encode())
        CreateBreakpoint.model_validate(sent)
    except ValidationError as error:
        first = error.errors()[0]
        where = "/".join(map(str, first["loc"]))
        raise InvalidRequest.at(f"/{where}", str(first["msg"])) from error
    except (TypeError, ValueError) as error:
        msg = f"The breakpoint is not valid JSON: {error}"
        raise InvalidRequest(msg) from error
    return sent


def check_size(wanted: Draft) -> None:
    """Refuse a breakpoint that exceeds the API's size limit; files have a separate limit."""
    size = len(json.dumps(wanted.payload, ensure_ascii=False).encode())
    if size > MAX_BODY:
        msg = (
            f"The breakpoint is {size} bytes without its files; the limit is {MAX_BODY}. Move large content "
            "into a file."
        )
        raise TooLarge(msg)


def experts_of(tx: Transaction, draft: Draft, by: Principal) -> Experts:
    """Return the seats of the requested experts, and warnings about names that do not exist."""
    if not draft.experts:
        return NO_EXPERTS
    directory = tx[People].directory(by.project, draft.experts)
    seats, missing = seats_for(draft.experts, directory)
    if missing and by.policy.get("unknownExperts") == "refuse":
        raise InvalidRequest.at("/payload/expert", f"person or group not found: {', '.join(missing)}")
    carried = [options for seat in seats if (options := eligible(seat, directory))]
    if draft.strategy in NEEDS_EXPERTS and not answerable(carried):
        names = ", ".join(draft.experts)
        msg = f"{draft.strategy} requires a different person for each expert; this is not possible for {names}."
        raise ExpertsNotDistinct(msg)
    owner = directory.owner or "an admin"
    warnings = (f"No person or group named {name!r} exists; {owner} can respond instead." for name in missing)
    return Experts(seats, tuple(warnings))


def files_of(tx: Transaction, draft: Draft, project: str) -> list[FileEntry]:
    """Return the files to attach; a file specified by its digest must have been uploaded to this project."""
    entries: list[FileEntry] = []
    for n, file in enumerate(draft.files):
        size = len(file.content) if file.content is not None else None
        if file.content is None and file.sha256 is not None:
            size = tx[Files].size(project, file.sha256)
            if size is None:
                raise InvalidRequest.at(
                    f"/payload/context/files/{n}/sha256", "does not match a file uploaded to this project"
                )
        entries.append(FileEntry(n, file.path, file.format, file.language, file.sha256, size))
    if sum(entry.size or 0 for entry in entries) > MAX_FILES:
        msg = f"The files exceed {MAX_FILES} bytes in total."
        raise TooLarge(msg)
    return entries


def _created(raised: Raised, recommendation: Recommendation, experts: Experts) -> tuple[Breakpoint, list[Event]]:
    draft, by, now = raised.draft, raised.by, raised.at
    fallback = raised.fallback
    ttl = _ttl(fallback.after if fallback else draft.ttl_seconds, by.policy)
    auto_approval = recommendation.body()
    warnings = (*draft.warnings, *experts.warnings)
    new = Breakpoint(
        id=raised.id,
        project=by.project,
        agent_id=draft.agent_id,
        run_id=draft.run_id,
        title=draft.title,
        gate=draft.gate,
        payload=draft.payload,
        tags=draft.tags,
        seats=experts.seats,
        strategy=draft.strategy,
        risk=draft.risk,
        priority=draft.priority,
        on_timeout=fallback.then if fallback else draft.on_timeout or "expire",
        ttl_seconds=ttl,
        callback_url=draft.callback_url,
        digest=raised.digest,
        created_at=now,
        created_by=by.actor,
        created_by_id=by.id,
        due_at=now + ttl * SECOND if ttl is not None else NEVER,
        auto_approval=auto_approval,
        warnings=warnings,
        agent_id_claimed=recommendation.agent_id_claimed,
    )
    metadata: dict[str, Json] = {
        "digest": raised.digest,
        "terms": terms_of(new),
        "agentId": draft.agent_id,
        "gate": draft.gate,
        "autoApproval": auto_approval,
    }
    if new.agent_id_claimed:
        metadata["agentIdClaimed"] = True
    if recommendation.counts_as is not None:
        metadata["countsAs"] = recommendation.counts_as
    if recommendation.matched:
        metadata["ruleVersion"] = recommendation.matched.version
    if recommendation.shadow_matches:
        metadata["shadow"] = [each.body() | {"version": each.rule.version} for each in recommendation.shadow_matches]
    new, event = record(new, "created", actor=by.actor, at=now, metadata=metadata)
    events = [event]
    for warning in warnings:
        new, event = record(new, "warned", actor=by.actor, at=now, metadata={"warning": warning})
        events.append(event)
    if recommendation.recommended:
        rule = recommendation.matched_rule or recommendation.source.value
        new, event = approve_by_rule(new, rule, at=now, why=recommendation.why())
        events.append(event)
    return new, events


def _ttl(asked: int | None, policy: Mapping[str, Any]) -> int | None:
    """Return the deadline in seconds that the agent or the route set, capped by the project's policy."""
    cap: int | None = policy.get("maxTtlSeconds")
    if asked is None or cap is None:
        # If the policy sets a cap, breakpoints for which no deadline was requested end at the cap.
        return asked if cap is None else cap
    return min(asked, cap)
