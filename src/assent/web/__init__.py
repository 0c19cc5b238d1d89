"""The web pages: rendered here, with forms only, so that everything works without a script."""
