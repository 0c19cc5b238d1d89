"""Home projects of people, and whether an admin has reset their access"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

# People with roles in all projects are managed by the admins of all projects; others belong to the oldest project in
# which they have a role, or to the default project.
HOME = """
    UPDATE assent_people SET home_project = CASE
        WHEN EXISTS (SELECT 1 FROM assent_grants g WHERE g.person_id = assent_people.id AND g.project_id = '*')
        THEN '*'
        ELSE COALESCE((
            SELECT o.id FROM assent_grants g JOIN assent_projects o ON o.id = g.project_id
            WHERE g.person_id = assent_people.id ORDER BY o.created_at, o.id LIMIT 1), 'default')
        END"""


def upgrade() -> None:
    op.add_column("assent_people", sa.Column("home_project", sa.Text(), nullable=False, server_default="*"))
    op.add_column("assent_people", sa.Column("reset_by", sa.Text(), nullable=True))
    op.add_column("assent_people", sa.Column("reset_at", sa.BigInteger(), nullable=True))
    op.add_column("assent_people", sa.Column("reset_way", sa.Text(), nullable=True))
    op.add_column(
        "assent_sessions", sa.Column("must_set_password", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("assent_responses", sa.Column("after_reset_by", sa.Text(), nullable=True))
    op.execute(HOME)
