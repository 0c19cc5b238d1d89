"""A run's mark counts only in new text, not in the text that an event refers to."""

import json
from typing import Any

import pytest

from assent.triggers.sources.reading import MOST_MARKS, marks
from tests.triggers.sources.signing import take

RUN = "run_0123456789"
MARK = f"assent-run:{RUN}"


def told(kind: str, header: str, event: str, **body: Any) -> tuple[str, ...]:
    return take(kind, {header: event} if header else {}, body).marks


def github(event: str, **body: Any) -> tuple[str, ...]:
    return told("github", "x-github-event", event, **body)


@pytest.mark.parametrize("action", ["opened", "edited"])
def test_marks_in_new_or_edited_github_text_count(action: str) -> None:
    assert github("issues", action=action, issue={"body": MARK}) == (RUN,)
    assert github("pull_request", action=action, pull_request={"title": "x", "body": f"{'x' * 9_000}{MARK}"}) == (RUN,)


def test_marks_do_not_count_when_people_act_on_a_github_issue_of_a_run() -> None:
    assert github("issues", action="labeled", issue={"body": MARK}) == ()
    assert github("pull_request", action="closed", pull_request={"body": MARK, "merged": True}) == ()
    assert github("issue_comment", action="created", issue={"body": MARK}, comment={"body": "Try again."}) == ()
    assert github("pull_request_review", action="submitted", pull_request={"body": MARK}, review={"body": "No."}) == ()


def test_marks_in_github_comments_reviews_and_commits_count() -> None:
    assert github("issue_comment", issue={"body": "x"}, comment={"body": MARK}) == (RUN,)
    assert github("pull_request_review", pull_request={"body": "x"}, review={"body": MARK}) == (RUN,)
    assert github("push", commits=[{"message": "a"}, {"message": f"b\n\n{MARK}"}]) == (RUN,)
    assert github("push", commits=[{"message": "a"}], repository={"description": MARK}) == ()


def test_marks_anywhere_in_other_kinds_of_events_count() -> None:
    assert github("workflow_run", workflow_run={"head_commit": {"message": MARK}}) == (RUN,)
    assert told("jenkins", "", "", name="shop", build={"log": MARK}) == (RUN,)


def gitlab(kind: str, about: dict[str, Any], **more: Any) -> tuple[str, ...]:
    return told("gitlab", "", "", object_kind=kind, object_attributes=about, **more)


def test_only_marks_in_new_gitlab_text_count() -> None:
    request = {"description": MARK, "title": "x"}
    assert gitlab("merge_request", {"action": "open", **request}) == (RUN,)
    assert gitlab("merge_request", {"action": "update", **request}, changes={"description": {"current": "x"}}) == (RUN,)
    assert gitlab("merge_request", {"action": "update", **request}, changes={"labels": {"current": []}}) == ()
    pushed = {"action": "update", "oldrev": "a", "last_commit": {"message": MARK}}
    assert gitlab("merge_request", pushed) == (RUN,)
    assert gitlab("merge_request", {"action": "merge", **request}) == ()
    assert gitlab("note", {"note": "Try again."}, merge_request=request) == ()
    assert gitlab("note", {"note": MARK}, merge_request={"description": "x"}) == (RUN,)
    assert told("gitlab", "", "", object_kind="push", commits=[{"message": MARK}]) == (RUN,)


def bitbucket(event: str, **body: Any) -> tuple[str, ...]:
    return told("bitbucket", "x-event-key", event, **body)


def test_only_marks_in_new_bitbucket_text_count() -> None:
    assert bitbucket("pullrequest:created", pullrequest={"description": MARK}) == (RUN,)
    assert bitbucket("pr:opened", pullRequest={"description": MARK}) == (RUN,)
    assert bitbucket("pullrequest:fulfilled", pullrequest={"description": MARK}) == ()
    said = {"content": {"raw": "Try again."}}
    assert bitbucket("pullrequest:comment_created", pullrequest={"description": MARK}, comment=said) == ()
    assert bitbucket("pr:comment:added", pullRequest={"description": "x"}, comment={"text": MARK}) == (RUN,)
    assert bitbucket("repo:push", push={"changes": [{"commits": [{"message": MARK}]}]}) == (RUN,)


def jira(event: str, **body: Any) -> tuple[str, ...]:
    return told("jira", "", "", webhookEvent=event, **body)


def test_only_marks_in_new_jira_text_count() -> None:
    issue = {"fields": {"summary": "x", "description": MARK}}
    assert jira("jira:issue_created", issue=issue) == (RUN,)
    assert jira("jira:issue_updated", issue=issue, changelog={"items": [{"field": "status", "toString": "Done"}]}) == ()
    changed = {"items": [{"field": "description", "toString": MARK}]}
    assert jira("jira:issue_updated", issue=issue, changelog=changed) == (RUN,)
    assert jira("comment_created", issue=issue, comment={"body": "Try again."}) == ()
    document = {"type": "doc", "content": [{"type": "text", "text": MARK}]}
    assert jira("comment_created", issue={"fields": {}}, comment={"body": document}) == (RUN,)


def test_the_first_and_last_of_many_marks_are_kept() -> None:
    runs = [f"run_{n:010}" for n in range(100)]
    found = marks(" ".join(f"assent-run:{each}" for each in [*runs, *runs]))
    assert len(found) == MOST_MARKS
    assert (found[0], found[-1]) == (runs[0], runs[-1])


def test_searching_malformed_bodies_for_marks_never_fails() -> None:
    for odd in (None, 1, "x", [], [None], {"body": 7}):
        assert github("issue_comment", comment=odd, issue=odd, review=odd) == ()
        assert github("push", commits=odd, head_commit=odd) == ()
        assert json.dumps(odd)
