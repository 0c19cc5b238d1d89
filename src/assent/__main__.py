"""Runs the `assent` command as `python -m assent`."""

from assent.cli.main import run

run()
