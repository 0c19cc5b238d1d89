"""Delivery: who is notified about a breakpoint, through which channel, and what they answer."""

import sys

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.channels.tools import Tools
from assent.delivery.store.inbound_dedup import Heard
from assent.delivery.store.links import Links
from assent.delivery.store.notification_state import SELECT_NEXT_DUE
from assent.delivery.usecases.account_messages import AccountMessages
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.channel_test import Prober
from assent.delivery.usecases.channels import ChannelService, Reach
from assent.delivery.usecases.links import LinkService
from assent.delivery.usecases.listeners import Listeners
from assent.delivery.usecases.notification_plan import BATCH, DelegationService
from assent.delivery.usecases.outbox import DeliveryService
from assent.delivery.usecases.replies import AnsweringService
from assent.delivery.usecases.route_check import RouteCheck
from assent.delivery.usecases.routes import RouteService
from assent.delivery.usecases.sender import Courier
from assent.kernel.settings import resolve
from assent.people.usecases.people import LINK_JOB, RESET_JOB, PeopleService
from assent.people.usecases.secrets import SecretService
from assent.platform.due_jobs import DueJob
from assent.platform.registry import Registry
from assent.policy.usecases.rules import RuleService

HEAL_SECONDS = 30.0
FORGET_SECONDS = 3600.0
DEDUPLICATION_LIFE = 31 * 24 * 3600 * SECOND
"""Longer than any channel keeps redelivering a message; Jira does so for 30 days."""


def register(node: Registry) -> None:
    settings, accounts = node.settings, node[PeopleService]
    tools = Tools(node.outbound, resolve, node.clock.now, node.random, settings.base_url)
    pool = node.add(Switchboard(tools))
    service = node.add(ChannelService(tools, node.add(Reach(settings.data_dir, settings.channel_secrets or ()))))
    node.add(RouteService())
    node.add(RouteCheck(node[RuleService]))
    links = node.add(LinkService(accounts, service, node.random))
    outbox = node.add(DeliveryService(node[SecretService], settings.base_url))
    plan = node.add(DelegationService())
    replies = node.add(
        AnsweringService(
            node.database,
            node[BreakpointService],
            pool,
            clock=node.clock,
            base_url=settings.base_url,
            links=links,
        )
    )
    listeners = node.add(Listeners(node.database, pool, replies, clock=node.clock))
    node.add(Prober(node.database, service, pool, clock=node.clock, ids=node.ids, base_url=settings.base_url))
    node.due_jobs += [
        DueJob("delegate", plan.advance_due, batch=BATCH, next_due=SELECT_NEXT_DUE),
        DueJob("heal", outbox.heal, batch=sys.maxsize, every=HEAL_SECONDS),
        DueJob("forget-messages", _forget, batch=sys.maxsize, every=FORGET_SECONDS),
    ]
    # Without channels, no notification is urgent, so commits do not need to wake the scheduler.
    node.on_commit.append(lambda _: node.nudge("delegate") if plan.has_channels else None)
    if node.worker_id is not None:
        sender = Courier(
            node.database, outbox, node.outbound, switchboard=pool, worker=node.worker_id, metrics=node.metrics
        )
        sender.on_said = replies.take_reply
        messages = AccountMessages(node.database, accounts, pool, base_url=settings.base_url)
        node.handlers |= {
            "deliver": sender.deliver,
            "digest": sender.digest,
            LINK_JOB: messages.mail_link,
            RESET_JOB: messages.tell_reset,
        }
        node.worker_loops.append(listeners.run)


def _forget(tx: Transaction) -> int:
    """Delete deduplication records and link offers that are no longer needed."""
    tx[Heard].forget(tx.now() - DEDUPLICATION_LIFE)
    tx[Links].forget_offers(tx.now())
    return 0
