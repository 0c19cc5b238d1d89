"""Search that finds the beginnings of words, scripts without spaces, and ids"""

import sqlalchemy as sa
from alembic import op

from assent.store.search_index import index_all

revision = "0021"
down_revision = "0020"

# Reading a row costs far less than this says: PostgreSQL must never prefer to read all of them to asking the index.
# Restricted: to start workers for a search takes longer than the search.
LEXEMES = """
    CREATE FUNCTION assent_lexemes(words text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL RESTRICTED COST 10000 AS
    $$ BEGIN RETURN array_to_tsvector(string_to_array(btrim(words), ' ')); END $$"""


def upgrade() -> None:
    # A table of its own: rows of breakpoints that have ended never change, and those that wait change without their
    # words.
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
        # Words come separated and folded: only the ASCII tokenizer leaves all of their characters in them.
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
        # Last: from here until the commit, nobody else reads or writes breakpoints.
        op.execute("DROP INDEX ix_assent_breakpoints_search")
