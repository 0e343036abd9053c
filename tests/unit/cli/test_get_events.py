"""The form of events."""

import pytest

from ankaios.cli.commands.get_events import event_text
from ankaios.cli.views.times import rfc3339_time
from ankaios.common.pb import ank_base_pb2 as base

SECOND = 1_772_352_930


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (123456789, "2026-03-01T08:15:30.123456789+00:00"),
        (123456000, "2026-03-01T08:15:30.123456+00:00"),
        (120000000, "2026-03-01T08:15:30.120+00:00"),
        (0, "2026-03-01T08:15:30+00:00"),
    ],
)
def test_time_stamps_have_as_many_groups_of_digits_as_needed(nanoseconds: int, text: str) -> None:
    assert rfc3339_time((SECOND) * 10**9 + nanoseconds) == text


def test_empty_lists_are_omitted_and_the_order_is_fixed() -> None:
    event = base.CompleteStateResponse(
        completeState=base.CompleteState(),
        alteredFields=base.AlteredFields(removedFields=["r"], updatedFields=["u"]),
    )
    assert (
        event_text(event, "T", "yaml")
        == "---\ntimestamp: T\nupdatedFields:\n- u\nremovedFields:\n- r\ncompleteState: {}\n"
    )
    assert event_text(event, "T", "json") == (
        '{"timestamp":"T","updatedFields":["u"],"removedFields":["r"],"completeState":{}}\n'
    )
