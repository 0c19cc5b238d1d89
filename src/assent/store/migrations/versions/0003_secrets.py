"""Stored secrets, encrypted"""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    pass
