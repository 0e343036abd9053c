"""Conversion of argument texts."""

from datetime import UTC, datetime, timedelta

import pytest

from ankaios.cli.command_line.argument_values import milliseconds, point_in_time, update_mask


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "9" * 30])
def test_milliseconds_are_whole_and_not_negative(text: str) -> None:
    with pytest.raises(ValueError, match=r"digit|empty|large"):
        milliseconds(text)
    assert milliseconds("3000") == 3000


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T08:00:00Z",
        "2026-03-01T08:00:00.123456789+02:00",
        "2026-03-01t08:00:00z",
        "2026-03-01 08:00:00",
        "2026-03-01",
        "1772352000",
    ],
)
def test_a_point_in_time_is_passed_on_unchanged(text: str) -> None:
    assert point_in_time(text) == text


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2h1s", 7201)])
def test_a_duration_is_converted_into_the_time_that_long_ago(text: str, seconds: int) -> None:
    before = datetime.now(UTC) - timedelta(seconds=seconds + 1)
    assert before <= datetime.fromisoformat(point_in_time(text)) <= datetime.now(UTC) - timedelta(seconds=seconds - 1)


@pytest.mark.parametrize("text", ["", "yesterday", "10 m", "m", "2026-13-01", "9" * 20 + "h"])
def test_other_texts_are_rejected_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a time such as 2026-03-01T08:00:00Z .* such as 90s, 10m or 1h30m"):
        point_in_time(text)


def test_an_empty_mask_is_rejected_with_an_example() -> None:
    assert update_mask("desiredState.workloads.web") == "desiredState.workloads.web"
    for text in ("", " "):
        with pytest.raises(ValueError, match=r"an empty mask selects nothing; name a part .* desiredState\.workloads"):
            update_mask(text)
