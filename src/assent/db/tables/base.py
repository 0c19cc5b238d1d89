"""The metadata and column types that all tables use."""

from sqlalchemy import BigInteger, Column, MetaData, Text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def number(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)
