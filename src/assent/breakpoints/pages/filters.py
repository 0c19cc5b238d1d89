"""The filters in the URLs of the list and of breakpoints opened from it."""

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from assent.core.errors import InvalidRequest
from assent.http.query import STATUSES

ALL = "all"
STATUS_NAMES = {
    "waiting": "Pending",
    "released": "Decided",
    "expired": "Expired",
    "cancelled": "Cancelled",
    ALL: "All",
}
SORTS = {"deadline": "Most urgent first", "newest": "Newest first", "oldest": "Oldest first"}
STEP, MOST = 50, 300
"""The number of rows that “Show more” adds, and the maximum number of rows on one page."""
MAX_FILTER = 300
_TEXTS = ("agent", "run", "gate", "expert", "q", "since", "until", "sort", "shown", "cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    status: str = "waiting"
    tags: tuple[str, ...] = ()
    agent: str = ""
    run: str = ""
    gate: str = ""
    expert: str = ""
    q: str = ""
    since: str = ""
    until: str = ""
    mine: str = ""
    snoozed: str = ""
    sort: str = ""
    shown: str = ""
    cursor: str = ""

    @property
    def order(self) -> str:
        """The sort order. By default, pending breakpoints are sorted by deadline, and all others newest first."""
        return self.sort or ("deadline" if self.status == "waiting" else "newest")

    @property
    def rows(self) -> int:
        return int(self.shown or STEP)

    @property
    def narrowed_beyond_words(self) -> bool:
        named = (self.agent, self.run, self.gate, self.expert, self.since, self.until, self.mine, self.snoozed)
        return bool(self.tags or self.sort or any(named))

    @property
    def narrowed(self) -> bool:
        return bool(self.q) or replace(self, sort="").narrowed_beyond_words

    @property
    def query(self) -> str:
        """The query string, without the question mark."""
        names = ("status", *_TEXTS, "mine", "snoozed")
        given = [(name, getattr(self, name)) for name in names]
        kept = [(name, value) for name, value in given if value and (name, value) != ("status", "waiting")]
        return urlencode([*kept, *(("tag", tag) for tag in self.tags)])

    @property
    def behind(self) -> str:
        """The suffix of a breakpoint's URL that makes its page show the same list."""
        return f"?{self.query}" if self.query else ""

    def narrowed_to(self, **changes: str) -> str:
        """Return the URL of the list with these filters changed, starting at the first row."""
        return self.address(**changes, shown="", cursor="")

    def with_tag(self, tag: str) -> str:
        return replace(self, tags=tuple(dict.fromkeys([*self.tags, tag]))).narrowed_to()

    def address(self, **changes: str) -> str:
        changed = replace(self, **changes)  # type: ignore[arg-type]  # all fields that callers change are strings
        return f"/{changed.behind}"


def filters(params: QueryParams) -> Filters:
    """Return the filters in a query; empty fields are ignored."""
    for name, value in params.multi_items():
        if len(value) > MAX_FILTER or "\x00" in value:
            raise InvalidRequest.at(name[:20], f"must have at most {MAX_FILTER} characters and must not contain NUL")
    texts = {name: params.get(name, "").strip() for name in _TEXTS}
    found = Filters(
        status=params.get("status") or "waiting",
        tags=tuple(dict.fromkeys(tag.strip() for tag in params.getlist("tag") if tag.strip())),
        mine="1" if params.get("mine") else "",
        snoozed="1" if params.get("snoozed") else "",
        **texts,
    )
    if found.status not in {*STATUSES, ALL} or found.order not in SORTS:
        raise InvalidRequest.at("status or sort", "is not one of the available values")
    if found.shown and not (found.shown.isascii() and found.shown.isdigit() and STEP <= int(found.shown) <= MOST):
        raise InvalidRequest.at("shown", f"must be a number from {STEP} to {MOST}")
    return found


def asked_in(request: Request) -> Filters:
    """Return the filters in a breakpoint's URL, or the default filters if they are invalid."""
    try:
        return filters(request.query_params)
    except InvalidRequest:
        return Filters()
