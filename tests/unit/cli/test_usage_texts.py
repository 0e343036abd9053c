import pytest

from ankaios.cli.views.usage_texts import cpu_text, memory_text, time_text, usage_cells
from ankaios.common.pb import ank_base_pb2 as base


@pytest.mark.parametrize(("millis", "text"), [(0, "0.00"), (1500, "1.50"), (7, "0.01")])
def test_cpu_is_shown_in_processors(millis: int, text: str) -> None:
    assert cpu_text(millis) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (13_107_200, "12.5 MiB"), (2**60, "1048576 TiB")],
)
def test_memory_has_three_digits_and_a_unit(number: int, text: str) -> None:
    assert memory_text(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m 0s"), (3600, "1h 0m"), (11_525, "3h 12m"), (90_000, "1d 1h")]
)
def test_time_has_two_units(seconds: int, text: str) -> None:
    assert time_text(seconds) == text


def test_unknown_usage_is_a_dash() -> None:
    assert usage_cells(None) == ("-", "-", "-")
    assert usage_cells(base.ResourceUsage(cpuMillis=1, memoryBytes=2, uptimeSeconds=3)) == ("0.00", "2 B", "3s")
