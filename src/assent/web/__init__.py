"""The web pages, rendered on the server with plain forms, so that everything works without scripts."""
