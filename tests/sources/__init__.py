"""Tests of sources: what each receives and reports."""
