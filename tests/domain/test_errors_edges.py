"""Messages and details of errors."""

from assent.domain.errors import AssentError, InvalidRequest, NotFound, RateLimited


def test_an_error_has_a_sentence_of_its_own_or_that_of_its_kind() -> None:
    own, plain = NotFound("No such rule.", rule="r"), NotFound()
    assert (own.message, str(own), own.details) == ("No such rule.", "No such rule.", {"rule": "r"})
    assert (plain.message, str(plain), plain.details) == (NotFound.title, NotFound.title, {})
    assert AssentError.code == "internal"


def test_a_request_is_refused_at_its_place() -> None:
    refused = InvalidRequest.at("/a/b", "must be text")
    assert refused.message == "/a/b: must be text"
    assert refused.details == {"errors": [{"pointer": "/a/b", "detail": "must be text"}]}


def test_a_request_refused_as_a_whole_names_no_place() -> None:
    assert InvalidRequest("No.", more=1).details == {"more": 1}
    assert InvalidRequest("No.", errors=({"pointer": "/a"},)).details == {"errors": [{"pointer": "/a"}]}


def test_whoever_is_too_fast_is_told_when_to_come_back() -> None:
    assert (RateLimited().retry_after, RateLimited().details) == (1.0, {})
    slow = RateLimited("Wait.", retry_after=2.5, limit=3)
    assert (slow.message, slow.retry_after, slow.details) == ("Wait.", 2.5, {"limit": 3})
