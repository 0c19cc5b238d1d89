"""Theme and time zone of people"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("assent_people", sa.Column("theme", sa.Text(), nullable=True))
    op.add_column("assent_people", sa.Column("time_zone", sa.Text(), nullable=True))
