"""Pages that let nobody in without a right, whatever the page does."""

from starlette.responses import Response

from assent.domain.access import Permission
from assent.web.frame import Signed, Visit


def reading(endpoint: Signed) -> Signed:
    """For people only: agents see nothing of it."""
    return _with(Permission.READ_PEOPLE, endpoint)


def ruling(endpoint: Signed) -> Signed:
    return _with(Permission.RULES, endpoint)


def managing(endpoint: Signed) -> Signed:
    return _with(Permission.MANAGE, endpoint)


def auditing(endpoint: Signed) -> Signed:
    return _with(Permission.AUDIT, endpoint)


def _with(permission: Permission, endpoint: Signed) -> Signed:
    async def checked_first(visit: Visit) -> Response:
        visit.who.require(permission)
        return await endpoint(visit)

    checked_first.__name__ = endpoint.__name__
    return checked_first
