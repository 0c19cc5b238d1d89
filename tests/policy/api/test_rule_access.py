from tests.support.nodes import Node


async def test_the_error_for_an_agent_listing_rules_says_which_token_to_use(shared: Node) -> None:
    answer = await shared.call("GET", "/api/rules", await shared.token("agent"))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "An agent token cannot read people, rules or routes" in answer.json()["detail"]
