"""The API for routes and people's notification preferences."""

from functools import partial
from typing import Annotated, Any

from fastapi import Path, Response

from assent.contracts import channels as shapes
from assent.contracts.create import CheckRoutes
from assent.contracts.shape import given, json_of
from assent.contracts.words import Handle
from assent.core.draft import draft
from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.delivery.routes_file import written
from assent.delivery.store.routes import StoredRoute
from assent.delivery.usecases.route_check import Forecast, RouteCheck
from assent.delivery.usecases.routes import RouteService
from assent.http.endpoint import PeopleReader, RuleWriter, Sent, Who, With, router
from assent.http.query import known_id
from assent.people.preferences import Preferences
from assent.people.preferences import written as written_preferences
from assent.people.usecases.preferences import PreferenceService

routes = router("routes")
RouteId = Annotated[str, Path(pattern=r"^rt_[0-9a-z]{1,60}$")]
PersonName = Annotated[Handle, Path()]
_NEEDED = ("pattern", "channels", "to", "quiet", "enabled")


@routes.get("/routes", response_model_exclude_none=True, summary="Lists this project's routes in evaluation order")
async def list_routes(who: PeopleReader, services: With) -> shapes.Routes:
    found = await services.database.read(partial(services[RouteService].listed, by=who))
    return shapes.Routes(items=[_view(each) for each in found])


@routes.post("/routes", status_code=201, response_model_exclude_none=True, summary="Creates a route")
async def create_route(body: Sent[shapes.CreateRoute], who: RuleWriter, services: With) -> shapes.Route:
    said = json_of(body)
    enabled: bool = said.pop("enabled", True)
    use_case = partial(services[RouteService].create, body=said, by=who, enabled=enabled)
    return _view(await services.database.write(use_case))


@routes.put("/routes/order", response_model_exclude_none=True, summary="Reorders the routes")
async def order_routes(body: Sent[shapes.RouteOrder], who: RuleWriter, services: With) -> shapes.Routes:
    found = await services.database.write(partial(services[RouteService].reorder, route_ids=body.ids, by=who))
    return shapes.Routes(items=[_view(each) for each in found])


@routes.post(
    "/routes/check",
    response_model_exclude_none=True,
    summary="Previews who would be notified about a breakpoint, without notifying anyone",
)
async def check_routes(body: CheckRoutes, who: PeopleReader, services: With) -> shapes.RouteCheck:
    if (body.breakpoint_id is None) == (body.breakpoint is None):
        raise InvalidRequest.at("/", "must contain either breakpointId or breakpoint")
    if body.breakpoint_id is not None:
        use_case = partial(services[RouteCheck].of_breakpoint, breakpoint_id=known_id(body.breakpoint_id), by=who)
    else:
        assert body.breakpoint is not None, "exactly one is given"
        supposed = draft(body.breakpoint.model_dump(by_alias=True, exclude_none=True))
        use_case = partial(services[RouteCheck].of_draft, draft=supposed, by=who)
    return _check_view(await services.database.read(use_case))


@routes.patch("/routes/{route_id:route}", response_model_exclude_none=True, summary="Updates a route")
async def change_route(
    route_id: RouteId, body: Sent[shapes.ChangeRoute], who: RuleWriter, services: With
) -> shapes.Route:
    said = given(body)
    for name in _NEEDED:
        if name in said and said[name] is None:
            raise InvalidRequest.at(f"/{name}", "cannot be null")
    use_case = partial(services[RouteService].change, route_id=route_id, changes=said, by=who)
    return _view(await services.database.write(use_case))


@routes.delete(
    "/routes/{route_id:route}",
    status_code=204,
    summary="Removes a route; notifications that are already in progress continue",
)
async def remove_route(route_id: RouteId, who: RuleWriter, services: With) -> Response:
    await services.database.write(partial(services[RouteService].remove, route_id=route_id, by=who))
    return Response(status_code=204)


@routes.get("/people/{name}/preferences", summary="Gets a person's notification preferences")
async def get_preferences(name: PersonName, who: Who, services: With) -> shapes.PreferencesBody:
    return _preferences(await services.database.read(partial(services[PreferenceService].of, name=name, by=who)))


@routes.put("/people/{name}/preferences", summary="Replaces a person's notification preferences")
async def put_preferences(
    name: PersonName, body: Sent[shapes.PreferencesBody], who: Who, services: With
) -> shapes.PreferencesBody:
    said = json_of(body)
    return _preferences(
        await services.database.write(partial(services[PreferenceService].put, name=name, body=said, by=who))
    )


def _preferences(found: Preferences) -> shapes.PreferencesBody:
    return shapes.PreferencesBody.of(written_preferences(found))


def _view(stored: StoredRoute) -> shapes.Route:
    return shapes.Route.of(route_body(stored))


def route_body(stored: StoredRoute) -> dict[str, Any]:
    return {
        **written(stored.route),
        "id": stored.id,
        "enabled": stored.enabled,
        "source": stored.source,
        "createdBy": stored.created_by,
        "createdAt": iso(stored.created_at),
        "updatedAt": iso(stored.updated_at),
    }


def _check_view(found: Forecast) -> shapes.RouteCheck:
    steps = [
        {
            "kind": each.kind.value,
            "at": iso(each.at),
            "then": each.then,
            "told": [
                {
                    "channel": told.channel,
                    "person": told.person,
                    "notBefore": iso(told.not_before) if told.not_before is not None else None,
                }
                for told in each.told
            ],
        }
        for each in found.steps
    ]
    route = found.route
    return shapes.RouteCheck.of(
        {
            "routeId": (route.id or None) if route else None,
            "pattern": route.pattern if route else None,
            "steps": steps,
            "warnings": list(found.warnings),
        }
    )
