"""The admin pages: people, groups, tokens, projects, channels, routes, retention and the audit log."""
