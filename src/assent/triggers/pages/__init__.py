"""The routes of the trigger pages."""

from starlette.routing import Route

from assent.triggers.pages import event, events, firings, schedule, sources, triggers
from assent.web.site import Site


def routes(site: Site) -> list[Route]:
    return [
        *triggers.routes(site),
        *events.routes(site),  # before /events/{event_id}, which also matches /events/live
        *event.routes(site),
        *firings.routes(site),
        *sources.routes(site),
        *schedule.routes(site),
    ]
