"""All SQL: tables, migrations and one module per noun, for both SQLite and PostgreSQL."""
