"""Delays grow with the number of failures."""

from ankaios.common.growing_delay import growing_delay


def test_a_delay_doubles_with_each_failure_up_to_the_longest() -> None:
    assert [growing_delay(failures, 0.5, 3.0) for failures in (1, 2, 3, 4, 1000)] == [0.5, 1.0, 2.0, 3.0, 3.0]
