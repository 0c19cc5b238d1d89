"""Parsing of arbitrary bodies: unexpected values are omitted, and long ones are truncated."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.triggers.payload_secrets import Redactor
from assent.triggers.sources import bitbucket
from assent.triggers.sources.reading import branch_of, commit, conclusion, moment, named_type, path_of, text, word
from tests.triggers.sources.signing import SETTINGS, golden, take

ATOMS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20)
JSON = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner))
EVERY = {
    "github": "workflow_run_failed",
    "gitlab": "pipeline_failed",
    "bitbucket": "push",
    "gitea": "push",
    "forgejo": "action_run_failure",
    "circleci": "workflow_completed",
    "jenkins": "completed",
    "jira": "issue_updated",
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, each in inner for found in places(each, (*path, name)))]


def with_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_at(value[path[0]], path[1:], new)
    return copy


def clean(value: Any) -> bool:
    """Return whether Assent accepts this JSON, which must not contain NUL or lone surrogates."""
    try:
        spelt = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return b"\\u0000" not in spelt


@pytest.mark.parametrize("kind", sorted(EVERY))
@given(data=st.data())
def test_arbitrary_values_anywhere_in_a_payload_cause_no_errors(kind: str, data: st.DataObject) -> None:
    case = golden(kind, EVERY[kind])
    path = data.draw(st.sampled_from([each for each in places(case["body"]) if each]))
    body = with_at(case["body"], path, data.draw(JSON.filter(clean)))
    arrived = take(kind, case["headers"], body)
    assert arrived.type.startswith(f"{kind}.")
    assert arrived.data == Redactor()(body)


@pytest.mark.parametrize("kind", sorted(set(SETTINGS) - {"webhook"}))
def test_an_event_with_an_empty_body_has_no_view(kind: str) -> None:
    arrived = take(kind, {}, {})
    assert arrived.type.startswith(f"{kind}.")
    assert set(arrived.view) <= {"action", "tags"}


def test_long_values_are_truncated() -> None:
    case = golden("github", "push")
    many = [{"added": [f"{n}-{'x' * 5_000}.py" for n in range(m, m + 700)]} for m in (0, 700)]
    view = take("github", case["headers"], {**case["body"], "commits": many, "ref": "refs/heads/" + "b" * 9_000}).view
    assert len(view["paths"]) == 1_000
    assert {len(path) for path in view["paths"]} == {4_000}
    assert len(view["ref"]) == 4_000


@pytest.mark.parametrize(
    ("given_", "read"),
    [
        ("2026-11-10T08:31:00Z", 1_794_299_460_000_000),
        ("2026-11-10 08:31:00 UTC", 1_794_299_460_000_000),
        ("2026-11-10T09:31:00+0100", 1_794_299_460_000_000),
        (1_794_299_460, 1_794_299_460_000_000),
        (1_794_299_460_000, 1_794_299_460_000_000),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
        (-1, None),
        (True, None),
        (2**53, None),
        ([], None),
    ],
)
def test_times_are_parsed_in_every_supported_format(given_: Any, read: int | None) -> None:
    assert moment(given_) == read


def test_branches_commits_conclusions_and_event_names_are_normalized() -> None:
    assert [branch_of(each) for each in ("refs/heads/a/b", "refs/tags/v1", "main", None)] == ["a/b", None, "main", None]
    assert [commit(each) for each in ("0" * 40, "abc", None)] == [None, "abc", None]
    words = ("FAILED", "Canceled", "success", "UNSTABLE", "odd", None)
    assert [conclusion(each) for each in words] == ["failure", "cancelled", "success", "unstable", None, None]
    assert [text(each) for each in (" a ", 7, "", True, 1.5)] == ["a", "7", None, None, None]
    assert [word(each) for each in ("pull_request", "Merge Request Hook", "(x) y", "..")] == [
        "pull-request", "merge-request-hook", "x-y", "",
    ]  # fmt: skip
    assert named_type("github", "push", None) == "github.push"


@pytest.mark.parametrize(
    "url",
    ["git@host.example:acme/shop.git", "https://host.example/acme/shop", "ssh://git@host.example:22/acme/shop.git"],
)
def test_the_repository_path_is_found_in_every_form_of_url(url: str) -> None:
    assert path_of(url) == "acme/shop"


@pytest.mark.parametrize(
    "state",
    ["in_progress", "INPROGRESS", "queued", "pending", "running", "waiting", "requested", "created", "preparing",
     "scheduled", "manual", "on_hold", "blocked", "STARTED"],
)  # fmt: skip
def test_an_unfinished_build_has_no_conclusion(state: str) -> None:
    assert conclusion(state) is None


BITBUCKET_ACTORS: list[tuple[dict[str, str | int], str]] = [
    ({"account_id": "557058:ada", "nickname": "Ada", "display_name": "Ada L.", "uuid": "{1}"}, "557058:ada"),
    ({"uuid": "{1}", "nickname": "Ada", "display_name": "Ada L."}, "{1}"),
    ({"nickname": "ada"}, "ada"),
    ({"display_name": "Former user"}, "Former user"),
    ({"name": "ada", "displayName": "Ada L.", "id": 7}, "ada"),
    ({"slug": "ada", "displayName": "Ada L."}, "ada"),
    ({"displayName": "Ada L."}, "Ada L."),
    ({"id": 7}, "7"),
]


@pytest.mark.parametrize(("actor", "expected"), BITBUCKET_ACTORS)
def test_the_bitbucket_actor_is_the_most_stable_account_name(actor: dict[str, Any], expected: str) -> None:
    told = bitbucket.read({"x-event-key": "repo:push"}, {"actor": actor})
    assert told.view["actor"] == expected
