"""The pages about triggers, events, firings, sources and schedules."""
