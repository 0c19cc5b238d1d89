"""`python -m assent` is `assent`."""

from assent.cli.main import run

run()
