"""Checkpoints cover every event exactly once, even after late commits, and extend one another."""

import asyncio
import base64
import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assent.audit import checkpoint as checkpoints
from assent.audit import merkle
from assent.audit.store.checkpoints import Checkpoints, StoredCheckpoint
from assent.audit.usecases.checkpoints import CHECKPOINT_BATCH, CheckpointService
from assent.audit.usecases.publish_checkpoint import AnchorFile, Anchoring, Disagreement, line_of
from assent.audit.usecases.verify import AuditService
from assent.core.access import Kind, Principal, Role
from assent.core.errors import Forbidden, InvalidRequest, NotFound
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from tests.audit.usecases.logging_lives import sign, with_anchors
from tests.db.making import adding, create, rows
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.receiver import Answer, Call, receiving
from tests.support.tampering import raw, resting, unlocked
from tests.support.until import until

AUDITOR = Principal(kind=Kind.PERSON, id="per_1", name="una", project="default", roles=frozenset({Role.AUDITOR}))
OPERATOR = Principal(
    kind=Kind.SYSTEM, id="system:test", name="test", project="default", roles=frozenset({Role.ADMIN}), everywhere=True
)


async def stored(node: Node) -> list[StoredCheckpoint]:
    return await node.assent.database.read(lambda tx: tx[Checkpoints].after(0, limit=100))


async def keys(node: Node) -> dict[str, bytes]:
    found = await node.assent.database.read(lambda tx: tx[Checkpoints].every_key())
    return {each.key_id: each.public for each in found}


async def holds(node: Node, **options: Any) -> bool:
    return not (await node.assent[AuditService].verify(**options)).findings


async def test_every_event_is_covered_once_and_each_checkpoint_extends_the_previous_one(node: Node) -> None:
    signed = [await sign(node)]
    assert signed[0] > 0, "the first administrative events"
    for count in (1, 3, 2):
        for _ in range(count):
            await create(node)
        signed.append(await sign(node))
        assert await sign(node) == 0
    await node.assent.database.write(adding(node, "gate.*", "auto-approve"))
    signed.append(await sign(node))
    found = await stored(node)

    assert [each.number for each in found] == [1, 2, 3, 4, 5]
    assert [each.size for each in found] == [sum(signed[: n + 1]) for n in range(5)]
    events = """SELECT (SELECT count(*) FROM assent_events) + (SELECT count(*) FROM assent_rule_events)
        + (SELECT count(*) FROM assent_admin_events)"""
    assert await rows(node, events) == [(found[-1].size,)]
    assert await rows(node, "SELECT * FROM assent_unsigned_events") == []
    for first, second in itertools.pairwise(found):
        proven = await node.assent.database.read(
            partial(node.assent[CheckpointService].consistency, first=first.number, second=second.number, by=AUDITOR)
        )
        assert merkle.continues(first.size, first.root_hash, second.size, second.root_hash, proven.path)
    for each in found:
        assert checkpoints.check(each.note, await keys(node)).size == each.size
    assert await holds(node)


async def test_a_long_backlog_is_covered_in_batches_and_can_be_proven(node: Node) -> None:
    def fill(tx: Transaction) -> None:
        tx.session.write(
            """INSERT INTO assent_rule_events (rule_id, seq, type, actor, at, metadata, previous, hash)
            VALUES (:rule_id, :seq, 'x', 'x', 1, '{}', '', :hash)""",
            [{"rule_id": rule, "seq": n, "hash": f"{n:064}"} for n in range(2, CHECKPOINT_BATCH + 300)],
        )

    rule = (await node.assent.database.write(adding(node, "gate.*", "auto-approve"))).id
    await sign(node)
    await node.assent.database.write(fill)
    assert [await sign(node) for _ in range(4)] == [CHECKPOINT_BATCH, CHECKPOINT_BATCH, 48, 0]
    last = (await stored(node))[-1]
    assert await rows(node, "SELECT level, n FROM assent_nodes ORDER BY level, n") == [(8, 0), (8, 1)]
    for seq in (2, 256, 257, CHECKPOINT_BATCH + 299):
        proven = await node.assent.database.read(
            partial(node.assent[CheckpointService].inclusion, subject_id=rule, by=AUDITOR, seq=seq)
        )
        (event,) = proven.events
        entry = merkle.leaf(checkpoints.entry(f"{seq:064}"))
        assert merkle.includes(entry, event.leaf.position, last.size, event.path, last.root_hash)


async def test_a_late_commit_is_not_skipped(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as node:
        first = await create(node)
        await sign(node)
        with raw(postgres_settings) as late:
            late.run("BEGIN")
            late.run(
                """INSERT INTO assent_events (breakpoint_id, seq, type, actor, at, metadata, previous, hash)
                VALUES (:id, 9, 'warned', 'x', 1, '{}', '', 'late')""",
                id=first,
            )
            await create(node)
            await sign(node)
            late.run("COMMIT")
        assert await sign(node) == 1
        taken = await rows(node, "SELECT position FROM assent_leaves WHERE hash = 'late'")
        assert taken == [((await stored(node))[-1].size - 1,)]


async def test_only_one_node_at_a_time_extends_the_log(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as node:
        await create(node)
        with raw(postgres_settings) as other:
            other.run("BEGIN")
            other.run("SELECT pg_advisory_xact_lock(7373012)")
            assert await sign(node) == 0
            other.run("ROLLBACK")
        for _ in range(20):
            await create(node)
        async with running_node(postgres_settings) as second:
            await asyncio.gather(*(sign(each) for each in (node, second) * 4))
        assert await sign(node) == 0
        assert await holds(node)


async def test_a_new_key_signs_later_checkpoints_and_older_keys_remain_valid(node: Node) -> None:
    await create(node)
    await sign(node)
    with pytest.raises(Forbidden):
        await node.assent.database.write(partial(node.assent[CheckpointService].rotate, by=AUDITOR))
    found = await node.assent.database.write(partial(node.assent[CheckpointService].rotate, by=OPERATOR))
    await create(node)
    await sign(node)

    assert [each.version for each in found] == [2, 1]
    assert {each.origin for each in found} == {found[0].origin}
    assert [each.key_id for each in await stored(node)] == [found[1].key_id, found[0].key_id]
    assert await holds(node)
    assert not await holds(node, keys={found[0].key_id: found[0].public})


async def test_a_node_without_keys_works_but_signs_nothing(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings.model_copy(update={"secret_keys": None})) as node:
        await create(node)
        assert await sign(node) == 0
        assert await stored(node) == []
        assert await holds(node)
        await node.assent.measure()
        ((unsigned,),) = await rows(node, "SELECT count(*) FROM assent_unsigned_events")
        assert f"assent_unsigned_events {unsigned}.0" in (await node.call("GET", "/metrics")).text


@pytest.mark.parametrize("change", ["public_key", "secret"])
async def test_a_key_replaced_in_the_database_is_not_used_for_signing(settings: Settings, change: str) -> None:
    async with running_node(settings) as node:
        await create(node)
        await sign(node)
        with unlocked(settings) as opened:
            if change == "secret":
                opened.run("UPDATE assent_secrets SET ciphertext = :x WHERE name = 'checkpoint'", x=b"\x01" + bytes(60))
            else:
                opened.run("UPDATE assent_checkpoint_keys SET public_key = :key", key="A" * 43 + "=")
        await create(node)
        assert await sign(node) == 0
        assert len(await stored(node)) == 1


async def test_proofs_for_missing_events_and_checkpoints_are_refused(node: Node) -> None:
    service, read = node.assent[CheckpointService], node.assent.database.read
    breakpoint_id = await create(node)
    with pytest.raises(NotFound, match="No checkpoint has been signed yet"):
        await read(partial(service.inclusion, subject_id=breakpoint_id, by=AUDITOR))
    await sign(node)
    later = await create(node)
    waiting = await read(partial(service.inclusion, subject_id=later, by=AUDITOR))
    assert (waiting.events, waiting.waiting) == ([], 1)
    known: dict[str, Any] = {"subject_id": breakpoint_id, "by": AUDITOR}
    for unknown in ({"seq": 5}, {"number": 9}, {"subject_id": "bp_none"}, {"subject_id": "rule-none"}):
        with pytest.raises(NotFound):
            await read(partial(service.inclusion, **(known | unknown)))
    await sign(node)
    with pytest.raises(InvalidRequest):
        await read(partial(service.consistency, first=2, second=1, by=AUDITOR))


async def test_checkpoints_are_signed_periodically_and_all_written_to_the_file(
    settings: Settings, tmp_path: Path
) -> None:
    anchored = with_anchors(settings, tmp_path).model_copy(update={"checkpoint_seconds": 0.05})
    file = AnchorFile(tmp_path / "anchors.jsonl")

    async def notes() -> list[str]:
        return [line["note"] for _, line in file.lines() if line is not None] if file.path.exists() else []

    async with running_node(anchored) as node:

        async def told_and_stored() -> tuple[list[str], list[str]]:
            return await notes(), [each.note for each in await stored(node)]

        await create(node)
        # The admin events recorded at startup may be in a separate checkpoint.
        first = await until(notes, lambda told: len(told) > 0)
        await create(node)
        await until(told_and_stored, lambda both: both[0] == both[1] and len(both[0]) > len(first))


async def test_a_truncated_anchor_file_is_completed_and_one_from_another_log_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    anchored = with_anchors(settings, tmp_path)
    path = tmp_path / "anchors.jsonl"
    async with resting(anchored) as assent:
        await assent.database.write(assent[PeopleService].bootstrap)
        node = Node(assent, None)  # type: ignore[arg-type]
        for _ in range(2):
            await create(node)
            await sign(node)
        whole = "".join(map(line_of, await stored(node)))
        for torn in (0, 10, len(whole) // 2, len(whole) - 5):
            path.write_text(whole[:torn])
            await assent[Anchoring].write_file()
            assert await holds(node)
            assert await assent[Anchoring].write_file() == 0
        path.write_text(whole.replace("number 2", "number 7"))
        with pytest.raises(Disagreement):
            await assent[Anchoring].write_file()
        path.write_text("something else\n")
        with pytest.raises(Disagreement):
            await assent[Anchoring].write_file()
        assert path.read_text() == "something else\n"


def telling(settings: Settings, url: str) -> Settings:
    return settings.model_copy(update={"checkpoint_webhook": url, "outbound_allow": ("127.0.0.0/8",)})


async def test_the_webhook_is_retried_until_it_has_received_every_checkpoint(settings: Settings) -> None:
    clock = ManualClock()
    with receiving() as outside:
        outside.answer("/hook", Answer(503), Answer(204))
        async with running_node(telling(settings, outside.url("/hook")), clock=clock) as node:
            for _ in range(2):
                await create(node)
                await sign(node)
            await node.assent[Anchoring].send({"number": 1})
            state = await node.assent.database.read(lambda tx: tx[Checkpoints].anchored("webhook"))
            assert (state.number, state.attempts) == (0, 1)
            await node.assent[Anchoring].send({"number": 2})
            assert len(outside.calls) == 1, "the second checkpoint must wait for the first"
            clock.advance(3600)
            await node.assent[Anchoring].send({"number": 1, "again": True})
            await node.assent[Anchoring].send({"number": 2})
            told = [each["note"] for each in outside.calls[-1].json["checkpoints"]]
            assert told == [each.note for each in await stored(node)]
            assert len(outside.calls) == 2
            state = await node.assent.database.read(lambda tx: tx[Checkpoints].anchored("webhook"))
            assert (state.number, state.attempts, state.error) == (2, 0, None)


async def test_a_worker_sends_checkpoints_to_the_webhook(settings: Settings) -> None:
    with receiving() as outside:

        async def calls() -> list[Call]:
            return list(outside.calls)

        told = telling(settings, outside.url("/hook"))
        async with running_node(told.model_copy(update={"checkpoint_seconds": 0.05}), worker=True) as node:
            await create(node)
            first, *_ = await until(calls, bool)
            known = await keys(node)
            numbers = [checkpoints.check(each["note"], known).number for each in first.json["checkpoints"]]
            # The admin events recorded at startup may be signed separately from the breakpoint.
            assert numbers == list(range(1, len(numbers) + 1))
            assert first.id == f"checkpoint-{numbers[-1]}"


async def test_an_auditor_gets_valid_proofs_over_http(node: Node) -> None:
    una = await node.person("una", "auditor")
    breakpoint_id = await create(node)
    await create(node)
    await sign(node)
    await create(node)
    await sign(node)
    page = (await node.call("GET", "/api/audit/checkpoints?limit=1", una)).json()
    known = (await node.call("GET", "/api/audit/keys", una)).json()["items"]
    trusted = dict(checkpoints.read_verifier_key(each["verifierKey"]) for each in known)
    proof = (await node.call("GET", f"/api/audit/proofs/{breakpoint_id}", una)).json()
    grown = (await node.call("GET", "/api/audit/consistency?from=1", una)).json()

    signed = checkpoints.check(page["items"][0]["note"], trusted)
    assert (signed.number, page["nextBefore"], proof["waiting"]) == (2, 2, 0)
    assert proof["checkpoint"] == page["items"][0] == grown["second"]
    (event,) = proof["events"]
    path = [_bytes(each) for each in event["path"]]
    entry = merkle.leaf(checkpoints.entry(event["hash"]))
    assert merkle.includes(entry, event["position"], signed.size, path, signed.root)
    first = checkpoints.check(grown["first"]["note"], trusted)
    path = [_bytes(each) for each in grown["path"]]
    assert merkle.continues(first.size, first.root, signed.size, signed.root, path)
    assert (await node.call("GET", "/api/audit/checkpoints", await node.token("agent"))).status_code == 403


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
