"""Pages about triggers: what starts runs, what came in, and why something did or did not start."""
