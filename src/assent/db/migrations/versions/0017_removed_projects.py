"""The time at which a project was removed"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("assent_projects", sa.Column("removed_at", sa.BigInteger(), nullable=True))
