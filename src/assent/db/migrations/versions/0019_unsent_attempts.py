"""Attempts that failed before anything was sent"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    # During a rolling update, older nodes leave it NULL: their attempts may have arrived.
    op.add_column("assent_attempts", sa.Column("unsent", sa.BigInteger(), nullable=True))
