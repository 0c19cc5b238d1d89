"""What a server adds to a node: each feature registers endpoints and pages, which commands and workers do not load."""

from collections.abc import Callable, Sequence

from fastapi import APIRouter
from starlette.routing import BaseRoute, Route

from assent.platform.registry import Registry
from assent.web.site import PageValue, Site, add_default


class Endpoints:
    def __init__(self, node: Registry) -> None:
        self.node = node
        self.routers: list[APIRouter] = []
        self.routes: list[BaseRoute] = []
        """Routes that do not go through FastAPI."""
        self.webhook_routes: list[Route] = []
        """Routes that event senders call frequently, so they are matched before all others."""
        self.pages: list[Callable[[Site], Sequence[Route]]] = []
        self.page_values: list[PageValue] = []

    def show_on_pages(self, value: PageValue) -> None:
        """Register a value to load for every page that shows it."""
        add_default(value.name, value.default)
        self.page_values.append(value)
