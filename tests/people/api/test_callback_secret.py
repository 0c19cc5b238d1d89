"""The callback secret over HTTP: only for admins, and never cached."""

from tests.support.nodes import ManualClock, Node

ADDRESS = "/api/projects/default/callback-secret"


async def test_an_admin_sees_the_secret_and_the_response_is_not_cached(node: Node) -> None:
    answer = await node.call("GET", ADDRESS, await node.token("admin"))

    assert answer.headers["cache-control"] == "no-store"
    (found,) = answer.json()["items"]
    assert found["secret"].startswith("whsec_")
    assert (found["version"], found["validUntil"]) == (1, None)
    assert answer.json() == (await node.call("GET", ADDRESS, await node.token("admin"))).json()


async def test_after_a_rotation_both_secrets_are_shown_for_a_day(node: Node, clock: ManualClock) -> None:
    admin = await node.token("admin")
    before = (await node.call("GET", ADDRESS, admin)).json()["items"]
    rotated = await node.call("POST", f"{ADDRESS}/rotate", admin)

    assert rotated.headers["cache-control"] == "no-store"
    new, old = rotated.json()["items"]
    assert old["secret"] == before[0]["secret"] != new["secret"]
    assert (new["version"], new["createdBy"]) == (2, "person:owner")
    assert old["validUntil"] > new["createdAt"]
    clock.advance(24 * 3600)
    assert (await node.call("GET", ADDRESS, admin)).json()["items"] == [new]


async def test_a_project_admin_cannot_tell_whether_other_projects_exist(node: Node) -> None:
    local = await node.person("lena", "admin")
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "shop"})

    assert (await node.call("GET", ADDRESS, local)).status_code == 200
    for project in ("shop", "nowhere"):
        address = f"/api/projects/{project}/callback-secret"
        assert (await node.call("GET", address, local)).status_code == 404
        assert (await node.call("POST", f"{address}/rotate", local)).status_code == 404


async def test_the_rotate_endpoint_accepts_no_fields(node: Node) -> None:
    refused = await node.call("POST", f"{ADDRESS}/rotate", await node.token("admin"), json={"secret": "mine"})
    assert refused.status_code == 422
