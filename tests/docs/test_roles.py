"""The table of roles matches the code."""

import pytest

from assent.core.access import AGENT_PERMISSIONS, ROLE_PERMISSIONS, SERVICE_PERMISSIONS, Permission
from tests.docs.pages import read, rows

COLUMNS = ("agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics")
HOLDERS = {
    "agent": AGENT_PERMISSIONS,
    **{role.value: held for role, held in ROLE_PERMISSIONS.items()},
    "metrics": SERVICE_PERMISSIONS,
}
TABLE = {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows(read("reference/roles.md")) if len(row) == 8}


def test_every_kind_of_holder_has_a_column() -> None:
    assert set(COLUMNS) == set(HOLDERS)
    assert f"| permission | {' | '.join(COLUMNS)} |" in read("reference/roles.md")


@pytest.mark.parametrize("permission", Permission)
def test_the_table_grants_the_same_permissions_as_the_code(permission: Permission) -> None:
    granted = {holder for holder, cell in TABLE[permission.value].items() if cell}

    assert granted == {holder for holder, held in HOLDERS.items() if permission in held}


def test_the_table_contains_only_existing_permissions() -> None:
    assert set(TABLE) == {permission.value for permission in Permission}
