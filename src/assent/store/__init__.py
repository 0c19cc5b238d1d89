"""The only SQL in the house: tables, migrations, one module a noun, for SQLite and PostgreSQL alike."""
