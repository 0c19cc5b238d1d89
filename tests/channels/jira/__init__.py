"""Tests of the Jira channel."""
