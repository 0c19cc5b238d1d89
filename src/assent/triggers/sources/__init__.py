"""The sources of trigger events: webhook providers, files, Git repositories and schedules."""
