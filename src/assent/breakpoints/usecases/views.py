"""Saved views, stored separately for each person and project."""

from assent.breakpoints.saved_views import MOST, SavedView, saved_view
from assent.breakpoints.store.views import Views
from assent.core.access import Kind, Permission, Principal
from assent.core.errors import Forbidden, InvalidRequest, NotFound
from assent.db.transaction import Transaction


class ViewService:
    def save(self, tx: Transaction, name: str, query: str, *, by: Principal) -> SavedView:
        """Save a view, replacing any earlier view with the same name."""
        _require_person(by)
        view = saved_view(name, query, at=tx.now())
        tx[Views].wait_for_others(by.id)
        if tx[Views].count_others(view.name, person_id=by.id, project=by.project) >= MOST:
            raise InvalidRequest.at("/name", f"you already have {MOST} saved views; remove one first")
        tx[Views].put(view, person_id=by.id, project=by.project)
        return view

    def every(self, tx: Transaction, *, by: Principal) -> list[SavedView]:
        """Return all of the caller's views in the project, sorted by name."""
        return tx[Views].every(person_id=by.id, project=by.project)

    def remove(self, tx: Transaction, name: str, *, by: Principal) -> None:
        if not tx[Views].remove(name, person_id=by.id, project=by.project):
            msg = f"You do not have a view named {name}."
            raise NotFound(msg)


def _require_person(by: Principal) -> None:
    by.require(Permission.READ)
    if by.kind is not Kind.PERSON:
        msg = "Only people can save views."
        raise Forbidden(msg)
