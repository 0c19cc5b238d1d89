"""Decorators for pages that require a permission."""

from starlette.responses import Response

from assent.core.access import Permission
from assent.web.site import Signed, Visit


def reading(endpoint: Signed) -> Signed:
    """Require the read permission that people have and agents do not."""
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

    # `route` names the route after the endpoint.
    checked_first.__name__ = endpoint.__name__
    return checked_first
