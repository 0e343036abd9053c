"""Lines that others can cause are limited, and the number of suppressed lines is logged."""

import logging

import pytest

from ankaios.common.log_limiter import LimitedLog


def test_lines_are_limited_and_the_suppressed_ones_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    limited = LimitedLog(logging.getLogger("x"), "calls were rejected", clock=lambda: now)
    for number in range(13):
        limited.warning("Rejected %d.", number)
    assert [record.getMessage() for record in caplog.records] == [f"Rejected {number}." for number in range(10)]
    caplog.clear()
    now = 111.0
    limited.warning("Rejected %d.", 13)
    assert [record.getMessage() for record in caplog.records] == ["3 more calls were rejected.", "Rejected 13."]
