"""Events only grow; legal holds; what purging leaves"""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    pass
