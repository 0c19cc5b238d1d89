"""Tests of durable runs: persistence, exactly-once steps and the web pages."""
