"""Default messages and details of errors."""

from assent.core.errors import AssentError, InvalidRequest, NotFound, RateLimited


def test_an_error_without_a_message_uses_the_default_of_its_class() -> None:
    own, plain = NotFound("No such rule.", rule="r"), NotFound()
    assert (own.message, str(own), own.details) == ("No such rule.", "No such rule.", {"rule": "r"})
    assert (plain.message, str(plain), plain.details) == (NotFound.title, NotFound.title, {})
    assert AssentError.code == "internal"


def test_a_validation_error_names_the_invalid_field() -> None:
    refused = InvalidRequest.at("/a/b", "must be text")
    assert refused.message == "/a/b: must be text"
    assert refused.details == {"errors": [{"pointer": "/a/b", "detail": "must be text"}]}


def test_a_validation_error_without_a_field_has_no_pointer() -> None:
    assert InvalidRequest("No.", more=1).details == {"more": 1}
    assert InvalidRequest("No.", errors=({"pointer": "/a"},)).details == {"errors": [{"pointer": "/a"}]}


def test_a_rate_limit_error_includes_when_to_retry() -> None:
    assert (RateLimited().retry_after, RateLimited().details) == (1.0, {})
    slow = RateLimited("Wait.", retry_after=2.5, limit=3)
    assert (slow.message, slow.retry_after, slow.details) == ("Wait.", 2.5, {"limit": 3})
