"""The reference lists every type of admin event in the same order as the code."""

from assent.platform.admin_events import ACTS
from tests.docs.pages import read


def test_every_admin_event_type_is_documented() -> None:
    table = read("reference/administrative-events.md").partition("| type | what happened |")[2]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert listed == list(ACTS)
