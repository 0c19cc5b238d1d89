"""Rule commands that use the local rules.json instead of a server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from assent.console import output
from assent.console.session import session
from assent.contracts.rules import Rule
from assent.sdk.breakpoints import server_is_set
from assent.sdk.client import Assent
from assent.sdk.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from assent.core.rulebook import Rule as Stored
    from assent.sdk.local import Desk

Local = Annotated[bool, typer.Option("--local", help="Use the local rules.json, even if a server is configured")]


def rules_session(*, local: bool) -> "Assent | LocalRulebook":
    """Return a client. Without a configured server, print the path of the local rules and return the rules instead."""
    if server_is_set() and not local:
        return session()
    from assent.sdk import local as asking  # noqa: PLC0415  # loads the rule language, which other commands do not need
    from assent.sdk.local_rules import RULES  # noqa: PLC0415  # imported only when needed

    desk = asking.desk()
    because = "--local is set" if local else "no server is configured (ASSENT_URL, ASSENT_TOKEN)"
    output.remark(f"Using the local rules in {desk.folder / RULES} because {because}.")
    return LocalRulebook(desk)


class LocalRulebook:
    """Provides the local rules through the client methods that the rule commands call."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def rules(self) -> list[Rule]:
        from assent.sdk import local_rules  # noqa: PLC0415  # imported only when needed

        return [_old(each, _shown(each)) for each in local_rules.listed(self._desk.folder)]

    def rule(self, rule_id: str) -> Rule:
        found = [each for each in self.rules() if each.id == rule_id]
        if not found:
            msg = f"Rule {rule_id} not found in rules.json."
            raise NotFound(msg)
        return _warned(found[0])

    def add_rule(self, pattern: str, action: str = "auto-approve", **fields: Any) -> Rule:  # noqa: ANN401  # RuleFields
        from assent.core import rulebook  # noqa: PLC0415  # imported only when needed
        from assent.sdk import local_rules  # noqa: PLC0415  # imported only when needed

        _refuse_why(fields)
        expires = fields.get("expires_at")
        new = rulebook.Rule(
            id=self._desk.new_id("rule-"),
            pattern=pattern,
            action=action,
            note=fields.get("note"),
            mode=fields.get("mode") or rulebook.RuleMode.LIVE.value,
            enabled=fields.get("enabled", True),
            expires_at=None if expires is None else rulebook.expiry(expires),
            source="cli",
            created_by=f"person:{self._desk.user}",
            created_at=self._desk.now(),
        )
        return _warned(_shown(local_rules.add_rule(self._desk.folder, new, order=fields.get("order"))))

    def change_rule(self, rule_id: str, **changes: Any) -> Rule:  # noqa: ANN401  # RuleChanges
        from assent.sdk import local_rules  # noqa: PLC0415  # imported only when needed

        _refuse_why(changes)
        written = {_IN_FILE.get(name, name): value for name, value in changes.items()}
        return _warned(_shown(local_rules.change_rule(self._desk.folder, rule_id, written)))

    def remove_rule(self, rule_id: str, *, why: str | None = None) -> None:
        from assent.sdk import local_rules  # noqa: PLC0415  # imported only when needed

        _refuse_why({"why": why})
        local_rules.remove_rule(self._desk.folder, rule_id)


_IN_FILE = {"expires_at": "expiresAt"}


def _refuse_why(fields: Mapping[str, object]) -> None:
    if fields.get("why") is not None:
        msg = "Local rules do not keep a history. Omit --why, or use --note instead."
        raise InvalidRequest(msg)


def _shown(stored: "Stored") -> Rule:
    from assent.core.timestamps import iso  # noqa: PLC0415  # imported only when needed

    return Rule(
        id=stored.id,
        pattern=stored.pattern,
        action=stored.action,
        created_at=iso(stored.created_at) if stored.created_at else "",
        created_by=stored.created_by,
        source=stored.source,
        mode=stored.mode,
        enabled=stored.enabled,
        order=stored.order,
        updated_at=iso(stored.created_at) if stored.created_at else "",
        version=1,
        note=stored.note,
        expires_at=None if stored.expires_at is None else iso(stored.expires_at),
    )


def _old(stored: "Stored", shown: Rule) -> Rule:
    import msgspec  # noqa: PLC0415  # imported only when needed

    from assent.core.old_rules import sentence, unnamed  # noqa: PLC0415  # imported only when needed

    missing = unnamed(stored)
    if not missing:
        return shown
    todo = f'It is ignored. Answer "always" the next time you are asked, or run: assent rule remove {stored.id} --local'
    return msgspec.structs.replace(shown, warnings=[f"{sentence(stored.id, missing)} {todo}"])


def _warned(found: Rule) -> Rule:
    import msgspec  # noqa: PLC0415  # imported only when needed

    from assent.policy.rule_warnings import warnings  # noqa: PLC0415  # imported only when needed

    said = [*(found.warnings or ()), *warnings(found.pattern, found.action)]
    return msgspec.structs.replace(found, warnings=said or None)
