"""The Retention page: how long content is kept, and legal holds."""

import re
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.audit.store.retention import Hold
from assent.audit.usecases.retention import RetentionService
from assent.contracts import projects as wire
from assent.contracts.retention import PlaceHold
from assent.core.access import Permission
from assent.core.errors import AssentError, NotFound
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.http.query import known_id
from assent.people.pages.projects import change_policy, mark
from assent.people.store.projects import Projects
from assent.web.admin import Question, admin_page, checked, number, question_page, text
from assent.web.guards import auditing, managing
from assent.web.site import Site, Visit, redirect, route

_ID = re.compile(r"hold_[0-9a-z]{26}")


def routes(site: Site) -> list[Route]:
    return [
        route("/admin/retention", auditing(retention), site),
        route("/admin/retention", managing(retention_form), site, method="POST"),
        route("/admin/retention/confirmed", managing(keep), site, method="POST"),
        route("/admin/retention/holds", managing(place), site, method="POST"),
        route("/admin/retention/holds/{hold_id}/lift", managing(lift_form), site),
        route("/admin/retention/holds/{hold_id}/lift", managing(lift), site, method="POST"),
    ]


async def retention(visit: Visit) -> Response:
    return await _retention_page(visit)


async def _retention_page(visit: Visit, error: AssentError | None = None) -> Response:
    def use_case(tx: Transaction) -> tuple[list[Hold], dict[str, object]]:
        return visit.site[RetentionService].every(tx, by=visit.who), dict(tx[Projects].get(visit.who.project).policy)

    holds, policy = await visit.site.database.read(use_case)
    return await admin_page(
        "admin_retention.html",
        "retention",
        visit=visit,
        error=error,
        standing=[each for each in holds if each.lifted_at is None][::-1],
        lifted=[each for each in holds if each.lifted_at is not None][::-1],
        days=policy.get("retentionDays"),
        shown=mark(policy),
        manages=visit.who.may(Permission.MANAGE),
    )


async def retention_form(visit: Visit) -> Response:
    try:
        days = checked(wire.Policy, retentionDays=number(visit.form, "retentionDays")).retention_days
    except AssentError as error:
        return await _retention_page(visit, error)
    age = plural(days or 0, "day")
    question = Question(
        title=f"Keep content for {age}?" if days else "Keep everything?",
        consequences=(
            f"Questions and answers from breakpoints that ended more than {age} ago will be deleted, "
            "starting within a minute. Their events and hashes are kept and can still be verified."
            if days
            else "Content will no longer be deleted automatically.",
            "Content under a legal hold is kept." if days else "Content that has already been deleted is not restored.",
            *(["Deleted content cannot be restored."] if days else []),
        ),
        action="/admin/retention/confirmed",
        button="Delete older content" if days else "Keep everything",
        back="/admin/retention",
        carried={name: visit.form.get(name, "") for name in ("retentionDays", "shown")},
    )
    return question_page(visit, question)


async def keep(visit: Visit) -> Response:
    try:
        days = checked(wire.Policy, retentionDays=number(visit.form, "retentionDays")).retention_days
        await change_policy(visit, {"retentionDays": days}, visit.form.get("shown", ""))
    except AssentError as error:
        return await _retention_page(visit, error)
    return redirect("/admin/retention?done=saved")


async def place(visit: Visit) -> Response:
    try:
        asked = checked(
            PlaceHold, breakpointId=text(visit.form, "breakpointId"), reason=text(visit.form, "reason") or ""
        )
        breakpoint_id = known_id(asked.breakpoint_id) if asked.breakpoint_id is not None else None
        use_case = partial(
            visit.site[RetentionService].place, by=visit.who, reason=asked.reason, breakpoint_id=breakpoint_id
        )
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _retention_page(visit, error)
    return redirect("/admin/retention?done=placed")


def _known(visit: Visit) -> str:
    hold_id: str = visit.request.path_params["hold_id"]
    if not _ID.fullmatch(hold_id):
        msg = "This legal hold does not exist."
        raise NotFound(msg)
    return hold_id


async def lift_form(visit: Visit) -> Response:
    hold_id = _known(visit)
    every = await visit.site.database.read(partial(visit.site[RetentionService].every, by=visit.who))
    hold = next((each for each in every if each.id == hold_id and each.lifted_at is None), None)
    if hold is None:
        msg = f"Legal hold {hold_id} does not exist or has already been lifted."
        raise NotFound(msg)
    covered = f"breakpoint {hold.breakpoint_id}" if hold.breakpoint_id else "the whole project"
    question = Question(
        title="Lift this legal hold?",
        consequences=(
            f"It covers {covered}. Reason: {hold.reason}",
            "Content that has passed its retention period may be deleted within a minute and cannot be restored.",
        ),
        action=f"/admin/retention/holds/{hold_id}/lift",
        button="Lift hold",
        back="/admin/retention",
        carried={},
    )
    return question_page(visit, question)


async def lift(visit: Visit) -> Response:
    use_case = partial(visit.site[RetentionService].lift, hold_id=_known(visit), by=visit.who)
    await visit.site.database.write(use_case)
    return redirect("/admin/retention?done=lifted")
