"""Validation errors are shown as plain sentences."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assent import contracts as wire
from assent.contracts.create import CreateBreakpoint
from assent.http.problems import from_validation
from assent.http.validation import PATTERNS

VALIDATOR = re.compile("should|Input|String|Field|Extra|pattern|valid ")


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({}, "is required"),
        ({"agentId": 5}, "must be text"),
        ({"agentId": ""}, "must not be empty"),
        ({"agentId": "a" * 201}, "must be at most 200 characters long"),
        ({"agentId": "a\nb"}, "must not contain line breaks or control characters"),
        ({"ttlSeconds": 0}, "must be at least 1"),
        ({"ttlSeconds": "soon"}, "must be a whole number"),
        ({"onTimeout": "approve"}, "must be one of 'expire' or 'reject'"),
        ({"callbackUrl": "ftp://x"}, "must be an http:// or https:// address"),
        ({"payload": []}, "must be an object"),
        ({"tags": "a"}, "must be a list"),
        ({"surprise": 1}, "is not a known field"),
    ],
)
def test_a_validation_error_is_a_plain_sentence(sent: dict[str, Any], said: str) -> None:
    base = {"agentId": "bot", "payload": {"question": "?"}} if sent else {}
    with pytest.raises(ValidationError) as refused:
        CreateBreakpoint.model_validate(base | sent)
    found: Any = dict(from_validation(refused.value).details)["errors"]
    assert found[0]["detail"] == said
    assert not VALIDATOR.search(" ".join(each["detail"] for each in found))


def test_every_pattern_of_a_wire_model_has_a_message() -> None:
    used = {
        found
        for path in Path(wire.__file__).parent.glob("*.py")
        for found in re.findall(r'pattern=r"([^"]+)"', path.read_text())
    }
    assert used
    assert used <= PATTERNS.keys()
