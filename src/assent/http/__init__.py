"""Shared by the API and the web pages: authentication, waiting, and error responses."""
