"""The routes of the trigger pages."""

from starlette.routing import Route

from assent.web.frame import Site
from assent.web.triggers import event, events, firings, schedule, sources, triggers


def routes(site: Site) -> list[Route]:
    return [
        *triggers.routes(site),
        *events.routes(site),  # before /events/{event_id}, which would also match /events/live
        *event.routes(site),
        *firings.routes(site),
        *sources.routes(site),
        *schedule.routes(site),
    ]
