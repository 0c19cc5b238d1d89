"""The database itself protects receipts: keys and uses never change, and only approvals have usable receipts."""

from pathlib import Path
from typing import Any

import pytest

from assent.audit.usecases.verify import AuditService
from assent.db.tables import metadata
from assent.kernel.settings import Settings
from tests.db.making import create, rows
from tests.db.places import empty_place, every_row, restore, save
from tests.db.test_schema import REFUSALS
from tests.policy.usecases.test_receipts import approved, consume, issue, rotate
from tests.support.nodes import Node, running_node

KEY_CHANGES = {
    "project_id": "'other'", "version": "9", "key_id": "'x'", "public_key": "'x'", "created_at": "1",
    "created_by": "'x'",
}  # fmt: skip
USE_CHANGES = {"breakpoint_id": "'bp_x'", "nonce": "'x'", "key_id": "'x'", "used_at": "1", "used_by": "'x'"}
USE = """
    INSERT INTO assent_receipt_uses (breakpoint_id, nonce, key_id, used_at, used_by)
    VALUES (:id, :nonce, 'k', 1, 'me')"""


async def refused(node: Node, statement: str, **params: Any) -> None:
    with pytest.raises(REFUSALS):
        await node.assent.database.write(lambda tx: tx.session.write(statement, [params]))


async def used(node: Node) -> str:
    breakpoint_id = await approved(node)
    await consume(node, await issue(node, breakpoint_id))
    return breakpoint_id


async def test_receipt_keys_and_uses_never_change(node: Node) -> None:
    await used(node)
    await rotate(node, revoke=True)
    for column, value in KEY_CHANGES.items():
        await refused(node, f"UPDATE assent_receipt_keys SET {column} = {value}")
    for column, value in USE_CHANGES.items():
        await refused(node, f"UPDATE assent_receipt_uses SET {column} = {value}")
    await refused(node, "UPDATE assent_receipt_keys SET revoked_at = NULL")
    await refused(node, "UPDATE assent_receipt_keys SET revoked_at = 5 WHERE retired_at IS NULL")
    assert set(KEY_CHANGES) | {"retired_at", "revoked_at"} == set(metadata.tables["assent_receipt_keys"].columns.keys())
    assert set(USE_CHANGES) == set(metadata.tables["assent_receipt_uses"].columns.keys())


@pytest.mark.parametrize("table", ["receipt_keys", "receipt_uses"])
async def test_receipt_keys_and_uses_are_never_deleted(node: Node, table: str) -> None:
    await used(node)
    before = await rows(node, f"SELECT count(*) FROM assent_{table}")
    await refused(node, f"DELETE FROM assent_{table}")
    if node.assent.database.dialect == "postgresql":
        await refused(node, f"TRUNCATE assent_{table} CASCADE")
    else:
        await refused(node, f"INSERT OR REPLACE INTO assent_{table} SELECT * FROM assent_{table}")
    assert await rows(node, f"SELECT count(*) FROM assent_{table}") == before == [(1,)]


async def test_the_database_rejects_repeated_receipt_uses_and_uses_without_an_approval(node: Node) -> None:
    breakpoint_id = await used(node)
    await refused(node, USE, id=await create(node), nonce="n")
    await refused(node, USE, id=breakpoint_id, nonce="n")
    await refused(node, USE, id="bp_none", nonce="n")


async def test_an_audit_accepts_genuine_uses_and_detects_forged_ones(node: Node) -> None:
    breakpoint_id = await used(node)
    checks = await node.assent[AuditService].check()
    assert [each.findings for each in checks if not each.holds] == []

    off = (
        "ALTER TABLE assent_receipt_uses DISABLE TRIGGER USER"
        if node.assent.database.dialect == "postgresql"
        else "DROP TRIGGER assent_receipt_uses_approved"
    )
    waiting = await create(node)

    def forge(tx: Any) -> None:
        tx.session.write(off, [{}])
        tx.session.write(USE, [{"id": waiting, "nonce": "n"}])

    await node.assent.database.write(forge)
    found = {each.name: each.findings for each in await node.assent[AuditService].check() if not each.holds}
    assert [each.breakpoint_id for each in found["I6"]] == [waiting]
    assert "locks" in found
    assert breakpoint_id != waiting


async def test_a_restored_database_contains_receipt_keys_and_uses(
    settings: Settings, tmp_path: Path, postgres_url: str
) -> None:
    async with running_node(settings) as node:
        receipt = await issue(node, await used(node))
    save(settings, tmp_path / "backup.tar")
    with empty_place(settings, tmp_path, postgres_url) as place:
        restore(place, tmp_path / "backup.tar")

        restored = every_row(place)
        assert restored == every_row(settings)
    names = {name.rpartition(".")[2] for name, found in restored.items() if found}
    assert {"assent_receipt_keys", "assent_receipt_uses"} <= names
    assert receipt.used is not None
