"""Administration: people, groups, tokens, projects, retention and the audit."""
