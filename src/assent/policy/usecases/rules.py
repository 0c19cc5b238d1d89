"""Creates, changes and removes rules, and recommends whether a person has to decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assent.core import rule_changes
from assent.core.access import Permission, Principal
from assent.core.canonical import Json
from assent.core.counting import Counting, differences
from assent.core.errors import InvalidRequest, NotFound, PreconditionFailed
from assent.core.patterns.expressions import Subject
from assent.core.rulebook import Rule, RuleAction, Rulebook, RuleMode, checked
from assent.core.rules import Asked, Recommendation, Source, recommend, subject_of
from assent.core.terms import Terms
from assent.db.transaction import Transaction
from assent.delivery.routes import Route, Timeout, timeout_for
from assent.delivery.store.routes import Routes
from assent.people.store.projects import Projects
from assent.people.store.tokens import Token, Tokens
from assent.policy.backtest import mentions
from assent.policy.store.rules import Ground, Rules, Streak

LOOK_BACK = 25
"""Maximum number of consecutive approvals to count, unless a higher threshold applies."""
MAX_RULES = 20_000


@dataclass(frozen=True, slots=True)
class Book:
    """A project's rules, routes and policy at one version of its rulebook."""

    version: int
    rules: Rulebook
    counting: Counting
    routes: tuple[Route, ...] = ()
    """The routes in order; empty if no route has a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The subject of a recommendation."""

    subject: Subject
    gate: str
    agent_id: str
    payload: Mapping[str, Json] = field(default_factory=dict[str, Json])
    created_by_id: str | None = None
    """The creator whose breakpoints count, or None to count the breakpoints of all creators."""
    hard_stop: bool = False
    plain: bool = True
    after_n: int | None = None

    @classmethod
    def of(cls, asked: Asked, *, by: Principal | None = None) -> "Question":
        """Build the question for a principal or, if `by` is None, for an agent whose ID is trusted."""
        after_n: Json = asked.payload.get("autoApproveAfterN")
        return cls(
            subject=subject_of(asked, claimed=by is not None and by.claims_agent_id),
            payload=asked.payload,
            created_by_id=by.id if by else None,
            gate=asked.gate,
            agent_id=asked.agent_id,
            hard_stop=asked.payload.get("hardStop") is True,
            plain=Terms.of(asked.gate, asked.payload).plain,
            after_n=after_n if isinstance(after_n, int) else None,
        )

    @property
    def routed(self) -> Subject:
        """The attributes for matching routes; unlike rules, routes trust claimed agent IDs."""
        return replace(self.subject, claimed=frozenset())

    def streak(self, counting: Counting) -> Streak:
        """Return which approvals count, and how many of them to read."""
        return Streak(
            gate=self.gate,
            agent_id=self.agent_id,
            created_by_id=self.created_by_id,
            counts_as=counting.key(self.payload),
            limit=max(LOOK_BACK, counting.threshold(self.after_n, self.payload) or 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """The fields of a new rule."""

    pattern: str
    action: str
    note: str | None = None
    mode: str = RuleMode.LIVE.value
    expires_at: int | None = None
    enabled: bool = True
    order: int | None = None


class RuleService:
    """Manages and applies rules. Each project's rules are cached, and each transaction checks their version."""

    def __init__(self) -> None:
        self._books: dict[str, Book] = {}

    def recommend(self, tx: Transaction, project: str, question: Question, *, now: int) -> Recommendation:
        """Recommend whether a person has to decide, based on the rules that are current in this transaction."""
        kept = self._books.get(project)
        counting = kept.counting if kept else Counting()
        streak = question.streak(counting)
        ground = tx[Rules].ground(project, streak)
        book = self._book(tx, project, ground.version)
        # The cached policy was outdated, so different approvals count.
        if book.counting != counting:
            streak = question.streak(book.counting)
            ground = tx[Rules].ground(project, streak)
        found = follow(book, question, ground, now=now)
        if found.source is not Source.AFTER_N:
            return found
        # A reviewer who edited the content approved something different from what the agent requested.
        approvals = [each for each in tx[Rules].counted(project, streak) if not each.edited]
        if len(approvals) < (book.counting.threshold(question.after_n, question.payload) or 0):
            return follow(book, question, Ground(book.version, len(approvals)), now=now)
        differed = differences(question.payload, (each.payload for each in approvals))
        return replace(found, counted=tuple(each.id for each in approvals), differed=differed)

    def route_timeout(self, tx: Transaction, project: str, question: Question) -> Timeout | None:
        """Return the timeout of the route that this question will match, if any."""
        book = self._book(tx, project, tx[Rules].version(project))
        return timeout_for(book.routes, question.routed)

    def warm(self, tx: Transaction) -> None:
        """Load every project's rules in advance, because parsing thousands of them delays the writer by a second."""
        for project in tx[Projects].every():
            self._book(tx, project.id, tx[Rules].version(project.id))

    def standing(self, tx: Transaction, project: str) -> list[tuple[Rule, str | None]]:
        """Return the rules in order, each with an error message if its pattern is invalid."""
        book = self._book(tx, project, tx[Rules].version(project))
        problems = {fault.rule.id: fault.problem for fault in book.rules.faults}
        return [(rule, problems.get(rule.id)) for rule in tx[Rules].standing(project)]

    def fitting(self, tx: Transaction, project: str, gate: str, *, now: int) -> list[Rule]:
        """Return the active rules that may apply to a gate, in order."""
        book = self._book(tx, project, tx[Rules].version(project))
        return [each.rule for each in book.rules.fitting(gate, now)]

    def on_claimed_ids(self, tx: Transaction, project: str, *, now: int) -> tuple[list[Rule], list[Token]]:
        """Return live auto-approve rules that test agentId, and active tokens that can claim any ID, if both exist."""
        claiming = [each for each in tx[Tokens].every(project) if each.claims and each.works(now)]
        patterns = self._book(tx, project, tx[Rules].version(project)).rules.patterns
        resting = [
            rule
            for rule in tx[Rules].standing(project)
            if rule.action == RuleAction.AUTO
            and rule.mode == RuleMode.LIVE
            and rule.in_force(now)
            and rule.pattern in patterns
            and "agentId" in mentions(patterns[rule.pattern])
        ]
        return (resting, claiming) if resting and claiming else ([], [])

    def guess(self, project: str, question: Question, *, now: int) -> "Guess | None":
        """Recommend based on cached rules, without a transaction; the caller must verify the guess with `holds`."""
        book = self._books.get(project)
        if book is None:
            return None
        # Assumes that no approvals count; otherwise `holds` rejects the guess.
        ground = Ground(book.version, 0)
        timeout = timeout_for(book.routes, question.routed)
        streak = question.streak(book.counting)
        return Guess(ground, streak, follow(book, question, ground, now=now), timeout)

    def _book(self, tx: Transaction, project: str, version: int) -> Book:
        kept = self._books.get(project)
        if kept is not None and kept.version == version:
            return kept
        pages = tx[Rules].pages(project)
        # `before` contains patterns that have already been parsed.
        rules = Rulebook.of(pages.rules, stopping_tags(pages.policy), before=kept.rules if kept else None)
        routes = tuple(tx[Routes].in_force(project))
        timed = routes if any(each.timeout for each in routes) else ()
        read = Book(pages.version, rules, Counting.of(pages.policy), timed)
        # Replaces even a higher version, which may have come from a transaction that was rolled back.
        self._books[project] = read
        return read

    def add(self, tx: Transaction, new: NewRule, *, by: Principal, source: str, why: str | None = None) -> Rule:
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Rules].turn_page(by.project)  # locks the project's rules until the commit, so it must come first
        now = tx.now()
        standing, last = tx[Rules].room(by.project)
        require_room(standing + 1)
        rule = Rule(
            id=tx.new_id("rule").replace("_", "-", 1),  # babysitter's rule IDs start with `rule-`
            project=by.project,
            pattern=new.pattern.strip(),
            action=new.action,
            note=new.note,
            mode=new.mode,
            expires_at=new.expires_at,
            enabled=new.enabled,
            order=new.order if new.order is not None else last,
            source=source,
        )
        _check(rule, now)
        rule, event = rule_changes.created(rule, actor=by.actor, at=now, why=why)
        tx[Rules].add(rule, event)
        return rule

    def change(
        self,
        tx: Transaction,
        rule_id: str,
        changes: Mapping[str, Any],
        *,
        by: Principal,
        why: str | None = None,
        if_match: int | None = None,
    ) -> Rule:
        """Change fields of a rule; `changes` is keyed by the field names of `Rule`."""
        current = self._to_change(tx, rule_id, by, if_match)
        wanted = replace(current, **changes)
        now = tx.now()
        _check(wanted, now, before=current)
        if rule_changes.content(wanted) == rule_changes.content(current):
            return current
        changed, event = rule_changes.changed(wanted, actor=by.actor, at=now, why=why)
        tx[Rules].save(changed, event)
        return changed

    def remove(
        self, tx: Transaction, rule_id: str, *, by: Principal, why: str | None = None, if_match: int | None = None
    ) -> Rule:
        current = self._to_change(tx, rule_id, by, if_match)
        gone, event = rule_changes.removed(current, actor=by.actor, at=tx.now(), why=why)
        tx[Rules].save(gone, event)
        return gone

    def _to_change(self, tx: Transaction, rule_id: str, by: Principal, if_match: int | None) -> Rule:
        by.require(Permission.RULES)
        tx.acting(by)
        # Locks the rules, so that the version cannot change after it is checked.
        tx[Rules].turn_page(by.project)
        current = tx[Rules].get(rule_id, project=by.project)
        if current.removed_at is not None:
            msg = f"Rule {rule_id} has been removed."
            raise NotFound(msg)
        if if_match is not None and if_match != current.version:
            raise PreconditionFailed(version=current.version)
        return current


@dataclass(frozen=True, slots=True)
class Guess:
    """A recommendation made before the transaction; valid only if the ground that it is based on has not changed."""

    ground: Ground
    streak: Streak
    recommendation: Recommendation
    route_timeout: Timeout | None = None

    def holds(self, tx: Transaction, project: str) -> bool:
        return tx[Rules].ground(project, self.streak) == self.ground


def stopping_tags(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags that require a human decision; those in `ticketTags` also require a ticket."""
    return (*policy.get("alwaysBreakOn", ()), *policy.get("ticketTags", ()))


def require_room(rules: int) -> None:
    if rules > MAX_RULES:
        raise InvalidRequest.at("/", f"a project can have at most {MAX_RULES:,} rules")


def follow(book: Book, question: Question, ground: Ground, *, now: int) -> Recommendation:
    found = recommend(
        book.rules,
        question.subject,
        hard_stop=question.hard_stop,
        plain=question.plain,
        after_n=book.counting.threshold(question.after_n, question.payload),
        consecutive=ground.consecutive,
        now=now,
    )
    return replace(found, counts_as=book.counting.key(question.payload))


def _check(rule: Rule, now: int, *, before: Rule | None = None) -> None:
    checked(rule)
    # An expired rule can be changed without changing its expiry time.
    is_new = before is None or before.expires_at != rule.expires_at
    if is_new and rule.expires_at is not None and rule.expires_at <= now:
        raise InvalidRequest.at("/expiresAt", "must be in the future")
