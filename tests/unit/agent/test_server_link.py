"""The pauses of an agent before it reconnects."""

import pytest

from ankaios.agent.server_link import reconnect_pause


@pytest.mark.parametrize(("failures", "pause"), [(1, 0.02), (2, 0.04), (3, 0.08), (6, 0.64), (7, 1.0), (10_000, 1.0)])
def test_the_pause_doubles_from_20_milliseconds_to_a_second(failures: int, pause: float) -> None:
    assert reconnect_pause(failures) == pytest.approx(pause)
