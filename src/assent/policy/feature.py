"""Policy: rules that approve breakpoints automatically, back-tests, and receipts for approvals."""

from assent.platform.registry import Registry
from assent.policy.usecases.backtest import BacktestService
from assent.policy.usecases.receipts import ReceiptService
from assent.policy.usecases.rules import RuleService


def register(node: Registry) -> None:
    rulebook = node.add(RuleService())
    node.add(BacktestService(node.database))
    node.add(ReceiptService(node.keyring, node.random, good_for=node.settings.receipt_seconds))

    async def warm() -> None:
        """Load the rules before the first request needs them."""
        with node.patient("rules"):
            await node.database.read(rulebook.warm)

    node.loops.append(warm)
