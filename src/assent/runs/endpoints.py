"""Registers the endpoints and pages for runs."""

from assent.platform.endpoints import Endpoints
from assent.runs import pages
from assent.runs.api import runs


def register(endpoints: Endpoints) -> None:
    endpoints.routers.append(runs)
    endpoints.pages.append(pages.routes)
