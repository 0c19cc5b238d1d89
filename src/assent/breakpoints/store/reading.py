"""The read path: get, status and list queries run directly on the driver, and concurrent reads are combined."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from assent.breakpoints.search_words import sought_words
from assent.breakpoints.store.breakpoints import SELECT_COMMENTS
from assent.core.errors import InvalidRequest
from assent.db.coalescing import Coalescer, Shared
from assent.db.sql import Row
from assent.db.transaction import Transaction
from assent.kernel.ports import Database

Value = TypeVar("Value")

SUMMARY_COLUMNS = (
    "id", "project_id", "status", "decision", "agent_id", "run_id", "title", "question", "gate", "tags", "seats",
    "strategy", "risk", "priority", "attempt", "created_at", "updated_at", "due_at", "ended_at", "ended_by",
    "created_by_id", "version",
)  # fmt: skip
WHOLE_COLUMNS = (
    *SUMMARY_COLUMNS, "payload", "result", "auto_approval", "digest", "ttl_seconds", "on_timeout", "callback_url",
    "created_by", "warnings", "comments", "votes", "purged_at", "agent_id_claimed",
)  # fmt: skip
STATUS_COLUMNS = (
    "id", "project_id", "status", "decision", "updated_at", "due_at", "result", "comments", "version", "created_by_id",
)  # fmt: skip


class Summary(msgspec.Struct, array_like=True):
    """A list row, with the columns in the order of SUMMARY_COLUMNS."""

    id: str
    project_id: str
    status: str
    decision: str | None
    agent_id: str
    run_id: str | None
    title: str | None
    question: str | None
    gate: str
    tags: str
    seats: str
    strategy: str
    risk: str | None
    priority: str
    attempt: int | None
    created_at: int
    updated_at: int
    due_at: int
    ended_at: int | None
    ended_by: str | None
    created_by_id: str
    version: int


class Whole(Summary, array_like=True):
    """All columns of a breakpoint, in the order of WHOLE_COLUMNS."""

    payload: str
    result: str | None
    auto_approval: str
    digest: str
    ttl_seconds: int | None
    on_timeout: str
    callback_url: str | None
    created_by: str
    warnings: str
    comments: int
    votes: int
    purged_at: int | None
    agent_id_claimed: int


def whole_of(row: Mapping[str, Any]) -> Whole:
    """Return a newly written row as it would be read from the database."""
    return Whole(*(row[name] for name in WHOLE_COLUMNS))


class StatusRow(msgspec.Struct, array_like=True):
    id: str
    project_id: str
    status: str
    decision: str | None
    updated_at: int
    due_at: int
    result: str | None
    comments: int
    version: int
    created_by_id: str


@dataclass(frozen=True, slots=True)
class Mine:
    """Selects breakpoints that are assigned to one of these names, or claimed by this person."""

    person_id: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snoozer:
    """A person who snoozes breakpoints, and the current time."""

    person_id: str
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which breakpoints a list contains, in what order, and where the list starts."""

    project: str
    statuses: tuple[str, ...] = ("waiting", "released", "expired", "cancelled")
    tags: tuple[str, ...] = ()
    experts_any: tuple[str, ...] = ()
    agent_id: str | None = None
    run_id: str | None = None
    gate: str | None = None
    created_after: int | None = None
    created_before: int | None = None
    created_by_id: str | None = None
    q: str | None = None
    mine: "Mine | None" = None
    snoozed_by: "Snoozer | None" = None
    """Include only pending breakpoints that this person has snoozed."""
    not_snoozed_by: "Snoozer | None" = None
    """Exclude pending breakpoints that this person has snoozed."""
    sort: str = "-created"
    limit: int = 50
    cursor: tuple[int, str] | None = None


SORTS: dict[str, tuple[str, str]] = {
    "created": ("created_at", "ASC"),
    "-created": ("created_at", "DESC"),
    "deadline": ("due_at", "ASC"),
    "updated": ("updated_at", "DESC"),
}
COUNT_CAP = 10_000
SEARCH_SAMPLE_ROWS = 1_000
INDEX_COST = 3
"""The cost of reading a row through the word index, expressed as a number of scanned rows."""
FREQUENT_SHARE = 0.05
"""Words with a higher share of hits are not looked up, because checking the hits of the other words is cheaper."""


class Reader:
    """Runs get, status and list queries with as few threads and objects as possible."""

    def __init__(self, database: Database[Transaction]) -> None:
        self._database = database
        self._whole: Coalescer[Whole] = Coalescer(lambda ids: self._load(ids, WHOLE_COLUMNS, Whole))
        self._status: Coalescer[StatusRow] = Coalescer(lambda ids: self._load(ids, STATUS_COLUMNS, StatusRow))
        self._coalesce = database.dialect == "postgresql"
        self._pages: Shared[Query, list[Summary]] = Shared(self._page)

    async def whole(self, breakpoint_id: str) -> Whole | None:
        if self._coalesce:
            return await self._whole.get(breakpoint_id)
        return await self._one(breakpoint_id, WHOLE_COLUMNS, Whole)

    async def status(self, breakpoint_id: str) -> StatusRow | None:
        if self._coalesce:
            return await self._status.get(breakpoint_id)
        return await self._one(breakpoint_id, STATUS_COLUMNS, StatusRow)

    async def _one(self, breakpoint_id: str, columns: Sequence[str], kind: Callable[..., Value]) -> Value | None:
        statement = f"SELECT {', '.join(columns)} FROM assent_breakpoints WHERE id = :id"
        rows = await self._database.fetch(statement, {"id": breakpoint_id})
        return kind(*rows[0]) if rows else None

    async def _load(self, ids: list[str], columns: Sequence[str], kind: Callable[..., Value]) -> dict[str, Value]:
        statement = f"SELECT {', '.join(columns)} FROM assent_breakpoints WHERE id = ANY(:ids)"
        rows = await self._database.fetch(statement, {"ids": ids})
        return {row[0]: kind(*row) for row in rows}

    async def feedback(self, breakpoint_id: str) -> Sequence[Row]:
        return await self._database.fetch(SELECT_COMMENTS, {"id": breakpoint_id})

    async def ended_among(self, ids: list[str]) -> list[str]:
        """Return which of these breakpoints are no longer pending (PostgreSQL only)."""
        statement = "SELECT id FROM assent_breakpoints WHERE id = ANY(:ids) AND status <> 'waiting'"
        return [row[0] for row in await self._database.fetch_page(statement, {"ids": ids})]

    async def page(self, query: Query) -> list[Summary]:
        """Return up to limit + 1 rows; the extra row shows that there is a next page.

        Concurrent calls with the same query return the same list, which must not be modified.
        """
        return await self._pages.get(query)

    async def _page(self, query: Query) -> list[Summary]:
        plan = await self._plan(query)
        statement, params = page_statement(query, plan, self._database.dialect)
        # With SQLite, `fetch` reads on the event loop's thread (ADR 0019).
        fetch = self._database.fetch if self._is_quick(query) else self._database.fetch_page
        return [Summary(*row) for row in await fetch(statement, params)]

    def _is_quick(self, query: Query) -> bool:
        """Return whether SQLite has an index in the page's order. Reading it takes less time than switching threads."""
        driving = len(query.tags) + (query.agent_id is not None)
        searching = (
            query.q, query.run_id, query.gate, query.created_by_id, query.mine, query.snoozed_by, query.not_snoozed_by,
        )  # fmt: skip
        return (
            self._database.dialect == "sqlite"
            and driving <= 1
            and not query.experts_any
            and query.sort.endswith("created")
            and all(each is None for each in searching)
        )

    async def _plan(self, query: Query) -> "Plan":
        """Choose what drives the query: the rarest label, rare words, or the sort order."""
        labels = [f"t:{tag}" for tag in dict.fromkeys(query.tags)]
        if len(labels) > 1:
            counts = [await self._count_label(query, label) for label in labels]
            labels = [label for _, label in sorted(zip(counts, labels, strict=True))]
        plan = Plan(labels=tuple(labels), sought=sought_words(query.q or ""))
        return await self._sampled(query, plan) if plan.sought else plan

    async def _count_label(self, query: Query, label: str) -> int:
        # Labels above the limit are all frequent, so their order does not matter.
        statement = """
            SELECT count(*) FROM (SELECT 1 FROM assent_labels
            WHERE project_id = :project_id AND label = :label AND status = :status LIMIT 2000) AS found"""
        params = {"project_id": query.project, "label": label, "status": query.statuses[0]}
        return int((await self._database.fetch_page(statement, params))[0][0])

    async def _sampled(self, query: Query, plan: "Plan") -> "Plan":
        """Choose the statuses for which the word index drives the query, based on a sample of the rows to scan.

        If a fraction p of a million rows are hits, a scan reads limit / p rows, and the index reads p million rows. A
        list with fewer rows than the sample is always scanned, no matter how many hits exist elsewhere.
        """
        statement, params = sample_statement(query, plan, self._database.dialect)
        rows = await self._database.fetch_page(statement, params)
        rare = {
            status: (last, hits_of_words)
            for status, seen, last, hits, *hits_of_words in rows
            if seen == SEARCH_SAMPLE_ROWS and INDEX_COST * hits * hits <= query.limit
        }
        if not rare:
            return plan
        hits = [sum(each) for each in zip(*(each for _, each in rare.values()), strict=True)]
        nearest = max if SORTS[query.sort][1] == "DESC" else min
        most = FREQUENT_SHARE * SEARCH_SAMPLE_ROWS * len(rare)
        asked = [word for word, count in zip(plan.sought, hits, strict=True) if count <= most]
        return replace(
            plan,
            rare=frozenset(rare),
            sampled_to=nearest(last for last, _ in rare.values()),
            asked=tuple(asked) or (plan.sought[min(range(len(hits)), key=hits.__getitem__)],),
        )

    async def counts(self, query: Query) -> dict[str, int]:
        """Count per status up to a cap, because the difference between 10,000 and a million does not matter."""
        found: dict[str, int] = {}
        plan = await self._plan(replace(query, limit=COUNT_CAP))
        for status in query.statuses:
            statement, params = count_statement(query, plan, status, self._database.dialect)
            found[status] = int((await self._database.fetch_page(statement, params))[0][0])
        return found


# Look up the words first: by default, both databases scan in the sort order and look up the words for every row.
# CROSS JOIN and an array prevent this.
INDEXED_WORDS = {
    "sqlite": "assent_search s CROSS JOIN assent_breakpoint_words w ON w.ordinal = s.rowid"
    " CROSS JOIN assent_breakpoints b ON b.ordinal = s.rowid",
    "postgresql": "assent_breakpoints b",
}
HITS_POSTGRES = """
    b.ordinal = ANY (ARRAY(
        WITH hits AS MATERIALIZED (
            SELECT w.ordinal FROM assent_breakpoint_words w
            WHERE assent_lexemes(w.words) @@ CAST(CAST(:words AS text) AS tsquery) AND {is_hit} > 0)
        SELECT h.ordinal FROM hits h{pending}))"""
# Indexes contain the ordinals of pending breakpoints, so hits among ended breakpoints require no row lookups. The plus
# sign keeps SQLite from querying its word index for each of these ordinals.
AMONG_PENDING = {
    "sqlite": "+s.rowid IN ({pending})",
    "postgresql": " WHERE h.ordinal IN ({pending})",
}
PENDING = "SELECT p.ordinal FROM assent_breakpoints p WHERE p.project_id = :project_id AND p.status = 'waiting'"
WALKED_WORDS = {
    "sqlite": " CROSS JOIN assent_breakpoint_words w ON w.ordinal = b.ordinal",
    "postgresql": " JOIN assent_breakpoint_words w ON w.ordinal = b.ordinal",
}


@dataclass(frozen=True, slots=True)
class Plan:
    labels: tuple[str, ...] = ()
    sought: tuple[str, ...] = ()
    """The strings that a breakpoint's words must contain."""
    rare: frozenset[str] = frozenset()
    """The statuses in which hits are rare."""
    asked: tuple[str, ...] = ()
    """The words that are looked up in the index for these statuses."""
    sampled_to: int | None = None
    """Where the sample of these statuses ends in the list's order."""


def index_query(words: Sequence[str], dialect: str) -> str:
    """Return a quoted index query for these words; the index does not check their order or distance."""
    exact, beginning = ("'{}'", "'{}':*") if dialect == "postgresql" else ('"{}"', '"{}" *')
    asked: dict[str, None] = {}
    for each in words:
        *before, last = each.split()
        asked |= dict.fromkeys(exact.format(word) for word in before)
        asked[(exact if each.endswith(" ") else beginning).format(last)] = None
    return (" & " if dialect == "postgresql" else " AND ").join(asked)


def sample_statement(query: Query, plan: Plan, dialect: str) -> tuple[str, dict[str, Any]]:
    """Return a query that samples the rows to scan: per status, their number, the last row and the number of hits."""
    params: dict[str, Any] = {"limit": SEARCH_SAMPLE_ROWS}
    everything, unsought = replace(query, q=None), replace(plan, sought=())
    is_hit = _is_hit(plan.sought, dialect, params)
    per_word = "".join(
        f", coalesce(sum(CASE WHEN {test} THEN 1 ELSE 0 END), 0)" for test in _occurrences(plan.sought, dialect)
    )
    column, direction = SORTS[query.sort]
    last = "min" if direction == "DESC" else "max"
    samples: list[str] = []
    for n, status in enumerate(query.statuses):
        walked = _branch(everything, unsought, (status,), dialect, params, order=(column, direction))
        samples.append(
            f"SELECT '{status}' AS status, count(*) AS seen, {last}(b{n}.{column}) AS last,"
            f" coalesce(sum({is_hit}), 0) AS hits{per_word}"
            f" FROM ({walked.replace('{columns}', f'b.ordinal, b.{column}')}) AS b{n}"
            f" LEFT JOIN assent_breakpoint_words w ON w.ordinal = b{n}.ordinal"
        )
    return " UNION ALL ".join(samples), params


def _match(plan: Plan, dialect: str, params: dict[str, Any], *, indexed: bool, pending: bool) -> list[str]:
    if not plan.sought:
        return ["1 = 0"]
    is_hit = _is_hit(plan.sought, dialect, params)
    if not indexed:
        return [f"{is_hit} > 0"]
    params["words"] = index_query(plan.asked, dialect)
    among = AMONG_PENDING[dialect].format(pending=PENDING) if pending else ""
    if dialect == "postgresql":
        return [HITS_POSTGRES.format(is_hit=is_hit, pending=among)]
    return ["s.assent_search MATCH :words", *([among] if among else []), f"{is_hit} > 0"]


def _is_hit(sought: Sequence[str], dialect: str, params: dict[str, Any]) -> str:
    """Return one number instead of a test per word, because PostgreSQL assumes that many tests are rarely all true."""
    params |= {f"sought_{n}": each for n, each in enumerate(sought)}
    return f"CASE WHEN {' AND '.join(_occurrences(sought, dialect))} THEN 1 ELSE 0 END"


def _occurrences(sought: Sequence[str], dialect: str) -> list[str]:
    position = "strpos" if dialect == "postgresql" else "instr"
    return [f"{position}(w.words, :sought_{n}) > 0" for n in range(len(sought))]


def page_statement(query: Query, plan: Plan, dialect: str) -> tuple[str, dict[str, Any]]:
    """Return a query that reads keys per status in index order, merges and limits them, and then reads full rows."""
    column, direction = SORTS[query.sort]
    params: dict[str, Any] = {"limit": query.limit + 1}
    columns = ", ".join(f"b.{name}" for name in SUMMARY_COLUMNS)
    before, branches = "", _branches(query, plan, dialect, params)
    if len(branches) == 1 and not plan.rare:
        return branches[0].replace("{columns}", columns), params
    if plan.rare and plan.sampled_to is not None and len(branches) > 1:
        before, branches = _walked_first(query, plan, dialect, params)
    order = f"k.{column} {direction}, k.id {direction}"
    join = "CROSS JOIN" if dialect == "sqlite" else "JOIN"
    chosen = f"SELECT {columns} FROM ({_keys(query, branches)}) AS k {join} assent_breakpoints b ON b.id = k.id"
    return f"{before}{chosen} ORDER BY {order}", params


def _branches(query: Query, plan: Plan, dialect: str, params: dict[str, Any], *, also: str = "") -> list[str]:
    """Return one branch per status to match the indexes, but a single branch for all statuses with rare words."""
    rare = tuple(status for status in query.statuses if status in plan.rare)
    groups = [*([rare] if rare else []), *((status,) for status in query.statuses if status not in plan.rare)]
    return [_branch(query, plan, group, dialect, params, order=SORTS[query.sort], also=also) for group in groups]


def _keys(query: Query, branches: Sequence[str]) -> str:
    column, direction = SORTS[query.sort]
    keys = " UNION ALL ".join(
        f"SELECT * FROM ({branch.replace('{columns}', f'b.id, b.{column}')}) AS s{n}"
        for n, branch in enumerate(branches)
    )
    return f"SELECT k.id, k.{column} FROM ({keys}) AS k ORDER BY k.{column} {direction}, k.id {direction} LIMIT :limit"


def _walked_first(query: Query, plan: Plan, dialect: str, params: dict[str, Any]) -> tuple[str, list[str]]:
    """Scan the statuses with frequent words before those with rare words.

    If the frequent statuses fill the page before the sample of the rare statuses ends, the rare statuses are scanned
    only up to the end of the page, and the index is not used.
    """
    column, direction = SORTS[query.sort]
    further, reached = (">", ">=") if direction == "DESC" else ("<", "<=")
    rare = replace(query, statuses=tuple(status for status in query.statuses if status in plan.rare))
    frequent = replace(query, statuses=tuple(status for status in query.statuses if status not in plan.rare))
    walking = replace(plan, rare=frozenset[str]())
    params |= {"sampled_to": plan.sampled_to, "full": query.limit}
    before = (
        f"WITH walked AS MATERIALIZED ({_keys(query, _branches(frequent, plan, dialect, params))}),"
        f" page_end AS MATERIALIZED (SELECT e.{column} FROM (SELECT k.{column} FROM walked k"
        f" ORDER BY k.{column} {direction}, k.id {direction} LIMIT 1 OFFSET :full) AS e"
        f" WHERE e.{column} {further} :sampled_to) "
    )
    return before, [
        "SELECT {columns} FROM walked b",
        *_branches(rare, plan, dialect, params, also="NOT EXISTS (SELECT 1 FROM page_end)"),
        *_branches(rare, walking, dialect, params, also=f"{{key}}.{column} {reached} (SELECT {column} FROM page_end)"),
    ]


def count_statement(query: Query, plan: Plan, status: str, dialect: str) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {"limit": COUNT_CAP}
    branch = _branch(query, plan, (status,), dialect, params, order=None)
    return f"SELECT count(*) FROM ({branch.replace('{columns}', '1')}) AS found", params


def _branch(  # noqa: PLR0913  # the parts of one statement
    query: Query,
    plan: Plan,
    statuses: Sequence[str],
    dialect: str,
    params: dict[str, Any],
    *,
    order: tuple[str, str] | None,
    also: str = "",
) -> str:
    params["project_id"] = query.project
    params |= {f"status_{status}": status for status in statuses}
    wanted = ", ".join(f":status_{status}" for status in statuses)
    test = f"= {wanted}" if len(statuses) == 1 else f"IN ({wanted})"
    # The label index (project, label, status, time) drives the query, unless the list is sorted by another column or
    # the search words are rare, because rare words match even fewer rows.
    is_rare = bool(plan.sought) and plan.rare.issuperset(statuses)
    driven_by_label = bool(plan.labels) and not is_rare and (order is None or order[0] == "created_at")
    key = "l" if driven_by_label else "b"
    source = "assent_breakpoints b"
    where = [f"{key}.project_id = :project_id", f"{key}.status {test}", *([also.format(key=key)] if also else [])]
    if driven_by_label:
        source = "assent_labels l JOIN assent_breakpoints b ON b.id = l.id"
        where.append("l.label = :label_0")
    elif is_rare:
        source = INDEXED_WORDS[dialect]
    params |= {f"label_{i}": label for i, label in enumerate(plan.labels)}
    where += _has_labels(key, [f":label_{i}" for i in range(1 if driven_by_label else 0, len(plan.labels))])
    if query.experts_any:
        names = [f":expert_{i}" for i in range(len(query.experts_any))]
        params |= {f"expert_{i}": f"e:{name}" for i, name in enumerate(query.experts_any)}
        where.append(f"EXISTS (SELECT 1 {_labels(key, names)})")
    where += _plain_filters(query, key, params)
    if query.mine is not None:
        where.append(_mine(query.mine, key, test, params))
    where += _snooze_filters(query, key, statuses, params)
    if query.q is not None:
        source += "" if is_rare or not plan.sought else WALKED_WORDS[dialect]
        where += _match(plan, dialect, params, indexed=is_rare, pending=tuple(statuses) == ("waiting",))
    tail = "LIMIT :limit"
    if order is not None:
        column, direction = order
        if query.cursor is not None:
            sign = "<" if direction == "DESC" else ">"
            where.append(f"({key}.{column}, {key}.id) {sign} (:cursor_at, :cursor_id)")
            params |= {"cursor_at": query.cursor[0], "cursor_id": query.cursor[1]}
        tail = f"ORDER BY {key}.{column} {direction}, {key}.id {direction} LIMIT :limit"
    return f"SELECT {{columns}} FROM {source} WHERE {' AND '.join(where)} {tail}"


def _has_labels(key: str, names: Sequence[str]) -> list[str]:
    """Return tests for all labels; matches are counted, because PostgreSQL takes minutes to plan a join per label."""
    if len(names) > 1:
        return [f"(SELECT count(*) {_labels(key, names)}) = {len(names)}"]
    return [f"EXISTS (SELECT 1 {_labels(key, [name])})" for name in names]


def _labels(key: str, names: Sequence[str]) -> str:
    """Select which of these labels a row has; a row has each label at most once."""
    test = f"= {names[0]}" if len(names) == 1 else f"IN ({', '.join(names)})"
    return (
        f"FROM assent_labels x WHERE x.project_id = {key}.project_id AND x.label {test}"
        f" AND x.status = {key}.status AND x.created_at = {key}.created_at AND x.id = {key}.id"
    )


def _plain_filters(query: Query, key: str, params: dict[str, Any]) -> list[str]:
    where: list[str] = []
    for owner, column, value in (
        (key, "agent_id", query.agent_id),
        ("b", "run_id", query.run_id),
        ("b", "gate", query.gate),
        ("b", "created_by_id", query.created_by_id),
    ):
        if value is not None:
            where.append(f"{owner}.{column} = :{column}")
            params[column] = value
    if query.created_after is not None:
        where.append(f"{key}.created_at > :created_after")
        params["created_after"] = query.created_after
    if query.created_before is not None:
        where.append(f"{key}.created_at < :created_before")
        params["created_before"] = query.created_before
    return where


def _mine(mine: Mine, key: str, status: str, params: dict[str, Any]) -> str:
    params |= {f"mine_{i}": f"e:{name}" for i, name in enumerate(mine.names)} | {"me": mine.person_id}
    claimed = f"EXISTS (SELECT 1 FROM assent_claims c WHERE c.breakpoint_id = {key}.id AND c.person_id = :me)"
    if not mine.names:
        return claimed
    # Project and status are parameters instead of the row's columns, so that PostgreSQL can exclude breakpoints that
    # ended years ago when it first reads the breakpoints assigned to a person.
    names = ", ".join(f":mine_{i}" for i in range(len(mine.names)))
    return (
        f"({claimed} OR EXISTS (SELECT 1 FROM assent_labels x"
        f" WHERE x.project_id = :project_id AND x.label IN ({names}) AND x.status {status}"
        f" AND x.created_at = {key}.created_at AND x.id = {key}.id))"
    )


def _snooze_filters(query: Query, key: str, statuses: Sequence[str], params: dict[str, Any]) -> list[str]:
    """Return the tests for snoozed breakpoints; ended breakpoints no longer count as snoozed."""
    where: list[str] = []
    for name, hidden, snoozer in (("snoozed", False, query.snoozed_by), ("not_snoozed", True, query.not_snoozed_by)):
        if snoozer is None or (hidden and "waiting" not in statuses):
            continue
        snoozed = (
            f"EXISTS (SELECT 1 FROM assent_snoozes z WHERE z.person_id = :{name}_by"
            f" AND z.breakpoint_id = {key}.id AND z.until > :{name}_now)"
        )
        if tuple(statuses) != ("waiting",):
            snoozed = f"({key}.status = 'waiting' AND {snoozed})"
        where.append(f"NOT {snoozed}" if hidden else snoozed)
        params |= {f"{name}_by": snoozer.person_id, f"{name}_now": snoozer.now}
    return where


def encode_cursor(query: Query, last: Summary) -> str:
    column = SORTS[query.sort][0]
    text = msgspec.json.encode([query.sort, getattr(last, column), last.id])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode_cursor(cursor: str, *, sort: str) -> tuple[int, str]:
    try:
        made_for, at, last_id = msgspec.json.decode(
            base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=tuple[str, int, str]
        )
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequest.at("query cursor", "is not a valid cursor") from error
    # Larger numbers do not fit in the columns, and PostgreSQL does not accept NUL.
    if made_for != sort or not -(2**62) <= at <= 2**62 or "\x00" in last_id:
        raise InvalidRequest.at("query cursor", "belongs to a different list")
    return at, last_id
