"""The sources of trigger events: providers that call webhooks, files, git repositories and schedules."""
