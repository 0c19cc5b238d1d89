"""The policy endpoints and pages."""

from collections.abc import Sequence

from starlette.routing import Route

from assent.platform.endpoints import Endpoints
from assent.policy.api.backtest import backtests
from assent.policy.api.receipts import receipts
from assent.policy.api.rules import rules
from assent.policy.api.rules_file import rules_file
from assent.policy.pages import always_approve, gates
from assent.policy.pages import rules as rule_pages
from assent.policy.pages import rules_file as rules_file_pages
from assent.web.site import Site


def register(endpoints: Endpoints) -> None:
    endpoints.routers += [backtests, receipts, rules, rules_file]
    endpoints.pages.append(_pages)


def _pages(site: Site) -> Sequence[Route]:
    return [
        *rules_file_pages.routes(site),
        *rule_pages.routes(site),
        *always_approve.routes(site),
        *gates.routes(site),
    ]
