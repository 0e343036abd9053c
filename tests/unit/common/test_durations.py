from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.durations import format_duration, parse_duration


@given(st.integers(0, 99 * 3_600_000))
def test_a_text_means_the_duration_it_was_made_from(milliseconds: int) -> None:
    text = format_duration(milliseconds)
    if not text.endswith("ms") or milliseconds < 10**7:
        assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("value", "milliseconds"), [("0s", 0), ("500ms", 500), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000), (7, 7000)]
)
def test_durations_have_a_unit_or_are_seconds(value: Any, milliseconds: int) -> None:
    assert parse_duration(value) == milliseconds


@pytest.mark.parametrize(
    "value", ["", "5", "s", "1.5s", "-1s", "5 s", "5d", "9" * 40 + "s", -1, 10**6, 1.5, True, None, []]
)
def test_other_texts_are_no_durations(value: Any) -> None:
    assert parse_duration(value) is None
