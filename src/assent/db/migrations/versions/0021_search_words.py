"""Search that finds the beginnings of words, scripts without spaces, and ids"""

import sqlalchemy as sa
from alembic import op

from assent.breakpoints.store.search_index import index_all

revision = "0021"
down_revision = "0020"

# The cost is far above the actual one, because PostgreSQL must always prefer the index to reading all rows. Restricted,
# because starting parallel workers takes longer than a search.
LEXEMES = """
    CREATE FUNCTION assent_lexemes(words text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL RESTRICTED COST 10000 AS
    $$ BEGIN RETURN array_to_tsvector(string_to_array(btrim(words), ' ')); END $$"""


def upgrade() -> None:
    # A separate table, because rows of ended breakpoints never change, and pending ones change without their words.
    op.create_table(
        "assent_breakpoint_words",
        sa.Column("ordinal", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_assent_breakpoint_words")),
    )
    connection = op.get_bind()
    index_all(connection)
    if connection.dialect.name == "sqlite":
        op.execute("DROP TABLE assent_search")
        # Words are already separated and folded; only the ASCII tokenizer keeps all of their characters.
        op.execute(
            "CREATE VIRTUAL TABLE assent_search USING fts5(words, content='assent_breakpoint_words',"
            " content_rowid='ordinal', tokenize='ascii', detail='none', columnsize=0)"
        )
        op.execute("INSERT INTO assent_search (assent_search) VALUES ('rebuild')")
    else:
        op.execute(LEXEMES)
        op.execute(
            "CREATE INDEX ix_assent_breakpoint_words_search ON assent_breakpoint_words"
            " USING gin (assent_lexemes(words))"
        )
        op.execute("DROP INDEX ix_assent_breakpoints_waiting_due")
        op.execute(
            "CREATE INDEX ix_assent_breakpoints_waiting_due ON assent_breakpoints (due_at)"
            " INCLUDE (project_id, ordinal) WHERE status = 'waiting'"
        )
        # Last, because from here until the commit no other transaction can read or write breakpoints.
        op.execute("DROP INDEX ix_assent_breakpoints_search")
